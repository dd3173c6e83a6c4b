"""Detection and mesh of fixed capacity find what the finder finds."""

from __future__ import annotations

import pytest
import torch
from conftest import scene

from mien.engines import OnnxEngine
from mien.models import Catalogue
from mien.replay.detect import Look, survivors
from mien.replay.landmark import Landmarks
from mien.stages.detect import Detector, suppress

CATALOGUE = Catalogue()


@pytest.fixture(scope="module")
def engine():
    return lambda name: OnnxEngine(name, CATALOGUE.card(name).read, threads=1)


@pytest.fixture(scope="module")
def frame(load):
    return scene([load(name) for name in ("ben", "mei", "ada", "dev")], 320, 2)


def test_a_look_is_the_detectors(engine, frame):
    contract = CATALOGUE.card("yunet").contract
    wanted = Detector(engine("yunet"), contract)(frame, side=320, min_score=0.4)
    height, width = frame.shape[:2]
    look = Look(engine("yunet"), contract, height=height, width=width, side=320, slots=8)
    points, scores = (found[0] for found in look(frame[None]))
    assert points.shape == (8, 5, 2)
    assert len(wanted) == 4
    torch.testing.assert_close(scores[:4], wanted.scores, atol=0.01, rtol=0)
    torch.testing.assert_close(points[:4], wanted.points, atol=0.5, rtol=0)
    assert float(scores[4:].max()) < 0.4


def test_meshes_are_the_landmarkers(engine, frame, find):
    wanted = find(frame)
    place = Landmarks(engine("facemesh"), CATALOGUE.card("facemesh").contract)
    mesh, points, presence, moving = place(frame, wanted.points)
    assert not moving.any()
    unit = (wanted.points[:, 0] - wanted.points[:, 1]).norm(dim=1)[:, None, None]
    assert float(((mesh - wanted.mesh[..., :2]) / unit).abs().max()) < 0.03
    assert float(((points - wanted.points) / unit).abs().max()) < 0.02
    assert float(presence.min()) > 20


def test_survivors_are_those_of_greedy_suppression():
    random = torch.Generator().manual_seed(0)
    for _ in range(50):
        corner = torch.rand(40, 2, generator=random) * 60
        boxes = torch.cat([corner, corner + 20], dim=1)
        scores = torch.rand(40, generator=random).sort(descending=True).values
        kept = suppress(boxes, scores, 0.4)
        assert survivors(boxes, scores, 0.4).nonzero().flatten().tolist() == sorted(kept.tolist())
