"""The picture formats mien writes, and what each can hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Format:
    """A picture format, by what it can hold."""

    name: str
    """Pillow's name for it."""

    channels: frozenset[int]
    """Numbers of colour channels: 1 is gray, 3 is RGB, 4 is CMYK."""

    longest: int
    """Greatest width or height in pixels."""

    alpha: bool = True
    deep: bool = False
    """Whether it holds 16 bits per channel."""

    animated: bool = False
    qualities: bool = False
    """Whether it has a quality to choose."""

    suffix: str = ""
    """The usual suffix."""


_GRAY_RGB = frozenset({1, 3})
_ALL = frozenset({1, 3, 4})

JPEG = Format("JPEG", _ALL, 65_500, alpha=False, qualities=True, suffix=".jpg")
PNG = Format("PNG", _GRAY_RGB, 2**31 - 1, deep=True, animated=True, suffix=".png")
WEBP = Format("WEBP", frozenset({3}), 16_383, animated=True, qualities=True, suffix=".webp")
AVIF = Format("AVIF", frozenset({3}), 32_768, animated=True, qualities=True, suffix=".avif")
TIFF = Format("TIFF", _ALL, 2**31 - 1, deep=True, suffix=".tif")
BMP = Format("BMP", _GRAY_RGB, 2**31 - 1, alpha=False, suffix=".bmp")
GIF = Format("GIF", frozenset({3}), 65_535, animated=True, suffix=".gif")

FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        **dict.fromkeys((".jpg", ".jpeg", ".jpe", ".jfif"), JPEG),
        **dict.fromkeys((".png", ".apng"), PNG),
        ".webp": WEBP,
        ".avif": AVIF,
        **dict.fromkeys((".tif", ".tiff"), TIFF),
        ".bmp": BMP,
        ".gif": GIF,
    }
)
"""Formats that can be written, by suffix."""

READABLE = (*FORMATS, ".heic", ".heif")
"""Suffixes of files that can be read; HEIC needs the extra of this name."""


def format_of(path: Path) -> Format | None:
    """Return the format that the suffix of ``path`` names, or None if it cannot be written."""
    return FORMATS.get(path.suffix.lower())
