"""Similarity transforms of the plane, batched: turn, scale and move, never shear or mirror.

A matrix is float32 (..., 2, 3) and maps a point (x, y) to ``M[:, :2] @ (x, y) + M[:, 2]``.
"""

from __future__ import annotations

import torch
from torch import Tensor

TINY = torch.finfo(torch.float32).tiny
"""Added to the energy of points that all coincide, and to what it divides."""


def fit_similarity(source: Tensor, target: Tensor) -> Tensor:
    """Return the similarities (K, 2, 3) that take ``source`` nearest to ``target``.

    Both are float (K, N, 2), N >= 2; one of them may be (N, 2) and then serves all K. The sum of
    squared distances is least, as in Umeyama, "Least-squares estimation of transformation
    parameters between two point patterns" (PAMI 1991). In the plane that problem is linear: with
    points as complex numbers, centred, the factor is <source, target> / <source, source>. So no
    singular value decomposition is needed, and none can mirror the face.

    Points that all coincide have no direction: the result is then a pure shift.
    """
    dtype, source, target = source.dtype, source.double(), target.double()
    from_middle, to_middle = source.mean(dim=-2, keepdim=True), target.mean(dim=-2, keepdim=True)
    s, t = source - from_middle, target - to_middle
    (sx, sy), (tx, ty) = s.unbind(dim=-1), t.unbind(dim=-1)
    # where there is no energy, the other two are 0 as well: the factor is 1
    energy = torch.addcmul(sx * sx, sy, sy).sum(dim=-1, keepdim=True) + TINY
    a = (torch.addcmul(sx * tx, sy, ty).sum(dim=-1, keepdim=True) + TINY) / energy
    b = torch.addcmul(sx * ty, sy, tx, value=-1).sum(dim=-1, keepdim=True) / energy
    (x, y), (to_x, to_y) = from_middle.unbind(dim=-1), to_middle.unbind(dim=-1)
    shift_x = torch.addcmul(torch.addcmul(to_x, a, x, value=-1), b, y)
    shift_y = torch.addcmul(torch.addcmul(to_y, b, x, value=-1), a, y, value=-1)
    matrices = torch.cat([a, -b, shift_x, b, a, shift_y], dim=-1)
    return matrices.reshape(*matrices.shape[:-1], 2, 3).to(dtype)


def invert(matrices: Tensor) -> Tensor:
    """Return the inverse transforms of ``matrices`` (..., 2, 3), any invertible affine."""
    a, b, x, c, d, y = matrices.double().flatten(start_dim=-2).unbind(dim=-1)
    determinant = torch.addcmul(a * d, b, c, value=-1)
    shift_x = torch.addcmul(b * y, d, x, value=-1)
    shift_y = torch.addcmul(c * x, a, y, value=-1)
    adjugate = torch.stack([d, -b, shift_x, -c, a, shift_y], dim=-1)
    return (adjugate / determinant.unsqueeze(-1)).to(matrices.dtype).reshape(matrices.shape)


def compose(second: Tensor, first: Tensor) -> Tensor:
    """Return the transforms that apply ``first`` and then ``second``; both (..., 2, 3)."""
    if torch.compiler.is_compiling():  # as sums, which become one kernel with what is around them
        product = second[..., 0, None] * first[..., 0, None, :]
        product = product + second[..., 1, None] * first[..., 1, None, :]
    else:
        product = second[..., :2] @ first
    return torch.cat([product[..., :2], product[..., 2:] + second[..., 2:]], dim=-1)


def apply(matrices: Tensor, points: Tensor) -> Tensor:
    """Return ``points`` (..., N, 2) moved by ``matrices`` (..., 2, 3)."""
    if torch.compiler.is_compiling():  # see compose
        x, y = points[..., 0, None], points[..., 1, None]
        to_x, to_y, shift = matrices.unsqueeze(-3).unbind(dim=-1)
        return x * to_x + y * to_y + shift
    return points @ matrices[..., :2].mT + matrices[..., 2].unsqueeze(-2)


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
