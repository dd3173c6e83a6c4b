"""Glimpses: faces so small that only their broad features show, compared at next to no cost."""

from __future__ import annotations

import torch
from torch import Tensor

from mien.geometry import cut, fit_similarity, template
from mien.types import Faces

SIZE, TEMPLATE = 16, "arcface_128"

FLAT = 1.0 / 255
"""Standard deviation below which a plane is of one colour and correlates with nothing."""


def glimpses(pixels: Tensor, faces: Faces) -> Tensor:
    """Return faces, float32 (K, SIZE, SIZE), gray and upright, of uint8 ``pixels`` (H, W, 3)."""
    places = template(TEMPLATE).at(SIZE).to(pixels.device)
    return cut(pixels, fit_similarity(faces.points, places), SIZE).mean(dim=1)


def correlation(a: Tensor, b: Tensor) -> float:
    """Return how alike two planes (H, W) in [0, 1] are, -1 to 1, whatever their light."""
    a, b = a - a.mean(), b - b.mean()
    if float(torch.minimum(a.square().mean(), b.square().mean())) < FLAT**2:
        return 0.0
    return float((a * b).sum() / (a.norm() * b.norm()))
