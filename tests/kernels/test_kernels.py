"""Kernels give what their eager twins give.

Without a GPU they are run by Triton's interpreter, where Triton is installed: slowly, so on little.
"""

from __future__ import annotations

import os

import pytest
import torch
from conftest import scene

from mien import kernels
from mien.geometry import fit_similarity, template
from mien.replay import warp

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported
pytestmark = pytest.mark.skipif(not kernels.installed(), reason="Triton is not installed here")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SIZE = 32


def faces(scale):
    points = template("arcface_128").at(SIZE) * scale
    turn = torch.tensor([[0.8, -0.6], [0.6, 0.8]])
    at = torch.stack([points + 10, points @ turn.T + torch.tensor([40.0, 5.0]), points - 8])
    return fit_similarity(at, template("arcface_128").at(SIZE)).to(DEVICE)


@pytest.fixture
def both(monkeypatch):
    """Return what a function gives with kernels and without."""

    def run(function, *given):
        made = []
        for there in (True, False):
            monkeypatch.setattr(warp, "usable", lambda like, there=there: there)
            made.append(function(*given))
        return made

    return run


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.7])
def test_cuts_are_those_of_the_twin(both, load, scale):
    frame = scene([load("ben")], 96, 1).to(DEVICE)
    fused, eager = both(warp.cut, frame, faces(scale), SIZE)
    torch.testing.assert_close(fused, eager, atol=2e-4, rtol=0)


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.7])
def test_pastes_are_those_of_the_twin(both, load, scale):
    frame = scene([load("ben")], 96, 1).to(DEVICE)
    random = torch.Generator().manual_seed(0)
    opacity = torch.rand(3, 1, SIZE, SIZE, generator=random)
    opacity[:, :, :4] = opacity[:, :, -4:] = opacity[..., :4] = opacity[..., -4:] = 0
    patches = torch.rand(3, 3, SIZE, SIZE, generator=random) * opacity
    patches = torch.cat([patches, opacity], dim=1).to(DEVICE)
    order = torch.tensor([2, 0, 1], device=DEVICE)
    before = frame.clone()
    fused, eager = both(warp.lay, frame, patches, faces(scale), order)
    assert torch.equal(frame, before)
    apart = (fused.int() - eager.int()).abs()
    # the twin rounds once, half to even; the kernel as well, half up
    assert int(apart.max()) <= 1
    assert float((apart > 0).float().mean()) < 1e-3
