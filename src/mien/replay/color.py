"""Colour matching as in ``stages.color``, by sums and products alone.

Solvers of the libraries look at what they found, and the processor waits for that. Matrices of
three rows need none.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mien.kernels import usable
from mien.stages.color import (
    STRETCH,
    SWEEPS,
    TO_CONES,
    TO_OKLAB,
    VARIANCE_FLOOR,
    averaged,
    in_kernels,
    maps,
)

PLANES = ((0, 1), (0, 2), (1, 2))


class ColorMatch(nn.Module):
    """Gives pictures the colour mean and covariance of others; see ``stages.color.match_color``."""

    to_cones: Tensor
    to_oklab: Tensor
    from_cones: Tensor
    from_oklab: Tensor
    matrices: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name, values in (("cones", TO_CONES), ("oklab", TO_OKLAB)):
            matrix = torch.tensor(values, dtype=torch.float64)
            self.register_buffer(f"to_{name}", matrix.float())
            self.register_buffer(f"from_{name}", torch.linalg.inv(matrix).float())
        self.register_buffer("matrices", maps(torch.device("cpu")).clone())
        self.jacobi = Jacobi()

    def forward(self, pixels: Tensor, target: Tensor, weights: Tensor) -> Tensor:
        """Return RGB ``pixels`` (K, 3, S, S) in [0, 1] with the colours of ``target``.

        ``weights`` (K, S, S) >= 0 says how much each pixel counts. Pictures whose weights are all
        zero come back as they are.
        """
        if usable(pixels):
            return in_kernels(pixels, target, weights, self.matrices)
        lab = self._lab(pixels)
        mean, covariance = self._moments(lab, weights)
        wanted_mean, wanted = self._moments(self._lab(target), weights)
        root, inverse = self._roots(covariance)
        middle, _ = self._roots(root @ wanted @ root)
        stretch, directions = self.jacobi(inverse @ middle @ inverse)
        stretch = stretch.clamp_max(STRETCH)
        transport = (directions * stretch[:, None]) @ directions.transpose(1, 2)
        moved = transport.float() @ (lab.flatten(2) - mean) + wanted_mean
        counted = (weights.flatten(1).sum(dim=1) > 0)[:, None, None, None]
        return torch.where(counted, self._rgb(moved.view_as(lab)).clamp(0, 1), pixels)

    def _moments(self, lab: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        flat, w = averaged(lab, weights)
        mean = (flat * w).sum(dim=2, keepdim=True)
        centred = flat - mean
        covariance = ((centred * w) @ centred.transpose(1, 2)).double()
        return mean, covariance + VARIANCE_FLOOR * self.jacobi.whole

    def _roots(self, matrices: Tensor) -> tuple[Tensor, Tensor]:
        """Return square roots and their inverses of symmetric positive matrices (K, 3, 3)."""
        values, vectors = self.jacobi(matrices)
        roots = values.clamp_min(1e-12).sqrt()
        turned = vectors.transpose(1, 2)
        return (vectors * roots[:, None]) @ turned, (vectors / roots[:, None]) @ turned

    def _lab(self, rgb: Tensor) -> Tensor:
        bright = ((rgb + 0.055) / 1.055).clamp_min(0) ** 2.4
        linear = torch.where(rgb <= 0.04045, rgb / 12.92, bright)
        cones = (self.to_cones @ linear.flatten(2)).clamp_min(0) ** (1 / 3)
        return (self.to_oklab @ cones).view_as(rgb)

    def _rgb(self, lab: Tensor) -> Tensor:
        cones = self.from_oklab @ lab.flatten(2)
        linear = (self.from_cones @ cones**3).clamp_min(0)
        bright = 1.055 * linear ** (1 / 2.4) - 0.055
        return torch.where(linear <= 0.0031308, linear * 12.92, bright).view_as(lab)


class Jacobi(nn.Module):
    """Eigenvalues of symmetric matrices of three rows, by Jacobi's rotations."""

    whole: Tensor
    turns: Tensor
    kept: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("whole", torch.eye(3, dtype=torch.float64))
        turns, kept = torch.zeros(2, 3, 3, 3, dtype=torch.float64)
        for i, (p, q) in enumerate(PLANES):
            turns[i, p, q], turns[i, q, p] = 1, -1
            kept[i, p, p] = kept[i, q, q] = 1
        self.register_buffer("turns", turns)
        self.register_buffer("kept", kept)

    def forward(self, matrices: Tensor) -> tuple[Tensor, Tensor]:
        """Return eigenvalues (K, 3), in no order, and eigenvectors (K, 3, 3), float64, in columns.

        Golub and Van Loan, "Matrix computations", section 8.5.
        """
        a = matrices.double()
        vectors = self.whole.expand_as(a)
        for _ in range(SWEEPS):
            for i, (p, q) in enumerate(PLANES):
                off = a[:, p, q]
                still = off == 0
                ratio = (a[:, q, q] - a[:, p, p]) / torch.where(still, 1, 2 * off)
                sign = torch.where(ratio < 0, -1.0, 1.0)
                tangent = sign / (ratio.abs() + (ratio * ratio + 1).sqrt())
                tangent = torch.where(still, 0, tangent)[:, None, None]
                cosine = (tangent * tangent + 1).rsqrt()
                turn = self.whole + (cosine - 1) * self.kept[i] + tangent * cosine * self.turns[i]
                a = turn.transpose(1, 2) @ a @ turn
                vectors = vectors @ turn
        return a.diagonal(dim1=1, dim2=2), vectors
