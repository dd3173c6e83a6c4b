"""Containers: what each kind of file can hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from mien.errors import ClipUnwritable

TEXTS = frozenset({"subrip", "ass", "ssa", "webvtt", "mov_text", "text"})
"""Subtitles that are text, which can be rewritten from one kind to another."""


@dataclass(frozen=True, slots=True)
class Container:
    """One kind of file that can be written."""

    name: str
    """FFmpeg's name of what writes it."""

    videos: frozenset[str]
    """Codecs of pictures, by FFmpeg's names."""

    audios: frozenset[str]
    """Codecs of sound that are copied as they are."""

    sound: str
    """The encoder for all other sound."""

    exact_sound: str = ""
    """The encoder for other sound that is stored without loss; empty if there is none."""

    texts: frozenset[str] = frozenset()
    """Codecs of subtitles that are copied as they are."""

    text: str = ""
    """The codec that other subtitles of text are rewritten to; empty if there is none."""

    turns: bool = True
    """Whether it can say which way up the pictures are."""

    attachments: bool = False
    edits: bool = False
    """Whether it can say that a track begins amid a packet."""

    negative: bool = False
    """Whether times before zero can be kept."""

    unit: int | None = None
    """Units of time a second, if they are fixed."""

    chapters: bool = True
    covers: bool = False
    """Whether a still picture can go with the sound."""


MP4_SOUND = frozenset({"aac", "mp3", "ac3", "eac3", "alac", "opus", "flac", "mp2", "dts"})
MKV_SOUND = MP4_SOUND | {"vorbis", "truehd", "wavpack", "tta", "pcm_u8", "pcm_f32le", "pcm_f64le"}
MKV_SOUND |= {f"pcm_s{bits}le" for bits in (16, 24, 32)}
MOV_SOUND = MP4_SOUND - {"opus", "flac"}
MOV_SOUND |= {f"pcm_{kind}" for kind in ("s16le", "s16be", "s24le", "s24be", "s32le", "s32be")}
MOV_SOUND |= {f"pcm_{kind}" for kind in ("u8", "s8", "f32le", "f32be", "alaw", "mulaw")}
AVI_SOUND = frozenset({"mp3", "mp2", "ac3", "pcm_s16le", "pcm_u8", "pcm_alaw", "pcm_mulaw"})

MP4 = Container(
    name="mp4",
    videos=frozenset({"h264", "hevc", "av1", "vp9", "mpeg4", "mpeg2video"}),
    audios=MP4_SOUND,
    sound="aac",
    exact_sound="alac",
    texts=frozenset({"mov_text"}),
    text="mov_text",
    edits=True,
    negative=True,
    covers=True,
)
MOV = Container(
    name="mov",
    videos=frozenset({"h264", "hevc", "prores", "mjpeg", "mpeg4", "mpeg2video", "dnxhd"}),
    audios=MOV_SOUND,
    sound="aac",
    exact_sound="alac",
    texts=frozenset({"mov_text"}),
    text="mov_text",
    edits=True,
    negative=True,
)
MKV = Container(
    name="matroska",
    videos=frozenset(
        {"h264", "hevc", "av1", "vp9", "vp8", "prores", "ffv1", "mjpeg", "mpeg4", "mpeg2video"}
        | {"mpeg1video", "theora", "dnxhd"}
    ),
    audios=MKV_SOUND,
    sound="libopus",
    exact_sound="flac",
    texts=frozenset({"subrip", "ass", "webvtt", "dvd_subtitle", "hdmv_pgs_subtitle"}),
    text="subrip",
    attachments=True,
    unit=1000,
)
WEBM = Container(
    name="webm",
    videos=frozenset({"vp9", "av1", "vp8"}),
    audios=frozenset({"opus", "vorbis"}),
    sound="libopus",
    texts=frozenset({"webvtt"}),
    text="webvtt",
    unit=1000,
)
AVI = Container(
    name="avi",
    videos=frozenset({"h264", "mpeg4", "mjpeg", "ffv1", "mpeg2video"}),
    audios=AVI_SOUND,
    sound="libmp3lame",
    exact_sound="pcm_s16le",
    turns=False,
    chapters=False,
)
TS = Container(
    name="mpegts",
    videos=frozenset({"h264", "hevc", "mpeg2video", "mpeg1video"}),
    audios=frozenset({"aac", "mp3", "mp2", "ac3", "eac3", "opus", "dts", "truehd"}),
    sound="aac",
    texts=frozenset({"dvb_subtitle"}),
    turns=False,
    chapters=False,
    unit=90_000,
)

CONTAINERS: Mapping[str, Container] = MappingProxyType(
    {
        ".mp4": MP4,
        ".m4v": MP4,
        ".mov": MOV,
        ".mkv": MKV,
        ".webm": WEBM,
        ".avi": AVI,
        ".ts": TS,
        ".m2ts": TS,
        ".mts": TS,
    }
)
"""Files that can be written, by suffix."""


def container_of(path: Path) -> Container:
    """Return what ``path`` is to be, by its suffix. Raises ClipUnwritable."""
    try:
        return CONTAINERS[path.suffix.lower()]
    except KeyError:
        raise ClipUnwritable(
            f"{path}: clips of the format {path.suffix or '(none)'!r} cannot be written. "
            f"Use one of {', '.join(CONTAINERS)}.",
            path=path,
        ) from None
