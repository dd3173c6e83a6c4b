"""On a GPU a frame's stages are told by CUDA's events, with a whole frame that only inverts."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mien.bench import Limits, Scene, Size, measure
from mien.bench.fixed import STEPS, GraphRunner
from mien.replay.frame import Outcome
from mien.replay.graph import Replay

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here"),
]


class Inverted(nn.Module):
    """Makes a negative, and says that one of two slots was swapped."""

    steady = None

    def forward(self, pixels, people, replaced=None, elapsed=None, *, follow=False):
        def slots(*shape):
            return torch.zeros(len(pixels), 2, *shape, device=pixels.device)

        return Outcome(
            pixels=255 - pixels,
            boxes=slots(4),
            points=slots(5, 2),
            scores=slots(),
            ids=slots().long() - 1,
            roles=torch.arange(2, device=pixels.device).expand(len(pixels), 2) - 1,
            faulty=slots() > 0,
            guesses=torch.ones(len(pixels), dtype=torch.int64, device=pixels.device),
            quiet=torch.zeros(len(pixels), dtype=torch.bool, device=pixels.device),
        )


class OnGpu:
    name, cold, networks = "replay", {}, {}

    def runner(self, scene):
        frame = torch.zeros(scene.size.height, scene.size.width, 3, dtype=torch.uint8)
        people = torch.zeros(1, 8, device="cuda")
        return GraphRunner(Replay(Inverted(), people, None, frame=frame.cuda()), frame)


def test_upload_work_and_download_are_told_apart():
    scene = Scene(Size(640, 360), 1)
    runner = OnGpu().runner(scene)
    runner.run(scene(0))
    runner.synchronise()
    assert torch.equal(runner._taken, 255 - scene(0))
    assert tuple(runner.stages) == STEPS
    row = measure(OnGpu(), scene, Limits(frames=5))
    assert set(row.stages) == {*STEPS, "other"}
    assert row.swapped == 1
    assert row.workers is None
    assert sum(row.means.values()) == pytest.approx(sum(row.samples) / 5, rel=0.2)
