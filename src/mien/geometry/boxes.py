"""Boxes: how much two of them share."""

from __future__ import annotations

import torch
from torch import Tensor


def intersection_over_union(a: Tensor, b: Tensor) -> Tensor:
    """Return the overlaps (..., A, B), 0 to 1, of boxes (..., A, 4) with boxes (..., B, 4)."""
    shared = _intersection(a, b)
    return shared / (_area(a)[..., :, None] + _area(b)[..., None, :] - shared).clamp_min(1e-9)


def intersection_over_smaller(a: Tensor, b: Tensor) -> Tensor:
    """Return which share (..., A, B), 0 to 1, of the smaller of two boxes lies in the other."""
    return _intersection(a, b) / torch.minimum(
        _area(a)[..., :, None], _area(b)[..., None, :]
    ).clamp_min(1e-9)


def _intersection(a: Tensor, b: Tensor) -> Tensor:
    low = torch.maximum(a[..., :, None, :2], b[..., None, :, :2])
    high = torch.minimum(a[..., :, None, 2:], b[..., None, :, 2:])
    return (high - low).clamp_min(0).prod(dim=-1)


def _area(boxes: Tensor) -> Tensor:
    return (boxes[..., 2:] - boxes[..., :2]).prod(dim=-1)
