"""Kernels give what their eager twins give.

Without a GPU they are run by Triton's interpreter, where Triton is installed: slowly, so on little.
"""

from __future__ import annotations

import os

import pytest
import torch
from conftest import scene
from torch.nn import functional

from mien import kernels
from mien.geometry import fit_similarity, template
from mien.geometry import warp as one_by_one
from mien.geometry.spans import whole_table
from mien.replay import color, warp
from mien.stages import color as by_solvers

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported
pytestmark = pytest.mark.skipif(not kernels.installed(), reason="Triton is not installed here")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SIZE, SMALL = 32, 16


def faces(scale):
    points = template("arcface_128").at(SIZE) * scale
    turn = torch.tensor([[0.8, -0.6], [0.6, 0.8]])
    at = torch.stack([points + 10, points @ turn.T + torch.tensor([40.0, 5.0]), points - 8])
    return fit_similarity(at, template("arcface_128").at(SIZE)).to(DEVICE)


def soft(count):
    """Return patches that are opaque here and there, and nowhere at their edges."""
    random = torch.Generator().manual_seed(0)
    opacity = torch.rand(count, 1, SIZE, SIZE, generator=random)
    opacity[:, :, :4] = opacity[:, :, -4:] = opacity[..., :4] = opacity[..., -4:] = 0
    patches = torch.rand(count, 3, SIZE, SIZE, generator=random) * opacity
    return torch.cat([patches, opacity], dim=1).to(DEVICE)


@pytest.fixture
def both(monkeypatch):
    """Return what a function gives with kernels and without."""

    def run(function, *given):
        made = []
        for there in (True, False):
            for module in (warp, color, one_by_one, by_solvers):
                monkeypatch.setattr(module, "usable", lambda like, there=there: there)
            made.append(function(*given))
        return made

    return run


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.7])
def test_cuts_are_those_of_the_twin(both, load, scale):
    frame = scene([load("ben")], 96, 1).to(DEVICE)
    fused, eager = both(warp.cut, frame, faces(scale), SIZE)
    torch.testing.assert_close(fused, eager, atol=2e-4, rtol=0)


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.7])
def test_cuts_one_by_one_are_those_of_the_kernel(both, load, scale):
    frame = scene([load("ben")], 96, 1).to(DEVICE)
    fused, eager = both(one_by_one.cut, frame, faces(scale).cpu(), SIZE)
    # that one shrinks bytes on a CPU, and so rounds once more
    torch.testing.assert_close(fused, eager, atol=1.5 / 255, rtol=0)


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0])
def test_what_is_pasted_one_by_one_is_what_the_kernel_lays(both, load, scale):
    frame = scene([load("ben")], 96, 1).to(DEVICE)
    soft_ones = functional.avg_pool2d(soft(3), 5, 1, 2)

    def pasted(pixels, *given):
        made = pixels.clone()
        covered = one_by_one.paste(made, *given)
        again = made.clone()
        one_by_one.uncover(again, covered)
        assert torch.equal(again, pixels)
        return made

    fused, eager = both(pasted, frame, soft_ones, faces(scale).cpu())
    assert not torch.equal(eager, frame)
    off = (fused.int() - eager.int()).abs()
    assert float(off.float().mean()) < 0.15
    assert int(off.max()) <= 4


def test_colours_by_solvers_are_those_of_the_kernels(both):
    made, target = soft(2)[:, :3].clamp(0.01, 0.99), soft(2).flip(3)[:, :3]
    weights = soft(2)[:, 3]
    fused, eager = both(by_solvers.match_color, made, target, weights)
    torch.testing.assert_close(fused, eager, atol=2e-3, rtol=0)


def test_a_whole_frame_is_resized_as_by_the_twin(load):
    from mien.kernels.cut import cut

    frame = scene([load("ben")], 96, 1).to(DEVICE)
    height, width = frame.shape[:2]
    frames = torch.stack([frame, frame.flip(0)])
    planes = frames.permute(0, 3, 1, 2).float()
    for size, count in (((30, 40), 2), ((96, 96), 1), ((130, 110), 1)):
        wanted = functional.interpolate(planes[:count], size, mode="bilinear", antialias=True)
        table = whole_table(size, (height, width)).to(DEVICE).expand(count, -1)
        made = cut(frames[:count], table, *size) * 255
        torch.testing.assert_close(made, wanted, atol=0.02, rtol=0)


@pytest.mark.parametrize("width", [61, 64])
def test_bytes_are_read_wherever_a_row_begins(width, monkeypatch):
    from mien.kernels import cut

    # the interpreter takes as long for a small tile as for a large one
    monkeypatch.setattr(cut, "ACROSS", 16)
    monkeypatch.setattr(cut, "DOWN", 32)
    random = torch.Generator().manual_seed(0)
    # of 61 columns, rows begin anywhere in a word, and so do the frames after the first
    frames = torch.randint(0, 256, (3, 47, width, 3), dtype=torch.uint8, generator=random)
    frames = frames.to(DEVICE)[1:]
    turn = torch.tensor([[0.8, -0.6], [0.6, 0.8]])
    for scale in (0.4, 2.7):  # the cubic, the triangle
        points = template("arcface_128").at(SMALL) * scale
        at = torch.stack([points @ turn.T + torch.tensor([12.0, 5.0]), points + 40])
        matrices = fit_similarity(at, template("arcface_128").at(SMALL))
        table = warp._table(matrices, SMALL, 47, width).to(DEVICE)
        made = cut.cut(frames, table, SMALL, SMALL)
        wanted = warp.cut(frames.cpu(), matrices, SMALL).to(DEVICE)
        torch.testing.assert_close(made, wanted, atol=1e-4, rtol=0)
    table = whole_table((16, 20), (47, width)).to(DEVICE).expand(2, -1)
    made = cut.cut(frames, table, 16, 20)
    planes = frames.permute(0, 3, 1, 2).float() / 255
    wanted = functional.interpolate(planes, (16, 20), mode="bilinear", antialias=True)
    torch.testing.assert_close(made, wanted, atol=1e-4, rtol=0)


def test_faces_are_cut_out_of_their_own_frames(both, load):
    frame = scene([load("ben")], 96, 1).to(DEVICE)
    frames = torch.stack([torch.zeros_like(frame), frame, torch.full_like(frame, 255)])
    matrices = faces(1.0)  # one is half out of its frame
    fused, eager = both(warp.cut, frames, matrices.repeat(3, 1, 1), SIZE)
    torch.testing.assert_close(fused, eager, atol=2e-4, rtol=0)
    dark, own, bright = fused.view(3, 3, 3, SIZE, SIZE)
    assert float(dark.max()) == 0
    assert float(bright.min()) > 1 - 1e-5
    alone, _ = both(warp.cut, frame, matrices, SIZE)
    assert torch.equal(own, alone)


@pytest.mark.parametrize("size", [32, 44])
def test_colours_are_those_of_the_twin(both, load, size):
    random = torch.Generator().manual_seed(0)
    ben, mei = (scene([load(name)], size, 1).permute(2, 0, 1) / 255 for name in ("ben", "mei"))
    flat = torch.full_like(ben, 0.5)
    gray = ben.mean(dim=0, keepdim=True).expand_as(ben)
    made = torch.stack([ben, ben, mei, flat, ben]).to(DEVICE)
    target = torch.stack([mei, gray, ben, mei, mei]).to(DEVICE)
    weights = torch.rand(5, size, size, generator=random).to(DEVICE)
    weights[4] = 0  # a slot without a face
    match = color.ColorMatch().to(DEVICE)
    fused, eager = both(match, made, target, weights)
    torch.testing.assert_close(fused, eager, atol=2e-4, rtol=0)
    assert torch.equal(fused[4], made[4])


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.7])
def test_pastes_are_those_of_the_twin(both, load, scale):
    frame = scene([load("ben")], 96, 1).to(DEVICE)
    patches = soft(3)
    order = torch.tensor([2, 0, 1], device=DEVICE)
    before = frame.clone()
    fused, eager = both(warp.lay, frame, patches, faces(scale), order)
    assert torch.equal(frame, before)
    apart = (fused.int() - eager.int()).abs()
    # the twin rounds once, half to even; the kernel as well, half up
    assert int(apart.max()) <= 1
    assert float((apart > 0).float().mean()) < 1e-3


def test_patches_are_laid_over_their_own_frames(both, load):
    frame = scene([load("ben")], 96, 1).to(DEVICE)
    frames = torch.stack([frame, frame.flip(0), frame.flip(1)])
    patches, matrices = soft(9), faces(1.0)
    patches[6:] = 0
    order = torch.tensor([2, 0, 1], device=DEVICE)
    fused, _ = both(warp.lay, frames, patches, matrices.repeat(3, 1, 1), order)
    for i, made in enumerate(fused[:2]):
        alone, _ = both(warp.lay, frames[i], patches[3 * i : 3 * i + 3], matrices, order)
        assert torch.equal(made, alone)
        assert not torch.equal(made, frames[i])
    assert torch.equal(fused[2], frames[2])
