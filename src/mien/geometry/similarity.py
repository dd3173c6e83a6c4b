"""Similarity transforms of the plane, batched: turn, scale and move, never shear or mirror.

A matrix is float32 (..., 2, 3) and maps a point (x, y) to ``M[:, :2] @ (x, y) + M[:, 2]``.
"""

from __future__ import annotations

import torch
from torch import Tensor


def fit_similarity(source: Tensor, target: Tensor) -> Tensor:
    """Return the similarities (K, 2, 3) that take ``source`` nearest to ``target``.

    Both are float (K, N, 2), N >= 2; one of them may be (N, 2) and then serves all K. The sum of
    squared distances is least, as in Umeyama, "Least-squares estimation of transformation
    parameters between two point patterns" (PAMI 1991). In the plane that problem is linear: with
    points as complex numbers, centred, the factor is <source, target> / <source, source>. So no
    singular value decomposition is needed, and none can mirror the face.

    Points that all coincide have no direction: the result is then a pure shift.
    """
    source, target = torch.broadcast_tensors(source, target)
    dtype, source, target = source.dtype, source.double(), target.double()
    source_mean = source.mean(dim=-2, keepdim=True)
    target_mean = target.mean(dim=-2, keepdim=True)
    s, t = source - source_mean, target - target_mean
    energy = s.square().sum(dim=(-2, -1))
    along = (s * t).sum(dim=(-2, -1))
    across = (s[..., 0] * t[..., 1] - s[..., 1] * t[..., 0]).sum(dim=-1)
    still = energy <= torch.finfo(torch.float32).tiny
    energy = torch.where(still, torch.ones_like(energy), energy)
    a = torch.where(still, torch.ones_like(along), along / energy)
    b = torch.where(still, torch.zeros_like(across), across / energy)
    linear = torch.stack([torch.stack([a, -b], dim=-1), torch.stack([b, a], dim=-1)], dim=-2)
    shift = target_mean - source_mean @ linear.transpose(-1, -2)
    return torch.cat([linear, shift.transpose(-1, -2)], dim=-1).to(dtype)


def invert(matrices: Tensor) -> Tensor:
    """Return the inverse transforms of ``matrices`` (..., 2, 3), any invertible affine."""
    m = matrices.double()
    (a, b), (c, d) = (m[..., 0, :2].unbind(-1), m[..., 1, :2].unbind(-1))
    determinant = a * d - b * c
    inverse = torch.stack([d, -b, -c, a], dim=-1) / determinant.unsqueeze(-1)
    inverse = inverse.reshape(*m.shape[:-1], 2)
    shift = -inverse @ m[..., 2:]
    return torch.cat([inverse, shift], dim=-1).to(matrices.dtype)


def compose(second: Tensor, first: Tensor) -> Tensor:
    """Return the transforms that apply ``first`` and then ``second``; both (..., 2, 3)."""
    linear = second[..., :2] @ first[..., :2]
    shift = second[..., :2] @ first[..., 2:] + second[..., 2:]
    return torch.cat([linear, shift], dim=-1)


def apply(matrices: Tensor, points: Tensor) -> Tensor:
    """Return ``points`` (..., N, 2) moved by ``matrices`` (..., 2, 3)."""
    return points @ matrices[..., :2].transpose(-1, -2) + matrices[..., 2].unsqueeze(-2)


def scales(matrices: Tensor) -> Tensor:
    """Return by how much each similarity (..., 2, 3) stretches a length, as (...)."""
    return matrices[..., :, 0].square().sum(dim=-1).sqrt()


def zoom_about_centre(points: Tensor, size: int, factor: float) -> Tensor:
    """Return ``points`` (..., 2) of a crop of ``size`` pixels as seen in one ``factor`` wider.

    The wider crop has the same centre and the same number of pixels, so the points draw together
    when ``factor`` exceeds 1.
    """
    centre = (size - 1) / 2
    return (points - centre) / factor + centre
