"""What a clip is: its pictures, its other tracks, its times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import av
from av.container import InputContainer
from av.sidedata.sidedata import Type
from av.video.stream import VideoStream

from mien.errors import ClipUnreadable
from mien.media.clip.colour import Colour, Hdr, colour_of, hdr_of
from mien.media.clip.convert import siting_of
from mien.media.clip.layout import Layout, in_planes, layout_of, planar_name
from mien.media.clip.look import Look
from mien.media.clip.opening import explained, is_cover, open_clip, pictures_of
from mien.media.clip.orientation import Orientation, orientation_of

TrackKind = Literal["video", "cover", "audio", "subtitle", "attachment", "data"]

MAX_MEGAPIXELS = 150.0
"""A frame with more is refused: a file of a few bytes can ask for any amount of memory."""

PACKETS_TO_FIRST = 5_000
"""How many packets are looked through for a first picture."""


DYNAMIC: Mapping[Any, str] = MappingProxyType(
    {
        Type.DYNAMIC_HDR_PLUS: "HDR10+ metadata",
        Type.DYNAMIC_HDR_VIVID: "HDR Vivid metadata",
        Type.DOVI_METADATA: "Dolby Vision metadata",
        Type.DOVI_RPU_BUFFER: "Dolby Vision metadata",
        Type.STEREO3D: "the marks of stereoscopic pictures",
        Type.SPHERICAL: "the marks of spherical pictures",
    }
)
"""What PyAV lets nobody write, by the kind of side data."""


@dataclass(frozen=True, slots=True)
class Track:
    """One track of a clip."""

    index: int
    kind: TrackKind
    codec: str
    """FFmpeg's name of it; empty if unknown."""

    language: str = ""
    title: str = ""
    start: Fraction | None = None
    """Seconds."""

    duration: Fraction | None = None
    """Seconds, as the file says."""


@dataclass(frozen=True, slots=True)
class Chapter:
    """A named part of a clip, in seconds."""

    start: Fraction
    end: Fraction
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClipInfo:
    """What is known of a clip once it is opened. Nothing here counts frames: files lie."""

    path: Path
    format: str
    """FFmpeg's name of the container, such as "mov,mp4,m4a,3gp,3g2,mj2"."""

    codec: str
    """FFmpeg's name of the pictures' codec."""

    profile: str
    width: int
    """Of the samples as they are stored."""

    height: int
    """Of the samples as they are stored."""

    orientation: Orientation
    aspect: Fraction
    """Width of a stored pixel over its height; 1 if not said."""

    pixel_format: str
    """FFmpeg's name of what the decoder gives."""

    layout: Layout
    """What mien makes of that: the same samples, in planes."""

    colour: Colour
    siting: str
    """Where chroma samples lie: left, center or topleft."""

    hdr: Hdr
    time_base: Fraction
    """The unit, in seconds, in which the pictures' times are counted."""

    rate: Fraction | None
    """Frames per second on average, as the file says. Times of frames do not follow from it."""

    interlaced: bool
    start: Fraction | None
    """When the pictures begin, as the file says; seconds."""

    duration: Fraction | None
    """How long the file says it lasts, all tracks together; seconds."""

    bits_per_second: int
    """Of the whole file, about."""

    tracks: tuple[Track, ...]
    chapters: tuple[Chapter, ...]
    metadata: Mapping[str, str]
    pictures_metadata: Mapping[str, str]
    """Of the track of pictures."""

    unheld: tuple[str, ...] = ()
    """What pictures come with that does not survive decoding and encoding, by name."""

    @property
    def upright(self) -> tuple[int, int]:
        """Width and height of the pictures the right way up."""
        return self.orientation.size(self.width, self.height)

    @property
    def depth(self) -> int:
        """Bits of a sample."""
        return self.layout.depth

    def count(self, kind: TrackKind) -> int:
        """Return how many tracks of a kind there are."""
        return sum(track.kind == kind for track in self.tracks)


def read_info(path: Path, *, max_megapixels: float = MAX_MEGAPIXELS) -> tuple[ClipInfo, Look]:
    """Return what the clip at ``path`` is, and what its frames have in common.

    Decodes its first frame, which knows most of it. Raises ClipUnreadable.
    """
    with explained(path), open_clip(path) as container:
        track = pictures_of(container, path)
        size = track.codec_context.width * track.codec_context.height / 1e6
        if size > max_megapixels:
            raise ClipUnreadable(
                f"{path} is too large: its frames have {size:,.0f} megapixels, and the limit is "
                f"{max_megapixels:g}.",
                path=path,
            )
        frame = _first_frame(container, track, path)
        sides: Any = frame.side_data
        matrix = sides.get(Type.DISPLAYMATRIX)
        orientation = orientation_of(None if matrix is None else bytes(matrix))
        colour, hdr = colour_of(frame, track.codec_context), hdr_of(frame)
        interlaced = frame.interlaced_frame or track.codec_context.field_order > 1
        layout = layout_of(planar_name(frame.format.name)[0])
        width, height, pixel_format = frame.width, frame.height, frame.format.name
        # FFmpeg says 0 where a file does not
        aspect = track.sample_aspect_ratio or Fraction(1)
        siting = siting_of(in_planes(frame), layout, codec_name(track))
        look = Look(
            width=width,
            height=height,
            layout=layout,
            colour=colour,
            siting=siting,
            orientation=orientation,
            hdr=hdr,
            aspect=aspect,
        )
        assert track.time_base is not None
        info = ClipInfo(
            path=path,
            format=container.format.name,
            codec=codec_name(track),
            profile=track.profile or "",
            width=width,
            height=height,
            orientation=orientation,
            aspect=aspect,
            pixel_format=pixel_format,
            layout=layout,
            colour=colour,
            siting=siting,
            hdr=hdr,
            time_base=track.time_base,
            rate=track.average_rate or track.guessed_rate or None,
            interlaced=interlaced,
            start=_seconds(track.start_time, track.time_base),
            duration=_seconds(container.duration, Fraction(1, av.time_base)),
            bits_per_second=container.bit_rate or 0,
            tracks=tuple(_track(stream) for stream in container.streams),
            chapters=tuple(_chapters(container)),
            metadata=dict(container.metadata),
            pictures_metadata=dict(track.metadata),
            unheld=_unheld(sides, track),
        )
    return info, look


def _unheld(sides: Any, track: VideoStream) -> tuple[str, ...]:
    found = [name for kind, name in DYNAMIC.items() if sides.get(kind) is not None]
    if track.metadata.get("alpha_mode") == "1":
        found.append("transparency (VP8 and VP9 keep it apart)")
    return tuple(found)


def codec_name(track: Any) -> str:
    """Return FFmpeg's name of a track's codec, whichever decoder reads it."""
    context = track.codec_context
    if context is not None:
        return str(context.codec.canonical_name)
    return str(getattr(track, "name", None) or "") if track.type == "data" else ""


def kind_of(track: Any) -> TrackKind:
    """Return which kind of track it is."""
    if track.type == "video":
        return "cover" if is_cover(track) else "video"
    return track.type if track.type in ("audio", "subtitle", "attachment") else "data"


def _track(track: Any) -> Track:
    return Track(
        index=track.index,
        kind=kind_of(track),
        codec=codec_name(track),
        language=track.metadata.get("language", ""),
        title=track.metadata.get("title", ""),
        start=_seconds(track.start_time, track.time_base),
        duration=_seconds(track.duration, track.time_base),
    )


def _chapters(container: InputContainer) -> list[Chapter]:
    return [
        Chapter(chapter["start"] * base, chapter["end"] * base, dict(chapter["metadata"]))
        for chapter in container.chapters()
        if (base := chapter["time_base"])
    ]


def _first_frame(container: InputContainer, track: VideoStream, path: Path) -> av.VideoFrame:
    """Return the first frame that decodes. Raises ClipUnreadable if none does."""
    for number, packet in enumerate(container.demux(track)):
        try:
            frames = track.decode(packet if packet.size else None)
        except (av.error.FFmpegError, ValueError):
            continue
        if frames:
            return frames[0]
        if number > PACKETS_TO_FIRST:
            break
    raise ClipUnreadable(f"{path} cannot be read: none of its pictures can be decoded.", path=path)


def _seconds(count: int | None, unit: Fraction | None) -> Fraction | None:
    return None if count is None or unit is None else count * unit
