"""Candidates for the kernel that cuts faces out; for as long as there are several."""

from __future__ import annotations

import os
from importlib import import_module

import pytest
import torch
from torch.nn import functional

from mien import kernels
from mien.geometry import fit_similarity, template
from mien.replay import warp

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported
pytestmark = pytest.mark.skipif(not kernels.installed(), reason="Triton is not installed here")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SIZE = 16
# the interpreter takes as long for a large tile as for a small one
TILE = {"across": 16, "down": 32}
CANDIDATES = [
    ("cut_b", {"taps": 6}),
    ("cut_c", {"taps": 6, "bits": True}),
    ("cut_c", {"taps": 4, "bits": False, "lines": 2}),
]


@pytest.mark.parametrize(("name", "options"), CANDIDATES)
@pytest.mark.parametrize("width", [61, 64])
def test_bytes_are_read_wherever_a_row_begins(name, options, width):
    cut_in = import_module(f"mien.kernels.{name}").cut_in
    random = torch.Generator().manual_seed(0)
    # of 61 columns, rows begin anywhere in a word, and so do the frames after the first
    frames = torch.randint(0, 256, (3, 47, width, 3), dtype=torch.uint8, generator=random)
    frames = frames.to(DEVICE)[1:]
    turn = torch.tensor([[0.8, -0.6], [0.6, 0.8]])
    for scale in (0.4, 2.7):  # the cubic, the triangle
        points = template("arcface_128").at(SIZE) * scale
        at = torch.stack([points @ turn.T + torch.tensor([12.0, 5.0]), points + 40])
        matrices = fit_similarity(at, template("arcface_128").at(SIZE))
        table = warp._table(matrices, SIZE, 47, width).to(DEVICE)
        made = cut_in(frames, table, SIZE, SIZE, **TILE, **options)
        wanted = warp.cut(frames.cpu(), matrices, SIZE).to(DEVICE)
        torch.testing.assert_close(made, wanted, atol=1e-4, rtol=0)
    table = warp.whole_table((16, 20), (47, width)).to(DEVICE).expand(2, -1)
    made = cut_in(frames, table, 16, 20, **TILE, **options)
    planes = frames.permute(0, 3, 1, 2).float() / 255
    wanted = functional.interpolate(planes, (16, 20), mode="bilinear", antialias=True)
    torch.testing.assert_close(made, wanted, atol=1e-4, rtol=0)
