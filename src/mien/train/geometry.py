"""Affine looks at batches of crops, and which of their pixels are real.

Coordinates here are those of ``grid_sample``: -1 and 1 are a picture's edges, whatever its size. A
view is a matrix (N, 2, 3) that takes a place in the result to a place in the picture.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def views(turn: Tensor, scale: Tensor, shift: Tensor, mirror: Tensor) -> Tensor:
    """Return views (N, 2, 3) from turns in radians (N,), scales (N,), shifts (N, 2), mirrors (N,).

    A scale of 2 shows twice as much; ``mirror`` is 1 or -1 and is applied first.
    """
    cos, sin = torch.cos(turn) * scale, torch.sin(turn) * scale
    rows = torch.stack([cos * mirror, -sin, shift[:, 0], sin * mirror, cos, shift[:, 1]], dim=1)
    return rows.view(-1, 2, 3)


def looked(pictures: Tensor, view: Tensor, size: int, *, mode: str, padding: str) -> Tensor:
    """Return ``pictures`` (N, C, H, W) seen by ``view``, (N, C, size, size)."""
    grid = places(view, size, size).to(pictures.dtype)
    return functional.grid_sample(
        pictures, grid, mode=mode, padding_mode=padding, align_corners=False
    )


def real(quads: Tensor, view: Tensor, size: int, margin: float = 1.5) -> Tensor:
    """Return where the result of a view shows real picture, float (N, 1, size, size), 0 or 1.

    ``quads`` (N, 4, 2) are the corners of the real picture, clockwise as seen from the top left.
    What lies beyond the crop is padding too, and so are ``margin`` pixels inside either border:
    filters have mixed them with it.
    """
    at = places(view, size, size)
    inside = distance_inside(quads, at)
    crop = (1 - at.abs()).amin(dim=3)[:, None]
    edge = margin * 2 / size
    return ((inside >= edge) & (crop >= -1e-6)).float()


def distance_inside(corners: Tensor, places: Tensor) -> Tensor:
    """Return how far within a convex polygon places lie, (N, 1, h, w); negative is outside.

    ``corners`` (N, K, 2) go round clockwise as seen (y downward); ``places`` is (N or 1, h, w, 2).
    """
    side = corners.roll(-1, dims=1) - corners
    side = side / side.norm(dim=2, keepdim=True).clamp_min(1e-6)
    along_x, along_y = side[:, :, None, None].unbind(dim=4)
    from_x, from_y = (places[:, None] - corners[:, :, None, None]).unbind(dim=4)
    distance: Tensor = along_x * from_y - along_y * from_x
    return distance.amin(dim=1, keepdim=True)


def places(view: Tensor, height: int, width: int) -> Tensor:
    """Return what pixels of a result look at, (N, height, width, 2).

    As ``functional.affine_grid`` does, but without a matrix product: that would be done in
    bfloat16 under autocast, whose numbers are half a pixel apart in a crop of 256.
    """
    x = (torch.arange(width, device=view.device) + 0.5) * (2 / width) - 1
    y = ((torch.arange(height, device=view.device) + 0.5) * (2 / height) - 1)[:, None, None]
    across, down, shift = view[:, None, None].unbind(dim=4)
    grid: Tensor = x[:, None] * across + y * down + shift
    return grid


def box(left: float, top: float, right: float, bottom: float, like: Tensor) -> Tensor:
    """Return the view (1, 2, 3) of a rectangle given in fractions of the side."""
    return like.new_tensor(
        [[[right - left, 0, left + right - 1], [0, bottom - top, top + bottom - 1]]]
    )


def composed(last: Tensor, first: Tensor) -> Tensor:
    """Return the view that applies ``first`` and then ``last`` to a place, all (N, 2, 3)."""
    turned = (last[:, :, :2, None] * first[:, None]).sum(dim=2)  # no matrix product, as above
    return torch.cat([turned[:, :, :2], turned[:, :, 2:] + last[:, :, 2:]], dim=2)
