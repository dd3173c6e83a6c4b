"""Glimpses: faces so small that only their broad features show, compared at next to no cost."""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor

from mien.geometry import cut, template
from mien.geometry.plain import Similarity, stacked
from mien.types import Faces

SIZE = 16
PLACES = template("arcface_128").at(SIZE).tolist()

FLAT = 1.0 / 255
"""Standard deviation below which a plane is of one colour and correlates with nothing."""


def glimpses(pixels: Tensor, faces: Faces) -> Tensor:
    """Return faces, float32 (K, SIZE, SIZE), gray and upright, of uint8 ``pixels`` (H, W, 3).

    They lie on the CPU, wherever the pixels do.
    """
    views = [Similarity.fit(points, PLACES) for points in faces.points.tolist()]
    return cut(pixels, stacked(views, faces.points.device), SIZE).mean(dim=1).cpu()


def correlation(a: Tensor, b: Tensor) -> float:
    """Return how alike two planes (H, W) in [0, 1] are, -1 to 1, whatever their light."""
    both = torch.stack([a, b]).flatten(start_dim=1).double()
    both -= both.mean(dim=1, keepdim=True)
    (aa, ab), (_, bb) = (both @ both.mT).tolist()
    if min(aa, bb) < FLAT**2 * a.numel():
        return 0.0
    return float(ab / sqrt(aa * bb))
