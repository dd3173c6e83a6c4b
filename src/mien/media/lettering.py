"""Lettering: a line of text on a plate, as large as is asked for and small enough to fit.

The letters come with mien, so that a text looks the same on every machine: Latin, Greek and
Cyrillic in one font, ASCII and some Chinese in another.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from mien.errors import InvalidOption
from mien.types import Corner, Rectangle

SHARE = 0.055
"""Height of a capital letter by the picture's shorter side. GB 45438-2025 wants 0.05."""

LEAST = 10
"""Pixels of a capital letter below which it is hard to read; taken where there is room."""

MARGIN = 0.02
"""Distance from the edges, by the shorter side."""

ROOM = 0.5
"""How much of the picture's height the plate may take, where letters could be smaller."""

PAD = 0.45
"""Of the plate around the ink, by the height of a capital letter."""

LONGEST = 80
"""Letters of a text."""

FONTS = tuple(Path(__file__).with_name("fonts") / name for name in ("latin.ttf", "chinese.otf"))

NOBODYS = "\uffff"
"""No character: a font shows for it what it shows for all that it lacks."""

PIECES = re.compile(r"[\u3000-\u9fff\uff00-\uffef]|[^\s\u3000-\u9fff\uff00-\uffef]+|\s+")
"""Between these a line may end: at spaces, and beside every Chinese character."""


@dataclass(frozen=True, slots=True, eq=False)
class Lettering:
    """A text where it belongs in a picture of one size."""

    plate: Rectangle
    """Where it lies, all of it inside of the picture; empty in a picture of a few pixels."""

    ink: npt.NDArray[np.uint8]
    """How far each pixel of the plate (h, w) is letter, 0 to 255."""

    capital: int
    """Height of a capital letter in pixels."""


def check_letters(text: str) -> None:
    """Raise InvalidOption if ``text`` cannot be drawn."""
    if not 1 <= len(text) <= LONGEST:
        raise InvalidOption("label_text", text, f"1 to {LONGEST} characters")
    lacking = [[each for each in text if not _has(path, each)] for path in FONTS]
    if all(lacking):
        fewest = min(lacking, key=len)
        raise InvalidOption(
            "label_text",
            text,
            "Latin, Greek and Cyrillic letters, or ASCII and Chinese words for what networks make; "
            f"there is no letter for {''.join(dict.fromkeys(fewest))!r}",
        )


@lru_cache(maxsize=4)
def lettering(text: str, place: Corner, width: int, height: int) -> Lettering:
    """Return ``text``, which can be drawn, in a corner of a picture of that size.

    Capital letters are as high as SHARE says. Where lines, broken between words, would not fit or
    would take more than ROOM of the height, they are as large as goes.
    """
    short = min(width, height)
    margin = max(1, round(MARGIN * short))
    path = next(path for path in FONTS if all(_has(path, each) for each in text))
    wanted = max(math.ceil(SHARE * short), LEAST)
    size = _size_for(path, wanted)
    while size >= 1:
        capital = _capital(path, size)
        pad = max(1, round(PAD * capital))
        room = width - 2 * (margin + pad), round(height * ROOM) - 2 * pad
        ink = _drawn(path, size, text, room)
        if ink is not None:
            break
        size = min(size - 1, int(size * 0.95))
    else:
        return Lettering(Rectangle(0, 0, 0, 0), np.zeros((0, 0), np.uint8), 0)
    ink = np.pad(ink, pad)
    rows, columns = ink.shape
    left = margin if place.endswith("left") else width - margin - columns
    top = margin if place.startswith("top") else height - margin - rows
    return Lettering(Rectangle(left, top, left + columns, top + rows), ink, capital)


def _drawn(path: Path, size: int, text: str, room: tuple[int, int]) -> npt.NDArray[np.uint8] | None:
    """Return the ink of ``text`` in lines, or None if there is no ``room`` (w, h) for it."""
    font = _font(path, size)
    lines = [""]
    for piece in PIECES.findall(text):
        longer = lines[-1] + piece
        if lines[-1].strip() and not piece.isspace() and font.getlength(longer) > room[0]:
            longer = piece
            lines.append("")
        lines[-1] = longer
    block = "\n".join(line.strip() for line in lines)
    pen = ImageDraw.Draw(Image.new("L", (1, 1)))
    spacing = size * 0.1
    box = pen.multiline_textbbox((0, 0), block, font=font, spacing=spacing)
    left, top, right, bottom = *map(math.floor, box[:2]), *map(math.ceil, box[2:])
    if right - left > room[0] or bottom - top > room[1] or right <= left or bottom <= top:
        return None
    image = Image.new("L", (right - left, bottom - top))
    at = (-left, -top)
    ImageDraw.Draw(image).multiline_text(at, block, fill=255, font=font, spacing=spacing)
    return np.asarray(image)


def _size_for(path: Path, capital: int) -> int:
    """Return the size at which capital letters are at least so many pixels high."""
    size = capital
    while _capital(path, size) < capital:
        size += max(1, (capital - _capital(path, size)) // 2)
    return size


def _capital(path: Path, size: int) -> int:
    _, top, _, bottom = _font(path, size).getbbox("H")
    return round(bottom - top)


def _has(path: Path, letter: str) -> bool:
    """Return whether a font has a letter for a character."""
    if not letter.isprintable():
        return False
    return _shape(path, letter) != _shape(path, NOBODYS)


def _shape(path: Path, letter: str) -> tuple[tuple[int, int], bytes]:
    mask = _font(path, 24).getmask(letter)
    return mask.size, bytes(mask)


@lru_cache(maxsize=64)
def _font(path: Path, size: int) -> ImageFont.FreeTypeFont:
    # the basic layout is there on every machine
    return ImageFont.truetype(path, size, layout_engine=ImageFont.Layout.BASIC)
