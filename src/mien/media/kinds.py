"""Kinds: whether a file is a picture or a clip, by what is in it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from mien.media.formats import READABLE

Kind = Literal["picture", "clip"]

CLIPS = (
    *(".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".ts", ".m2ts", ".mts", ".3gp", ".3g2"),
    *(".mpg", ".mpeg", ".vob", ".flv", ".wmv", ".asf", ".ogv", ".mxf", ".dv", ".nut"),
)
"""Suffixes of clips that can be read."""

SHARED = (".ts", ".mts")
"""Suffixes that other kinds of files have too, programs among them."""

HEAD = 512
STILL = (b"avif", b"avis", b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
"""Brands of pictures in a file that is built as an MP4 is (ISO/IEC 23008-12)."""

PICTURES = (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"BM", b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
MOVING = (
    *(b"\x1a\x45\xdf\xa3", b"FLV", b"OggS", b"\x30\x26\xb2\x75", b"\x00\x00\x01\xba"),
    *(b"\x00\x00\x01\xb3", b"\x00\x00\x00\x01", b"\x06\x0e\x2b\x34", b"nut/multimedia", b"DKIF"),
    *(b".RMF", b"YUV4MPEG2"),
)
"""How files begin: Matroska, FLV, Ogg, ASF, MPEG, raw H.264, MXF, NUT, IVF, RealMedia, YUV4MPEG."""

BOXES = (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot")
"""Names of boxes with which an MP4 or QuickTime file may begin."""


def kind_of(path: Path) -> Kind:
    """Return what the file at ``path`` is, by its first bytes, else by its suffix.

    What is neither, or is not there, counts as a picture; opening it says what is wrong.
    """
    suffix = path.suffix.lower()
    return _by_content(_head(path)) or ("clip" if suffix in CLIPS else "picture")


def in_folders(path: Path, *, clips: bool) -> bool:
    """Return whether a file that is found in a folder counts, as a picture or also as a clip."""
    suffix = path.suffix.lower()
    if suffix in READABLE:
        return True
    if not clips or suffix not in CLIPS:
        return False
    if suffix not in SHARED:
        return True
    return _by_content(_head(path)) == "clip"


def _head(path: Path) -> bytes:
    """Return the first bytes of a file; none of what is no file, as a pipe, or cannot be read."""
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            return file.read(HEAD)
    except OSError:
        return b""


def _by_content(head: bytes) -> Kind | None:
    if head[:4] == b"RIFF":
        return {b"WEBP": "picture", b"AVI ": "clip"}.get(head[8:12])  # type: ignore[return-value]
    if head[4:8] == b"ftyp":
        return "picture" if head[8:12] in STILL else "clip"
    if head.startswith(PICTURES):
        return "picture"
    if head.startswith(MOVING) or head[4:8] in BOXES:
        return "clip"
    # packets of 188 bytes that begin with 0x47, or of 192 after a time of 4
    for first, size in ((0, 188), (4, 192)):
        if len(head) > first + size and head[first] == head[first + size] == 0x47:
            return "clip"
    return None
