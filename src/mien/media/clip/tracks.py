"""All tracks but the pictures: copied where the output can hold them, else rewritten or left out.

Nothing goes silently: every track of the input has a report.
"""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
from av.container import OutputContainer
from av.error import FFmpegError

from mien.media.clip.containers import TEXTS, Container
from mien.media.clip.info import TrackKind, codec_name, kind_of
from mien.media.clip.labels import LISTED, track_tags
from mien.media.clip.lanes import Fate, Lane, TrackReport, cover_of, read_tracks, time_of
from mien.media.clip.opening import open_clip, pictures_of
from mien.media.clip.seams import Seams
from mien.media.clip.settings import Covers, Sound
from mien.media.clip.sound import Reencoder
from mien.media.clip.subtitles import READ, rewritten
from mien.media.formats import READABLE

MOST_MISSING = 60_000
"""Empty frames that FFmpeg writes into an AVI at once."""

MOST_REFUSED = 1000
"""Packets too damaged to be written, beyond which something else must be wrong."""

BEYOND = 10
"""Seconds after the end of a cut up to which tracks may lie in the file out of order."""

SHORTEST = Fraction(1, 1000)
EXACT = frozenset({"flac", "alac", "wavpack", "tta", "truehd", "ape", "mlp", "shorten"})

ASS_HEADER = b"""[Script Info]
ScriptType: v4.00+
[V4+ Styles]
Format: Name, Fontname, Fontsize, PrimaryColour, SecondaryColour, OutlineColour, BackColour, \
Bold, Italic, Underline, StrikeOut, ScaleX, ScaleY, Spacing, Angle, BorderStyle, Outline, \
Shadow, Alignment, MarginL, MarginR, MarginV, Encoding
Style: Default,Arial,16,&Hffffff,&Hffffff,&H0,&H0,0,0,0,0,100,100,0,0,1,1,0,2,10,10,10,0
[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
"""
"""What FFmpeg's writers of subtitles want to see first; it is the style that it starts from too."""


def check_gap(missing: int, rate: Fraction) -> None:
    """Raise ValueError if an AVI of ``rate`` frames a second cannot lack ``missing`` of them."""
    if missing > MOST_MISSING:
        raise ValueError(
            f"AVI has one frame rate and cannot hold the gap of {float(missing / rate):.0f} "
            "seconds in the clip; use another kind of file, such as .mkv"
        )


class Tracks:
    """Reads the other tracks of the clip at ``path`` and writes them into ``output``.

    Kept is what is heard or seen from ``start`` on and before ``end``, moved so that ``origin``
    becomes zero; all in seconds as the clip counts them. Must be made before the output's header
    is written. Raises what PyAV raises.
    """

    def __init__(
        self,
        path: Path,
        output: OutputContainer,
        container: Container,
        *,
        sound: Sound,
        covers: Covers,
        start: Fraction | None,
        end: Fraction | None,
        origin: Fraction,
        pictures: bool = False,
    ) -> None:
        self._output, self._kind = output, container
        self._sound, self._keeps_covers = sound, covers == "copy"
        self._start, self._end, self._origin = start, end, origin
        self.reports: list[TrackReport] = []
        self._lanes: dict[int, Lane] = {}
        self._covers: list[av.Packet[Any]] = []
        self._filled: dict[int, int] = {}
        """Frames in an AVI so far, empty ones too, by track."""

        self.pictures = 0
        """How many packets of pictures were copied."""

        self.pictures_span = Fraction(0)
        """Seconds from the first of them that is shown to the end of the last."""

        self.refused = 0
        """How many packets were too damaged to be written."""

        self._path = path
        self._input = open_clip(path)
        # Matroska tells of a start before zero by a delay of the codec, which FFmpeg hands on
        # from one such file to the next, and does not take from others
        same = container.name in ("matroska", "webm") and "matroska" in self._input.format.name
        self._early = container.negative or same
        main = pictures_of(self._input, path).index
        for track in self._input.streams:
            if track.index != main:
                self._add(track)
            elif pictures:
                self._copy(track, "video")
                self.reports.pop()  # reports are of the others
        self._wanted = [lane.source for lane in self._lanes.values()]
        seams = Seams(self._input.format.name)
        if start is not None and start > 0 and not seams.possible:
            with suppress(FFmpegError):
                self._input.seek(int(start * av.time_base))
        self._packets = read_tracks(self._input, self._wanted, seams)
        self._ahead: av.Packet[Any] | None = None

    def advance(self, until: Fraction | None) -> None:
        """Write everything up to ``until``, seconds of the output; all there is if None."""
        for cover in self._covers:
            self._output.mux(cover)
        self._covers = []
        while (packet := self._ahead or next(self._packets, None)) is not None:
            self._ahead = None
            time = time_of(packet)
            if until is not None and time is not None and time - self._origin > until:
                self._ahead = packet
                return
            if self._end is not None and time is not None and time > self._end + BEYOND:
                self._packets = iter(())
                return
            self._pass(self._lanes[packet.stream_index], packet)

    def close(self) -> None:
        """Write what encoders hold back. The input is closed by ``release``."""
        self.advance(None)
        for lane in self._lanes.values():
            if lane.sound is not None:
                for packet in lane.sound.packets(None):
                    self.mux(packet)

    def mux(self, packet: av.Packet[Any]) -> None:
        """Write a packet, of pictures too; count in ``refused`` what is too damaged to be written.

        FFmpeg holds packets back to put them in order, so what it refuses is mostly not the packet
        that it was given, but one of another track that was waiting. Without other tracks, or if
        it refuses too much, it is an error. Raises ValueError for a gap that AVI cannot hold.
        """
        if self._kind.name == "avi" and packet.stream.type == "video" and packet.dts is not None:
            self._fill_gap(packet)
        try:
            self._output.mux(packet)
        except (av.error.InvalidDataError, av.error.ArgumentError):
            self.refused += 1
            if not self._lanes or self.refused > MOST_REFUSED:
                raise

    def _fill_gap(self, packet: av.Packet[Any]) -> None:
        """Raise ValueError if too many frames are missing before ``packet``.

        AVI has one frame rate: FFmpeg writes an empty frame for each that is missing, up to a
        limit, and all that it says of more is "Invalid argument".
        """
        rate = 1 / packet.stream.time_base
        count = round((packet.dts or 0) * packet.time_base * rate)
        filled = self._filled.get(packet.stream.index, 0)
        if filled:
            check_gap(count - filled, rate)
        self._filled[packet.stream.index] = max(count, filled) + 1 if filled else 1

    def release(self) -> None:
        """Close the input."""
        self._input.close()

    def _add(self, track: Any) -> None:
        kind, codec = kind_of(track), codec_name(track)
        if kind == "audio":
            self._add_sound(track, codec)
        elif kind == "subtitle":
            self._add_text(track, codec)
        elif not self._keeps_covers and (kind == "cover" or _is_attached_picture(track)):
            self._report(track, "dropped", why="it may show a face that was swapped")
        elif kind == "attachment":
            if self._kind.attachments:
                stream = self._output.add_stream_from_template(track)
                stream.disposition = track.disposition
                self._report(track, "copied")
            else:
                self._report(track, "dropped", why=f"{self._kind.name} has no attachments")
        elif kind == "cover":
            self._add_cover(track)
        elif kind == "video" and codec in self._kind.videos:
            self._copy(track, kind, why="only the first track of pictures is looked at")
        elif codec == "bin_data" and self._input.chapters():
            self._report(track, "rewritten", into="chapters")  # which is all that it holds
        else:
            self._report(track, "dropped", why=f"{self._kind.name} cannot hold it")

    def _add_sound(self, track: Any, codec: str) -> None:
        if self._sound == "drop":
            self._report(track, "dropped", why="as asked")
            return
        if self._sound == "copy" and codec in self._kind.audios:
            self._copy(track, "audio")
            return
        if track.codec_context is None or not track.rate or not track.layout.nb_channels:
            self._report(track, "dropped", why="it cannot be decoded, nor held as it is")
            return
        exact = codec.startswith("pcm_") or codec in EXACT
        encoder = (self._kind.exact_sound if exact else "") or self._kind.sound
        lane = Lane(track, None)
        try:
            lane.sound = Reencoder(
                track,
                self._output,
                encoder,
                start=self._start,
                end=self._end,
                origin=self._origin,
                from_zero=self._start is not None or not self._kind.negative,
            )
        except (FFmpegError, ValueError) as error:
            self._report(track, "dropped", why=f"it cannot be encoded as {encoder} ({error})")
            return
        lane.stream = lane.sound.stream
        self._describe(track, lane)
        why = "as asked" if self._sound == "encode" else f"{self._kind.name} cannot hold it"
        self._report(track, "encoded", into=codec_name(lane.stream), why=why)

    def _add_text(self, track: Any, codec: str) -> None:
        if codec in self._kind.texts:
            self._copy(track, "subtitle")
            return
        if not self._kind.text or codec not in READ:
            what = "" if codec in TEXTS else " and is made of pictures"
            self._report(track, "dropped", why=f"{self._kind.name} cannot hold it{what}")
            return
        stream: Any = self._output.add_stream(self._kind.text)
        stream.codec_context.subtitle_header = ASS_HEADER
        stream.time_base = Fraction(1, 1000)
        lane = Lane(track, stream)
        lane.text = (codec, self._kind.text)
        self._describe(track, lane)
        self._report(track, "rewritten", into=self._kind.text, why="without its styles")

    def _add_cover(self, track: Any) -> None:
        picture = cover_of(self._path, track.index)
        codec = codec_name(track)
        if LISTED in self._output.options.items():
            why = f"{self._kind.name} cannot hold it beside metadata such as AIGC or a phone's"
            self._report(track, "dropped", why=why)
        elif picture is not None and self._kind.attachments:
            kind = {"mjpeg": "jpeg"}.get(codec, codec)
            name = track.metadata.get("filename") or f"cover.{'jpg' if kind == 'jpeg' else kind}"
            self._output.add_attachment(name, f"image/{kind}", bytes(picture))
            self._report(track, "copied", why="as an attachment")
        elif picture is not None and self._kind.covers and codec in ("mjpeg", "png", "bmp"):
            stream = self._output.add_stream_from_template(track, opaque=True)
            stream.disposition = track.disposition
            picture.stream = stream
            picture.pts = picture.dts = 0
            self._covers.append(picture)
            self._report(track, "copied")
        else:
            self._report(track, "dropped", why=f"{self._kind.name} cannot hold it")

    def _copy(self, track: Any, kind: TrackKind, why: str = "") -> None:
        try:
            stream = self._output.add_stream_from_template(track, opaque=True)
        except (FFmpegError, ValueError) as error:
            self._report(track, "dropped", why=f"{self._kind.name} cannot hold it ({error})")
            return
        if kind == "video" and codec_name(track) == "hevc" and self._kind.edits:
            stream.codec_context.codec_tag = "hvc1"  # the one that all players know
        lane = Lane(track, stream)
        self._describe(track, lane)
        self._report(track, "copied", why=why)

    def _describe(self, track: Any, lane: Lane) -> None:
        self._lanes[track.index] = lane
        lane.stream.metadata.update(track_tags(track.metadata))
        lane.stream.disposition = track.disposition

    def _report(self, track: Any, fate: Fate, *, into: str = "", why: str = "") -> None:
        kind, codec = kind_of(track), codec_name(track)
        language = track.metadata.get("language", "")
        if kind == "attachment":
            codec = track.metadata.get("filename", "")
        self.reports.append(TrackReport(track.index, kind, codec, language, fate, into, why))

    def _pass(self, lane: Lane, packet: av.Packet[Any]) -> None:
        if lane.sound is not None:
            for encoded in lane.sound.packets(packet):
                self.mux(encoded)
            return
        base, start = packet.time_base, time_of(packet)
        if start is None:
            return
        end = start + (packet.duration or 0) * base
        moved = round(self._origin / base)
        if not self._kept(lane, start, end):
            return
        if lane.text is not None:
            packet = self._rewritten(lane.text, packet)
            if not packet.size:
                return
        if lane.source.type == "subtitle":
            packet.pts = max(packet.pts or 0, moved)
            packet.duration = max(round(end / base) - packet.pts, 1)
            packet.dts = packet.pts
        packet.pts = None if packet.pts is None else packet.pts - moved
        packet.dts = packet.pts if packet.dts is None else packet.dts - moved
        if packet.dts is not None and lane.last is not None and packet.dts <= lane.last:
            packet.dts = lane.last + 1  # the file's own order is wrong there
            packet.pts = max(packet.pts or 0, packet.dts)
        lane.last = packet.dts
        if lane.source.type == "video":
            self.pictures += 1
            self.pictures_span = max(self.pictures_span, end - self._origin)
        packet.stream = lane.stream
        self.mux(packet)

    def _kept(self, lane: Lane, start: Fraction, end: Fraction) -> bool:
        """Return whether something that lasts from ``start`` to ``end`` belongs to the output."""
        if lane.source.type == "video":  # whose order of decoding must stay whole
            return self._end is None or lane.last is None or start < self._end
        if self._end is not None and start >= self._end:
            return False
        if self._start is None:
            # what a container that begins at zero cannot hold is what nobody was to hear
            return self._early or end > 0 or end == start >= 0
        if lane.source.type != "audio":
            return end > self._start or end == start == self._start
        length = max(end - start, SHORTEST)
        if self._kind.edits:
            return end > self._start - length  # and one more, which decoding may need
        return start >= self._start - length / 2

    def _rewritten(self, codecs: tuple[str, str], packet: av.Packet[Any]) -> av.Packet[Any]:
        words = av.Packet(rewritten(bytes(packet), codec=codecs[0], into=codecs[1]))
        words.pts, words.dts, words.duration = packet.pts, packet.pts, packet.duration
        words.time_base = packet.time_base
        words.is_keyframe = True
        return words


def _is_attached_picture(track: Any) -> bool:
    """Return whether an attachment is a picture, also one that FFmpeg takes for no cover."""
    kind = track.metadata.get("mimetype", "").lower()
    name = Path(track.metadata.get("filename", ""))
    return track.type == "attachment" and (
        kind.startswith("image/") or name.suffix.lower() in READABLE
    )
