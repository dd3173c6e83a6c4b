"""A run of writing: frames into an encoder, packets and all other tracks into a file."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import av
from av.codec.context import Flags
from av.container import OutputContainer
from av.error import FFmpegError
from av.video.codeccontext import VideoCodecContext
from av.video.stream import VideoStream

from mien.errors import ClipUnwritable
from mien.media.clip.encoder import Clockwork, Decoding, new_context, rate_of, set_up
from mien.media.clip.encoding import SEGMENT
from mien.media.clip.fitting import Fitter
from mien.media.clip.labels import BITEXACT, label, track_tags
from mien.media.clip.look import Look
from mien.media.clip.order import Order, Written, plan_for
from mien.media.clip.segments import Packet, Work
from mien.media.clip.stored import StoredFrame
from mien.media.clip.tracks import Tracks, check_gap
from mien.media.clip.trying import forget

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the system says of a disk that is full."""

SILENT = frozenset({"vp8", "vp9", "av1"})
"""Codecs whose own data do not say what shape pixels have."""


class Run:
    """An output that is being written."""

    def __init__(
        self,
        order: Order,
        output: OutputContainer,
        look: Look,
        origin: Fraction,
        work: Work | None,
    ) -> None:
        info, settings = order.clip.info, order.settings
        self._order, self._output, self._work = order, output, work
        self._plan = plan_for(look, info, order.container, settings, order.path)
        self._fitter = Fitter(look, self._plan, order.container, settings)
        rate = rate_of(info)
        unit = info.time_base if order.container.name != "avi" else 1 / rate
        self._clock = Clockwork(unit, rate, origin)
        # some hardware counts time in units of its own. It is told the numbers of frames within a
        # segment, and packets get the times back
        self._numbers = bool(self._plan.encoder.family)
        self._encoders = Clockwork(1 / rate, rate, origin) if self._numbers else self._clock
        self._counts: dict[int, int] = {}
        output.flags |= BITEXACT
        self._stream = self._add_pictures()
        self._tracks = Tracks(
            order.clip.path,
            output,
            order.container,
            sound=settings.sound,
            covers=settings.covers,
            start=None if order.start is None else origin,
            end=order.end,
            origin=origin,
        )
        label(
            output,
            info,
            order.container,
            tags=settings.tags,
            start=None if order.start is None else origin,
            end=order.end,
            origin=origin,
        )
        self._context: VideoCodecContext | None = None
        self._depth: int | None = None
        self._decoding: Decoding | None = None
        self._durations: dict[int, int] = {}
        self._in_segment = 0
        self._last_count: int | None = None
        self._crowded = 0
        self._rounded = False
        self.frames = 0
        self._begin = Fraction(0)
        self._shown: tuple[Fraction | None, Fraction, Fraction]
        """When the first frame of the segment is shown, the last one, and when that ends."""
        self._shown = (None, Fraction(0), Fraction(0))
        if work is not None and work.segments:
            self.frames = work.frames
            self._begin = Fraction(work.segments[0].first)
            self._last_count = self._clock.count(Fraction(work.segments[-1].last))
            self._shown = (None, Fraction(0), Fraction(work.segments[-1].end))

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self._tracks.release()
        if error is None:
            self._output.close()
        # else the trailer would be written into a file that is about to go

    def write(self, frame: StoredFrame) -> None:
        """Encode the next frame, and put what is ready into the file or a segment."""
        count = self._clock.count(frame.time)
        if self._order.container.name == "avi" and self._last_count is not None:
            # segments are not written into the file before all are there
            check_gap(count - self._last_count - 1, self._clock.rate)
        self._rounded |= ((frame.time - self._clock.origin) * self._ticks()).denominator != 1
        if self._last_count is not None and count <= self._last_count:
            count = self._last_count + 1  # two frames within one unit of the output
            self._crowded += 1
        self._last_count = count
        if self._context is None:
            with self._explained():
                self._context = self._next_context()
        raw = self._fitter.fit(frame)
        raw.pts, raw.time_base = count, self._clock.unit
        if self._numbers:
            raw.pts, raw.time_base = self._in_segment, self._encoders.unit
        assert raw.pts is not None
        self._counts[raw.pts] = count
        duration = 0 if frame.duration is None else round(frame.duration / self._clock.unit)
        self._durations[count] = duration
        self._note(frame.time, frame.time + duration * self._clock.unit)
        if self._work is None:
            self._timing().shown(count)
        self._take(self._encode(raw))
        self.frames += 1
        self._in_segment += 1
        if self._in_segment == SEGMENT:
            self._end_segment()

    def finish(self) -> None:
        """Write what encoders hold back, finished segments, and the rest of the other tracks."""
        self._end_segment()
        if self._work is not None:
            self._join(self._work)
        self._tracks.close()

    def summary(self) -> Written:
        """Return what was written; its size is not known yet."""
        info, kind = self._order.clip.info, self._order.container
        notes = [*self._plan.notes, *self._fitter.notes]
        notes += [f"Left out: {name}." for name in dict.fromkeys(info.unheld)]
        if self._tracks.refused:
            notes.append(f"{self._tracks.refused} packet(s) were too damaged to be written.")
        if self._crowded:
            notes.append(f"{self._crowded} frame(s) were moved: {kind.name} cannot time them.")
        if self._rounded:
            unit = self._ticks()
            notes.append(f"Times were rounded to {unit} a second, all that {kind.name} can tell.")
        if self._aspect_lost():
            notes.append(
                f"Stored pixels are {self._fitter.shape.aspect} times as wide as high, which "
                f"{self._plan.codec} in {self._order.container.name} cannot be made to say here."
            )
        return Written(
            path=self._order.path,
            frames=self.frames,
            duration=self._shown[2] - self._begin,
            size=0,
            codec=self._plan.codec,
            tracks=tuple(self._tracks.reports),
            notes=(*self._order.clip.notes, *notes),
        )

    def _add_pictures(self) -> VideoStream:
        stream = self._output.add_stream(self._plan.encoder.name, rate=self._clock.rate)
        assert isinstance(stream, VideoStream)
        self._headers_apart = bool(stream.codec_context.flags & Flags.global_header)
        self._set_up(stream.codec_context)
        stream.time_base = self._clock.unit
        stream.metadata.update(track_tags(self._order.clip.info.pictures_metadata))
        if self._plan.codec == "hevc" and self._order.container.edits:
            stream.codec_context.codec_tag = "hvc1"  # the one that all players know
        orientation = self._fitter.shape.orientation
        if not orientation.plain:
            stream.set_display_matrix(orientation.matrix)
        return stream

    def _ticks(self) -> Fraction:
        """Return how many times a second the output can tell apart."""
        unit = self._order.container.unit
        return 1 / self._clock.unit if unit is None else Fraction(unit)

    def _aspect_lost(self) -> bool:
        """Return whether the shape of pixels is lost: PyAV cannot tell it to Matroska's writer."""
        alone = self._order.container.name in ("matroska", "webm")
        return alone and self._plan.codec in SILENT and self._fitter.shape.aspect != 1

    def _set_up(self, context: VideoCodecContext) -> VideoCodecContext:
        return set_up(
            context,
            self._plan,
            self._fitter.pixel_format,
            self._fitter.shape,
            self._encoders,
            threads=self._order.settings.threads,
            headers_apart=self._headers_apart,
        )

    def _next_context(self) -> VideoCodecContext:
        """Return an encoder that starts afresh.

        The output's own is opened for what it says, and encodes nothing: it lasts as long as the
        file, and what an encoder holds at work may be some hundred MB.
        """
        if self._depth is None and self._work is None:
            self._output.start_encoding()
            self._depth = self._reordered(self._stream.codec_context)
        context = self._set_up(new_context(self._plan.encoder.name))
        context.open()
        self._depth = max(self._depth or 0, self._reordered(context))
        return context

    def _encode(self, raw: av.VideoFrame | None) -> list[Packet]:
        """Return what is ready once ``raw`` is encoded; with None, all that the encoder holds.

        Raises ClipUnwritable if hardware fails, and what PyAV raises.
        """
        assert self._context is not None
        with self._explained():
            kept = [self._kept(packet) for packet in self._context.encode(raw)]
        if self._numbers and raw is None and self._counts:
            raise self._broken(f"{len(self._counts)} frame(s) did not come out of it")
        return kept

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say what to do instead if hardware fails."""
        try:
            yield
        except (FFmpegError, KeyError, RuntimeError) as error:
            if not self._numbers or getattr(error, "errno", None) in FULL:
                raise
            raise self._broken(getattr(error, "strerror", None) or str(error)) from error

    def _broken(self, why: str) -> ClipUnwritable:
        """Return what is to be said of hardware that fails in the middle."""
        forget()
        path, frames = self._order.path, self.frames
        kept = "" if self._work is None else " Finished pieces are kept for the same command."
        return ClipUnwritable(
            f"{path} could not be written: {self._plan.encoder.name} failed after {frames} frames "
            f"({why}). With the encoder none (--encoder none) the CPU encodes all of it.{kept}",
            path=path,
        )

    def _reordered(self, context: VideoCodecContext) -> int:
        return max(context.reorder_depth, self._plan.encoder.reorders)

    def _timing(self) -> Decoding:
        if self._decoding is None:
            assert self._depth is not None
            self._decoding = Decoding(self._depth)
        return self._decoding

    def _take(self, kept: list[Packet]) -> None:
        if self._work is not None:
            self._work.add(kept)
            return
        for packet in kept:
            self._mux(packet)

    def _kept(self, packet: av.Packet[Any]) -> Packet:
        """Return what counts of a packet. What else it says of itself, a segment does not hold."""
        assert packet.pts is not None
        shown = self._counts.pop(packet.pts)
        duration = self._durations.pop(shown, 0)
        return Packet(shown, duration, packet.is_keyframe, bytes(packet))

    def _mux(self, kept: Packet) -> None:
        packet = av.Packet(kept.data)
        packet.pts, packet.dts = kept.shown, self._timing().next(kept.shown)
        packet.duration, packet.is_keyframe = kept.duration, kept.key
        packet.time_base = self._clock.unit
        packet.stream = self._stream
        self._tracks.advance(packet.dts * self._clock.unit)
        self._tracks.mux(packet)

    def _end_segment(self) -> None:
        if self._context is None:
            return
        self._take(self._encode(None))
        if self._work is not None:
            first, last, end = self._shown
            span = (last if first is None else first, last, end)
            self._work.finish(frames=self._in_segment, span=span, origin=self._clock.origin)
        self._context, self._in_segment = None, 0
        self._counts.clear()
        self._shown = (None, *self._shown[1:])

    def _join(self, work: Work) -> None:
        self._output.start_encoding()
        self._depth = self._reordered(self._stream.codec_context)
        for packets in work.packets():
            for shown in sorted(packet.shown for packet in packets):
                self._timing().shown(shown)
            for packet in packets:
                self._mux(packet)

    def _note(self, time: Fraction, end: Fraction) -> None:
        if not self.frames:
            self._begin = time
        first, _, _ = self._shown
        self._shown = (time if first is None else first, time, end)
