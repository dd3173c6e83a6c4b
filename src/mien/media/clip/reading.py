"""Reading clips: every frame that decodes, in order, at its own time."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Literal, get_args

import av
from av.codec.hwaccel import HWAccel
from av.filter import Graph
from av.video.stream import VideoStream

from mien.errors import ClipUnreadable, InvalidOption
from mien.media.clip.damage import Ledger, Lost
from mien.media.clip.demuxing import (
    decoded,
    deinterlacer,
    opened_at,
    packets_of,
    pulled,
    told_end,
    unread,
)
from mien.media.clip.hardware import Hardware, choose_decoder
from mien.media.clip.info import MAX_MEGAPIXELS, ClipInfo, read_info
from mien.media.clip.layout import in_planes, like
from mien.media.clip.look import Look
from mien.media.clip.opening import explained, pictures_of
from mien.media.clip.seams import Seams
from mien.media.clip.stored import StoredFrame

Fields = Literal["deinterlace", "keep", "refuse"]


class Clip:
    """A clip that can be read, several times if need be.

    Raises ClipUnreadable if the file is not a clip, holds no pictures that decode, or has frames
    of more than ``max_megapixels``.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, max_megapixels: float = MAX_MEGAPIXELS
    ) -> None:
        self.path = Path(path)
        self.info: ClipInfo
        self.look: Look
        self.info, self.look = read_info(self.path, max_megapixels=max_megapixels)
        self._ledger: Ledger | None = None
        self._notes: dict[str, None] = {}

    @property
    def lost(self) -> tuple[Lost, ...]:
        """What the last reading could not get, by time; complete once it has ended."""
        return () if self._ledger is None else tuple(self._ledger.losses)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the last reading had to do to the frames, in sentences."""
        return tuple(self._notes)

    def frames(
        self,
        *,
        start: Fraction | None = None,
        end: Fraction | None = None,
        sdr: bool = False,
        fields: Fields = "deinterlace",
        hardware: Hardware = "none",
        threads: int | None = None,
    ) -> Generator[StoredFrame, None, None]:
        """Yield every frame that decodes and is shown from ``start`` on and before ``end``.

        Times are seconds as the clip counts them, and are rounded to its unit. ``sdr`` brings HDR
        and wide colours to BT.709. ``fields`` says what becomes of interlaced frames.
        ``hardware`` is what decodes where it can; see ``notes``. ``threads`` are the decoder's;
        None for as many as there are cores. Damage ends nothing: see ``lost``. Raises
        InvalidOption, and
        ClipUnreadable if the file vanishes, or is interlaced and refused.
        """
        for name, value, kind in (("fields", fields, Fields), ("hardware", hardware, Hardware)):
            if value not in get_args(kind):
                raise InvalidOption(name, value, get_args(kind))
        if start is not None and end is not None and end <= start:
            raise InvalidOption("end", str(end), f"a time after start, {start}")
        self._notes = {}
        base = self.info.time_base
        start, end = (None if t is None else round(t / base) * base for t in (start, end))
        decoder = choose_decoder(self.path, hardware)
        if hardware != "none":
            self._note(str(decoder))
        if sdr and not self.look.tones.plain:
            self._note("HDR and wide colours were brought to BT.709 with 8 bits (BT.2390).")
        with explained(self.path):
            frames = self._stored(start, end, fields, decoder.device, threads)
            for number, frame in enumerate(frames):
                shown = replace(frame, number=number)
                yield shown.in_sdr() if sdr else shown

    def _stored(
        self,
        start: Fraction | None,
        end: Fraction | None,
        fields: Fields,
        device: HWAccel | None,
        threads: int | None,
    ) -> Iterator[StoredFrame]:
        container = opened_at(self.path, start, device)
        with container:
            track = pictures_of(container, self.path)
            track.thread_type = "AUTO"
            if threads is not None:
                track.thread_count = threads
            self._ledger = ledger = Ledger(
                self.info.codec,
                holes=container.format.name.startswith("matroska"),
                fields=self.info.interlaced,
            )
            seen, seams = [0], Seams(container.format.name)
            packets = packets_of(container, ledger, seams)
            frames = self._timed(decoded(packets, track, ledger, seen), track, ledger)
            if fields != "keep":
                frames = self._progressive(frames, fields)
            reached = False
            for frame, time, damaged in frames:
                if start is not None and time < start:
                    continue
                if end is not None and time >= end:
                    reached = True
                    break
                yield self._frame(frame, time, damaged)
            if seams.jumps:
                self._note("The clock of the file jumps; times were joined where it does.")
            whole = start is None and not reached
            ledger.close(
                start=Fraction(0) if start is None else start,
                end=end if reached else None,
                told=told_end(container),
                indexed=unread(track, seen[0]) if whole and "mov" in container.format.name else [],
            )

    def _timed(
        self, frames: Iterator[av.VideoFrame], track: VideoStream, ledger: Ledger
    ) -> Iterator[tuple[av.VideoFrame, Fraction, bool]]:
        """Yield frames with the times they are shown at, which never go back."""
        last: Fraction | None = None
        for frame in frames:
            base = frame.time_base or track.time_base
            assert base is not None
            count = frame.pts if frame.pts is not None else frame.dts
            if count is not None:
                time = count * base
            else:
                time = Fraction(0) if last is None else last + (frame.duration or 1) * base
            damaged = ledger.frame(time, corrupt=frame.is_corrupt)
            if last is not None and time <= last:
                self._note("Some frames had no time of their own, and were put after those before.")
                time = last + base
            last = time
            frame.pts, frame.time_base = int(time / base), base
            yield frame, time, damaged

    def _progressive(
        self, frames: Iterator[tuple[av.VideoFrame, Fraction, bool]], fields: Fields
    ) -> Iterator[tuple[av.VideoFrame, Fraction, bool]]:
        """Yield the frames with the lines of interlaced ones brought together, one for one."""
        waiting: list[tuple[Fraction, bool]] = []
        graph: Graph | None = None
        for frame, time, damaged in frames:
            if graph is None:
                if not frame.interlaced_frame:
                    yield frame, time, damaged
                    continue
                if fields == "refuse":
                    raise ClipUnreadable(
                        f"{self.path} is interlaced, which was to be refused.", path=self.path
                    )
                self._note("Interlaced frames were deinterlaced (bwdif), one frame for each.")
                graph = deinterlacer(frame)
            waiting.append((time, damaged))
            graph.vpush(frame)
            yield from pulled(graph, waiting)
        if graph is not None:
            graph.vpush(None)
            yield from pulled(graph, waiting)

    def _frame(self, frame: av.VideoFrame, time: Fraction, damaged: bool) -> StoredFrame:
        look = self.look
        raw = in_planes(frame)
        if (raw.width, raw.height, raw.format.name) != (look.width, look.height, look.layout.name):
            self._note(
                f"The frames change from {look.width}x{look.height} {look.layout.name} to "
                f"{raw.width}x{raw.height} {raw.format.name}; they were fitted to the first."
            )
            raw = raw.reformat(look.width, look.height, look.layout.name, threads=1)
        if raw is not frame:
            raw = like(frame, raw)
        base = frame.time_base
        assert base is not None
        duration = frame.duration * base if frame.duration else None
        return StoredFrame(raw, look, time, duration, damaged=damaged)

    def _note(self, sentence: str) -> None:
        self._notes[sentence] = None
