"""Colour matching by sums and products is that of the stage."""

from __future__ import annotations

import torch

from mien.replay.color import ColorMatch, Jacobi
from mien.stages.color import match_color


def test_colours_are_those_of_the_stage():
    random = torch.Generator().manual_seed(0)
    shade = torch.rand(3, 3, 1, 1, generator=random)
    pixels = (torch.rand(3, 3, 64, 64, generator=random) * 0.3 + shade * 0.7).clamp(0, 1)
    target = (torch.rand(3, 3, 64, 64, generator=random) * shade.flip(1)).clamp(0, 1)
    pixels[1] = 0.5  # flat: no direction to stretch
    weights = torch.rand(3, 64, 64, generator=random)
    weights[2] = 0
    made = ColorMatch()(pixels, target, weights)
    torch.testing.assert_close(made, match_color(pixels, target, weights), atol=2e-4, rtol=0)


def test_eigenvalues_of_all_kinds_of_matrices():
    random = torch.Generator().manual_seed(1)
    vectors = torch.linalg.qr(torch.randn(200, 3, 3, generator=random, dtype=torch.float64)).Q
    values = 10 ** (torch.rand(200, 3, generator=random, dtype=torch.float64) * 6 - 6)
    values[:50, 1] = values[:50, 0]
    values[:10] = 1e-6
    matrices = (vectors * values[:, None]) @ vectors.transpose(1, 2)
    found, turned = Jacobi()(matrices)
    again = (turned * found[:, None]) @ turned.transpose(1, 2)
    torch.testing.assert_close(again, matrices, atol=1e-12, rtol=1e-9)
    wanted = torch.linalg.eigvalsh(matrices)
    torch.testing.assert_close(found.sort(dim=1).values, wanted, atol=1e-12, rtol=1e-9)
