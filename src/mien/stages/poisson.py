"""Poisson blending: keep the swapped face's gradients, take the border's colours from the target.

Pérez, Gangnet, Blake, "Poisson image editing" (SIGGRAPH 2003), on the rectangle of a crop. On a
rectangle with a fixed border the discrete equation is diagonal in sines, so the exact solution is
two matrix products, a division, and two matrix products: no iteration.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor


def poisson_blend(patch: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    """Return ``target`` with the gradients of ``patch`` where ``mask`` is 1.

    ``patch`` and ``target`` are (K, C, H, W) with H, W >= 3, ``mask`` is (K, H, W) in [0, 1] and
    may be soft: gradients are mixed in proportion. The outermost pixels are the target's. Values
    are not clamped.
    """
    opacity = mask[:, None]
    gx = torch.lerp(target.diff(dim=-1), patch.diff(dim=-1), opacity[..., :-1])
    gy = torch.lerp(target.diff(dim=-2), patch.diff(dim=-2), opacity[..., :-1, :])
    divergence = gx.diff(dim=-1)[..., 1:-1, :] + gy.diff(dim=-2)[..., 1:-1]
    result = target.clone()
    result[..., 1:-1, 1:-1] = solve(divergence, target)
    return result


def solve(laplacian: Tensor, border: Tensor) -> Tensor:
    """Return u (..., H - 2, W - 2), the picture with this Laplacian inside this border.

    ``laplacian`` is (..., H - 2, W - 2), for the five-point stencil; of ``border`` (..., H, W) only
    the outermost pixels are read.
    """
    known = laplacian.clone()
    known[..., 0, :] -= border[..., 0, 1:-1]
    known[..., -1, :] -= border[..., -1, 1:-1]
    known[..., :, 0] -= border[..., 1:-1, 0]
    known[..., :, -1] -= border[..., 1:-1, -1]
    rows, columns = known.shape[-2:]
    sines_y, values_y = _sines(rows, known.dtype, known.device)
    sines_x, values_x = _sines(columns, known.dtype, known.device)
    modes = sines_y @ known @ sines_x
    modes = modes / (values_y[:, None] + values_x)
    return sines_y @ modes @ sines_x


@lru_cache(maxsize=16)
def _sines(n: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the orthonormal sine transform (n, n), its own inverse, and the eigenvalues (n,).

    They belong to the second difference (1, -2, 1) with zero ends: the DST-I.
    """
    k = torch.arange(1, n + 1, dtype=torch.float64) * (math.pi / (n + 1))
    position = torch.arange(1, n + 1, dtype=torch.float64)
    basis = math.sqrt(2 / (n + 1)) * torch.sin(position[:, None] * k)
    return basis.to(device, dtype), (2 * torch.cos(k) - 2).to(device, dtype)
