"""Frames of any size, with any number of faces, get as many slots as they need."""

from __future__ import annotations

import pytest
import torch
from conftest import scene

from mien.errors import InvalidOption
from mien.replay import capacity
from mien.replay.capacity import AnyFrame
from mien.replay.frame import WholeFrame

pytestmark = pytest.mark.usefixtures("without_gradients")

NAMES = {"detector": "yunet", "mesh": "facemesh", "swapper": "mien-lite"}


@pytest.fixture(scope="module")
def crowd(load):
    return scene([load(name) for name in ("ben", "mei", "ada", "femi")], 160, 2)


@pytest.fixture(scope="module")
def alone(load):
    return scene([load("ben")], 320, 1)


def test_every_face_is_found_from_the_first_frame_on(parts, crowd, people):
    frames = AnyFrame(parts, people, device="cpu", who="all")
    assert frames.slots == 1
    made = frames(crowd)
    assert frames.slots == 8  # four faces in four slots may hide a fifth
    height, width = crowd.shape[:2]
    wanted = WholeFrame(parts, height=height, width=width, slots=8, who="all")(crowd, people)
    assert torch.equal(made.pixels, wanted.pixels)
    assert int((made.roles >= 0).sum()) == 4


def test_slots_go_when_they_were_empty_for_long(parts, crowd, alone, people, monkeypatch):
    monkeypatch.setattr(capacity, "REST", 2)
    frames = AnyFrame(parts, people, device="cpu", who="all")
    frames(crowd)
    seen = []
    for _ in range(5):
        frames(alone)
        seen.append(frames.slots)
    assert seen == [8, 4, 4, 2, 2]  # one face in one slot may hide a second
    frames(crowd)
    assert frames.slots == 8


def test_few_replays_are_kept(parts, alone, people):
    frames = AnyFrame(parts, people, device="cpu", who="largest", kept=2)
    for side in (320, 240, 280):
        frames(alone[:side])
        assert len(frames._replays) <= 2
    assert [key[0] for key in frames._replays] == [240, 280]
    frames(alone[:240])
    assert [key[0] for key in frames._replays] == [280, 240]


def test_another_cast_is_for_all_replays(parts, alone, people):
    frames = AnyFrame(parts, people, device="cpu", who="largest")
    first = frames(alone).pixels.clone()
    frames.cast(people.roll(5, dims=1))
    second = frames(alone).pixels
    assert not torch.equal(first, second)
    fresh = AnyFrame(parts, people.roll(5, dims=1), device="cpu", who="largest")
    assert torch.equal(fresh(alone).pixels, second)


def test_none_kept_is_refused(parts, people):
    with pytest.raises(InvalidOption, match="kept"):
        AnyFrame(parts, people, kept=0)
