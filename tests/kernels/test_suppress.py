"""A detector's best places by one kernel are those of the twin."""

from __future__ import annotations

import os

import pytest
import torch

from mien import kernels
from mien.replay.detect import CANDIDATES, _told
from mien.stages.detect import SAME_FACE

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported
pytestmark = pytest.mark.skipif(not kernels.installed(), reason="Triton is not installed here")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
RATIO = (3.0, 2.5)


def heads(side, wide):
    """Return what a YuNet may say of 2 pictures of ``side``, with boxes as ``wide`` as that."""
    draw = torch.Generator().manual_seed(side)
    cells, strides = [], []
    for stride in (8, 16, 32):
        line = torch.arange(side // stride)
        y, x = torch.meshgrid(line, line, indexing="ij")
        cells.append(torch.stack([x, y], dim=-1).reshape(-1, 2).float())
        strides.append(torch.full((len(cells[-1]),), float(stride)))
    cells, strides = torch.cat(cells), torch.cat(strides)
    count = len(cells)
    sure, there = (torch.rand(2, count, 1, generator=draw) for _ in range(2))
    sure[:, 0], there[:, 1] = 1.2, -0.1  # shares but for rounding
    box = torch.randn(2, count, 4, generator=draw) / 4
    box[..., 2:] += (wide / strides).log()[:, None]
    five = torch.randn(2, count, 10, generator=draw)
    return [x.to(DEVICE) for x in (sure, there, box, five, cells, strides)]


@pytest.mark.parametrize(("side", "wide", "slots"), [
    (64, 24, 1), (64, 40, 4), (96, 16, 16), (160, 60, 3), (32, 200, 5),
])  # fmt: skip
def test_the_best_places_are_those_of_the_twin(side, wide, slots):
    from mien.kernels.suppress import best

    given = heads(side, wide)
    points, scores = best(*given, ratio=RATIO, slots=slots, candidates=CANDIDATES, limit=SAME_FACE)
    wanted, theirs = _told(*given, RATIO, slots)
    torch.testing.assert_close(scores, theirs, atol=1e-6, rtol=1e-5)
    found = theirs > 0
    assert found[:, 0].all()
    torch.testing.assert_close(points[found], wanted[found], atol=1e-3, rtol=1e-5)


def test_one_who_is_not_sure_of_anything_is_no_face():
    from mien.kernels.suppress import best

    sure, *others = heads(64, 24)
    _, scores = best(
        sure * torch.nan, *others, ratio=RATIO, slots=2, candidates=CANDIDATES, limit=SAME_FACE
    )
    assert not scores.any()
