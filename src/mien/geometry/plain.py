"""Similarities one by one, in plain numbers, on the host.

A tensor operation costs some microseconds however small its tensor is: for the five points of a few
faces far more than all of the arithmetic. What is done here is what :mod:`mien.geometry.similarity`
does, up to rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, floor, hypot
from sys import float_info
from typing import NamedTuple

import torch
from torch import Tensor

from mien.geometry.similarity import TINY
from mien.geometry.spans import MARGIN

Points = Sequence[Sequence[float]]
"""Points (x, y); what a tensor (N, 2) holds, as its ``tolist`` gives it."""

Map = tuple[tuple[float, float, float], tuple[float, float, float]]
"""What a matrix (2, 3) holds."""


class Similarity(NamedTuple):
    """Takes a point (px, py) to (``a`` px - ``b`` py + ``x``, ``b`` px + ``a`` py + ``y``)."""

    a: float
    b: float
    x: float
    y: float

    @classmethod
    def fit(cls, source: Points, target: Points) -> Similarity:
        """Return what takes ``source`` nearest to ``target``, as ``fit_similarity``."""
        (from_x, from_y), (to_x, to_y) = _middle(source), _middle(target)
        along, across, energy = TINY, 0.0, TINY
        for (px, py), (qx, qy) in zip(source, target, strict=True):
            sx, sy, tx, ty = px - from_x, py - from_y, qx - to_x, qy - to_y
            energy += sx * sx + sy * sy
            along += sx * tx + sy * ty
            across += sx * ty - sy * tx
        a, b = along / energy, across / energy
        return cls(a, b, to_x - a * from_x + b * from_y, to_y - b * from_x - a * from_y)

    @classmethod
    def of(cls, matrix: Points) -> Similarity:
        """Return what a matrix (2, 3) does, of which it is one."""
        (a, _, x), (b, _, y) = matrix
        return cls(a, b, x, y)

    @property
    def rows(self) -> Map:
        """The matrix (2, 3)."""
        a, b, x, y = self
        return (a, -b, x), (b, a, y)

    @property
    def scale(self) -> float:
        """By how much it stretches a length."""
        return hypot(self.a, self.b)

    def __call__(self, points: Points) -> list[tuple[float, float]]:
        """Return where it takes ``points``."""
        a, b, x, y = self
        return [(a * px - b * py + x, b * px + a * py + y) for px, py in points]

    def inverse(self) -> Similarity:
        """Return what takes everything back."""
        a, b, x, y = self
        energy = max(a * a + b * b, float_info.min)
        a, b = a / energy, -b / energy
        return Similarity(a, b, b * y - a * x, -b * x - a * y)

    def after(self, first: Similarity) -> Similarity:
        """Return what applies ``first`` and then this one."""
        a, b, _, _ = self
        ((x, y),) = self([(first.x, first.y)])
        return Similarity(a * first.a - b * first.b, a * first.b + b * first.a, x, y)


class CutRow(NamedTuple):
    """How one crop is cut from a frame; see ``mien.geometry.spans.cut_table``."""

    back: Map
    """Takes crop pixels to frame pixels."""

    across: tuple[int, int, int]
    """The first column of the piece that is resized, the one after its last, and to how many."""

    down: tuple[int, int, int]
    """The same of its rows."""

    shrinks: bool

    @property
    def numbers(self) -> list[float]:
        """All of them, as a row of that table."""
        return [*self.back[0], *self.back[1], *self.across, *self.down, float(self.shrinks)]


def cut_row(matrix: Sequence[Sequence[float]], size: int, height: int, width: int) -> CutRow:
    """Return how a crop of ``size`` pixels is cut from a frame.

    ``matrix`` (2, 3), a similarity of finite numbers, takes frame pixels to crop pixels.
    """
    place = Similarity.of(matrix)
    scale, back = place.scale, place.inverse().rows
    margin = MARGIN * max(1.0, 1 / max(scale, 1e-9))
    across, down = (
        _piece(line, size, margin, scale, length)
        for line, length in zip(back, (width, height), strict=True)
    )
    return CutRow(back, across, down, scale < 1)


def _piece(
    line: tuple[float, float, float], size: int, margin: float, scale: float, length: int
) -> tuple[int, int, int]:
    """Return the pixels of a frame's line that a crop needs, and how many they are resized to."""
    ends = -0.5, size - 0.5
    low, high = reach(line, ends, ends)
    least, most = low - margin, high + margin
    # held before they are rounded: where all shrinks to a point they have no end
    first = floor(min(max(least, 0), length - 1))
    last = min(ceil(min(max(most, first), length)) + 1, length)
    return first, last, max(1, round((last - first) * scale))


def reach(
    line: tuple[float, float, float], across: tuple[float, float], down: tuple[float, float]
) -> tuple[float, float]:
    """Return the least and the most that a row of a map takes the places of a rectangle to."""
    along, over, shift = line
    x, y = [along * end for end in across], [over * end for end in down]
    return min(x) + min(y) + shift, max(x) + max(y) + shift


def _middle(points: Points) -> tuple[float, float]:
    xs, ys = zip(*points, strict=True)
    return sum(xs) / len(xs), sum(ys) / len(ys)


def stacked(similarities: Iterable[Similarity], device: torch.device | None = None) -> Tensor:
    """Return K similarities as matrices, float32 (K, 2, 3)."""
    rows = [one.rows for one in similarities]
    return torch.tensor(rows, dtype=torch.float32, device=device).reshape(-1, 2, 3)
