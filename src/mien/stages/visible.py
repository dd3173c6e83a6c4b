"""How much of a face there is to see: its turn away from the camera, and its part of the frame."""

from __future__ import annotations

import torch
from torch import Tensor

LEFT, RIGHT = 234, 454
"""Mesh points before the ears, as seen in the picture."""


def yaws(mesh: Tensor) -> Tensor:
    """Return how far faces are turned to a side, degrees (K,): 0 frontal, 90 a profile.

    ``mesh`` (K, 468, 3) has depth at the scale of x and y. Positive when the picture's right ear
    is the farther one.
    """
    x, y, depth = (mesh[:, RIGHT] - mesh[:, LEFT]).unbind(dim=1)
    return torch.rad2deg(torch.atan2(depth, torch.hypot(x, y)))


def inside(mesh: Tensor, height: int, width: int) -> Tensor:
    """Return which share (K,), 0 to 1, of each face's points (K, N, 2 or 3) is in the frame."""
    flat = mesh[..., :2]
    within = (flat >= -0.5) & (flat < flat.new_tensor([width - 0.5, height - 0.5]))
    return within.all(dim=2).float().mean(dim=1)
