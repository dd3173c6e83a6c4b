"""Opening a file as a clip: only local files, only formats of clips, every failure explained."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import av
from av.codec.hwaccel import HWAccel
from av.container import InputContainer
from av.error import FFmpegError
from av.video.stream import VideoStream

from mien.errors import ClipError, ClipUnreadable

log = logging.getLogger(__name__)

DEMUXERS = (
    "mov",
    "matroska",
    "avi",
    "mpegts",
    "mpeg",
    "mpegvideo",
    "m4v",
    "h264",
    "hevc",
    "obu",
    "ivf",
    "flv",
    "asf",
    "ogg",
    "nut",
    "mxf",
    "gxf",
    "dv",
    "rm",
    "wtv",
    "yuv4mpegpipe",
)
"""FFmpeg's names of the formats that are read. Play lists and formats that name other files are
left out: a clip must not make mien open anything but itself."""

READABLE_CLIPS = (
    "mp4, mov, m4v, 3gp, mkv, webm, avi, mpg, ts, m2ts, flv, wmv, asf, ogv, mxf, dv, nut"
)


def open_clip(path: Path, device: HWAccel | None = None, *, bare: bool = False) -> InputContainer:
    """Return ``path``, opened with FFmpeg, to be decoded by ``device`` if that can.

    Raises ClipUnreadable, or what PyAV raises if ``bare``.
    """
    with nullcontext() if bare else explained(path):
        if not path.exists():
            raise ClipUnreadable(f"There is no file {path}.", path=path)
        if not path.is_file():
            raise ClipUnreadable(f"{path} is not a file.", path=path)
        if path.stat().st_size == 0:
            raise ClipUnreadable(f"{path} is empty.", path=path)
        with path.open("rb"):  # what the system says is clearer than what FFmpeg makes of it
            pass
        container = av.open(
            f"file:{path}",  # so that no name is taken for a protocol or an option
            "r",
            options={"protocol_whitelist": "file", "format_whitelist": ",".join(DEMUXERS)},
            metadata_errors="replace",
            hwaccel=device,
        )
        assert isinstance(container, InputContainer)
        return container


def pictures_of(container: InputContainer, path: Path) -> VideoStream:
    """Return the track of moving pictures in ``container``: the first that is not a cover.

    Raises ClipUnreadable if there is none that can be decoded.
    """
    tracks = [track for track in container.streams.video if not is_cover(track)]
    for track in tracks:
        if track.codec_context is not None:
            return track
    what = "its pictures are of a kind that cannot be decoded" if tracks else "it has no pictures"
    raise ClipUnreadable(f"{path} cannot be read as a clip: {what}.", path=path)


def is_cover(track: VideoStream) -> bool:
    """Return whether a track is one still picture that goes with the sound."""
    return bool(track.disposition & av.stream.Disposition.attached_pic)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn whatever FFmpeg or the system says of ``path`` into ClipUnreadable."""
    try:
        yield
    except ClipError:
        raise
    except (FFmpegError, OSError, ValueError) as error:
        log.info("%s cannot be read", path, exc_info=True)
        raise ClipUnreadable(f"{path} cannot be read: {reason(error)}.", path=path) from None


def reason(error: BaseException) -> str:
    """Return what was wrong, in the words of a user."""
    if isinstance(error, av.error.InvalidDataError):
        return "it is damaged, cut short before its index, or no clip"
    if isinstance(error, av.error.ArgumentError | av.error.DemuxerNotFoundError):
        return f"it is not a clip of a kind that mien reads ({READABLE_CLIPS})"
    if isinstance(error, OSError | FFmpegError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
