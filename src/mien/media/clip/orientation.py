"""Which way up: display matrices, and pixels and rectangles turned by them and back."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from torch import Tensor

from mien.media.clip.layout import bits, of_bits
from mien.types import Rectangle

Pixels = TypeVar("Pixels", npt.NDArray[Any], Tensor)

ONE = 1 << 16
"""1.0 in the first two columns of a display matrix (ISO/IEC 14496-12, 6.2.2)."""


@dataclass(frozen=True, slots=True)
class Orientation:
    """How stored pixels become upright ones: transposed first, then mirrored."""

    transposed: bool = False
    mirrored: bool = False
    """Left and right are exchanged."""

    flipped: bool = False
    """Top and bottom are exchanged."""

    exact: bool = True
    """Whether the display matrix says just this; a slanted or stretched one does not."""

    @property
    def plain(self) -> bool:
        """Whether stored pixels are upright as they are."""
        return not (self.transposed or self.mirrored or self.flipped)

    @property
    def matrix(self) -> tuple[int, ...]:
        """The display matrix, nine integers, as FFmpeg and MP4 files have it."""
        across = -ONE if self.mirrored else ONE
        down = -ONE if self.flipped else ONE
        if self.transposed:
            return (0, down, 0, across, 0, 0, 0, 0, 1 << 30)
        return (across, 0, 0, 0, down, 0, 0, 0, 1 << 30)

    @property
    def degrees(self) -> int:
        """Quarter turns, clockwise in degrees, that a player makes (after mirroring, if any)."""
        if self.transposed:
            return 90 if not self.flipped else 270
        return 180 if self.flipped else 0

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Return the width and height that something ``width`` x ``height`` has once upright."""
        return (height, width) if self.transposed else (width, height)

    def upright(self, pixels: Pixels) -> Pixels:
        """Return stored ``pixels`` (H, W, ...) upright: a view of an array, or a tensor."""
        return self._mirror(pixels.swapaxes(0, 1) if self.transposed else pixels)

    def stored(self, pixels: Pixels) -> Pixels:
        """Return upright ``pixels`` (H, W, ...) as stored: a view of an array, or a tensor."""
        pixels = self._mirror(pixels)
        return pixels.swapaxes(0, 1) if self.transposed else pixels

    def stored_rectangle(self, upright: Rectangle, width: int, height: int) -> Rectangle:
        """Return where ``upright``, of a frame that is so large upright, lies in stored pixels."""
        left, top, right, bottom = upright
        if self.mirrored:
            left, right = width - right, width - left
        if self.flipped:
            top, bottom = height - bottom, height - top
        if self.transposed:
            left, top, right, bottom = top, left, bottom, right
        return Rectangle(left, top, right, bottom)

    def upright_rectangle(self, stored: Rectangle, width: int, height: int) -> Rectangle:
        """Return where ``stored`` lies in the upright frame, which is so large."""
        left, top, right, bottom = stored
        if self.transposed:
            left, top, right, bottom = top, left, bottom, right
        if self.mirrored:
            left, right = width - right, width - left
        if self.flipped:
            top, bottom = height - bottom, height - top
        return Rectangle(left, top, right, bottom)

    def _mirror(self, pixels: Pixels) -> Pixels:
        axes = tuple(axis for axis, turned in ((0, self.flipped), (1, self.mirrored)) if turned)
        if not axes:
            return pixels
        if isinstance(pixels, Tensor):
            return of_bits(bits(pixels).flip(axes), pixels)
        return np.flip(pixels, axes)


def orientation_of(matrix: bytes | None) -> Orientation:
    """Return what a display matrix, 9 integers of 32 bits, asks for.

    A matrix that is not made of quarter turns and mirrors is left alone, and is not ``exact``.
    """
    if matrix is None or len(matrix) < 36:
        return Orientation()
    a, b, _, c, d, *_ = struct.unpack("=9i", matrix[:36])
    if a and d and not (b or c):
        return Orientation(False, a < 0, d < 0, exact=abs(a) == ONE == abs(d))
    if b and c and not (a or d):
        return Orientation(True, c < 0, b < 0, exact=abs(b) == ONE == abs(c))
    return Orientation(exact=False)
