"""The warps of fixed size give what those of the engine give."""

from __future__ import annotations

import pytest
import torch
from conftest import scene
from torch import Tensor

from mien import geometry
from mien.geometry import compose, fit_similarity, scales, template
from mien.replay.warp import cut, lay
from mien.stages.mask import smooth_step


def psnr(a: Tensor, b: Tensor) -> float:
    """Return the peak signal-to-noise ratio, in dB, of values in [0, 1]."""
    return float(-10 * torch.log10((a - b).square().mean().clamp_min(1e-12)))


def faces(scale: float) -> Tensor:
    """Return matrices of three faces: upright, turned, and half out of the picture."""
    points = template("arcface_128").at(128) * scale
    turn = torch.tensor([[0.8, -0.6], [0.6, 0.8]])
    at = torch.stack([points + 40, points @ turn.T + torch.tensor([200.0, 60.0]), points - 30])
    return fit_similarity(at, template("arcface_128").at(128))


@pytest.mark.parametrize("scale", [0.3, 0.7, 1.0, 1.6, 4.0])
def test_cuts_are_those_of_the_engine(load, scale):
    frame = scene([load("ben")], 480, 1)
    matrices = faces(scale)
    wanted = geometry.cut(frame, matrices, 128)
    made = cut(frame, matrices, 128)
    assert made.shape == wanted.shape
    for one, other in zip(made[:2], wanted[:2], strict=True):
        assert psnr(one, other) > 42


@pytest.mark.parametrize("scale", [0.3, 0.7, 1.0, 1.6, 3.0])
def test_pastes_are_those_of_the_engine(load, scale):
    frame = scene([load("ben")], 480, 1)
    matrices = faces(scale)
    crops = geometry.cut(frame, matrices, 128)
    line = torch.arange(128.0)
    edge = torch.minimum(line, 127 - line) / 16
    mask = smooth_step(torch.minimum(edge[None], edge[:, None])).expand(3, 1, -1, -1)
    patches = torch.cat([crops.flip(1) * mask, mask], dim=1)
    wanted = frame.clone()
    covered = geometry.paste(wanted, patches, matrices)
    made = lay(frame, patches, matrices, torch.arange(3))
    untouched = torch.ones(frame.shape[:2], dtype=torch.bool)
    for part in covered:
        left, top, right, bottom = part.rectangle
        untouched[top:bottom, left:right] = False
        ours, theirs = (x[top:bottom, left:right] / 255 for x in (made, wanted))
        assert psnr(ours, theirs) > 42
    assert torch.equal(made[untouched], frame[untouched])


def test_a_cut_hangs_on_its_own_face_alone(load):
    frame = scene([load("ben")], 480, 1)
    matrices = faces(1.3)
    together = cut(frame, matrices, 64)
    for i in range(3):
        torch.testing.assert_close(cut(frame, matrices[i : i + 1], 64)[0], together[i])


def test_the_order_says_which_face_lies_on_top():
    frame = torch.zeros(64, 64, 3, dtype=torch.uint8)
    patches = torch.ones(2, 4, 32, 32)
    patches[0, 0] = 0
    matrices = torch.eye(3)[:2].expand(2, -1, -1) - torch.tensor([[0, 0, 10.0], [0, 0, 10.0]])
    for order, top in (([0, 1], 1.0), ([1, 0], 0.0)):
        made = lay(frame, patches, matrices, torch.tensor(order))
        assert made[26, 26].tolist() == [255 * top, 255, 255]
    assert float(scales(compose(matrices[0], matrices[1]))) == 1
