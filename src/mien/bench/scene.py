"""Frames to measure with: one portrait, many times, at places and sizes that change every frame."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from mien.bench.plan import Size
from mien.doctor.speed import PORTRAIT

SHARES = (0.95, 0.7, 0.85, 0.6)
"""Sides of the portraits by those of their cells, in turn: faces are near and far."""

BREATH = 0.04
"""By how much a side changes from frame to frame, up and down."""

LIGHT = 12
"""By how many codes the light changes, up and down."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Frames of one size with one number of faces.

    Frame ``i`` is the same on every machine, and no two are alike: who measures twice can compare
    frame by frame.
    """

    size: Size
    faces: int

    def __call__(self, index: int) -> Tensor:
        """Return frame ``index``, uint8 (H, W, 3), RGB."""
        width, height = self.size
        dice = np.random.default_rng([index, self.faces, width, height])
        frame = _background(self.size, dice)
        for left, top, right, bottom, share in self._cells():
            wide, high = right - left, bottom - top
            scale = share * (1 + dice.uniform(-BREATH, BREATH))
            side = max(1, min(wide, high, round(scale * min(wide, high))))
            x = left + int(dice.integers(wide - side + 1))
            y = top + int(dice.integers(high - side + 1))
            lit = _portrait(side).astype(np.int16) + dice.integers(-LIGHT, LIGHT, endpoint=True)
            frame[y : y + side, x : x + side] = lit.clip(0, 255)
        return torch.from_numpy(frame)

    def _cells(self) -> list[tuple[int, int, int, int, float]]:
        """Return left, top, right, bottom and share of a cell for each face."""
        width, height = self.size
        rows = max(range(1, self.faces + 1), key=lambda n: min(height / n, width / self._across(n)))
        across = self._across(rows)
        return [
            (
                width * (i % across) // across,
                height * (i // across) // rows,
                width * (i % across + 1) // across,
                height * (i // across + 1) // rows,
                SHARES[i % len(SHARES)],
            )
            for i in range(self.faces)
        ]

    def _across(self, rows: int) -> int:
        return -(-self.faces // rows)

    def __str__(self) -> str:
        return f"{self.size} with {self.faces} face{'s' if self.faces > 1 else ''}"


def _background(size: Size, dice: np.random.Generator) -> npt.NDArray[np.uint8]:
    """Return soft light that comes from another corner every time, uint8 (H, W, 3)."""
    across = np.linspace(0, dice.uniform(-60, 60), size.width)
    down = np.linspace(0, dice.uniform(-60, 60), size.height)
    gray = (across + down[:, None] + 120).clip(0, 255).astype(np.uint8)
    return np.repeat(gray[..., None], 3, axis=2)


@cache
def _opened() -> Image.Image:
    with Image.open(PORTRAIT) as image:
        return image.convert("RGB")


def _portrait(side: int) -> npt.NDArray[np.uint8]:
    return np.asarray(_opened().resize((side, side), Image.Resampling.BILINEAR))
