"""Masks: which part of a crop is the face, with soft edges.

Edges are made in the crop, so they take the same share of a face of 50 pixels and of 900.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

FEATHER = 0.08
"""Width of the soft edge by the side of the crop."""

BAND = 16
"""Rows of a mask that are made at a time on a CPU."""

DIRECTIONS = 64
"""Half-planes whose intersection stands for the hull.

They overstate a circle by 0.12 %, and a straight edge by up to 2.5 % of its length."""


def face_mask(mesh: Tensor, size: int, *, feather: float = FEATHER) -> Tensor:
    """Return opacities, float32 (K, size, size) in [0, 1]: the hull of the face within the crop.

    ``mesh`` (K, N, 2) holds the face's points in crop pixels. The mask is 0 on and beyond the
    hull and the crop's border and rises to 1 within ``feather`` > 0 of the side inward. So nothing
    outside of the face is touched: the hull is overstated a little (see ``hull_depth``), which for
    a face mesh amounts to less than one code of 255.
    """
    soft = feather * size
    depth = torch.minimum(hull_depth(mesh, size), border_depth(size, mesh.device))
    return smooth_step(depth / soft)


def hull_depth(points: Tensor, size: int) -> Tensor:
    """Return how deep each pixel lies inside the convex hull of ``points``, (K, size, size).

    ``points`` is (K, N, 2) in pixels; the depth is in pixels, negative outside. The hull is the
    intersection of the half-planes that support it in DIRECTIONS directions: one product and one
    minimum, whatever the number of points and their order.
    """
    angles = torch.arange(DIRECTIONS, device=points.device) * (2 * math.pi / DIRECTIONS)
    normals = torch.stack([angles.cos(), angles.sin()])
    reach = (points @ normals).amax(dim=1)
    line = torch.arange(size, dtype=torch.float32, device=points.device)
    x, y = normals[:, :, None] * line
    if points.is_cuda:  # one reduction, which the compiler makes one kernel of
        far: Tensor = reach[:, :, None, None] - (x[:, None, :] + y[:, :, None])
        return far.amin(dim=1)
    depths = points.new_empty(len(points), size, size)
    # some rows of one face at a time: what is worked on then stays in the cache
    for far, depth in zip(reach, depths, strict=True):
        for rest, part in zip(
            (far[:, None] - y).split(BAND, dim=1), depth.split(BAND), strict=True
        ):
            torch.amin(rest[:, :, None] - x[:, None, :], dim=0, out=part)
    return depths


def border_depth(size: int, device: torch.device) -> Tensor:
    """Return the distance of each pixel to the crop's outermost pixels, (size, size)."""
    line = torch.arange(size, dtype=torch.float32, device=device)
    edge = torch.minimum(line, size - 1 - line)
    return torch.minimum(edge[None, :], edge[:, None])


def smooth_step(x: Tensor) -> Tensor:
    """Return 0 below 0, 1 above 1, and the cubic with flat ends between."""
    x = x.clamp(0, 1)
    return x * x * (3 - 2 * x)
