"""Clips under a governor: what is spared is spared, and comes back."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
import torch
from conftest import StandIn
from test_frame import cast, person

from mien.errors import InvalidOption
from mien.evaluate.moving import Place, actor, play, times
from mien.loader import Loader
from mien.models import Catalogue, EmbedderContract
from mien.pipeline import ClipPipeline, Effort, FaceFinder, Governor, Pipeline, Policy
from mien.stages.embed import Embedder
from mien.stages.swap import FaceSwap

SIZE = (240, 400)


class Fixed(Governor):
    """A governor that is told what to do."""

    def __init__(self, *efforts):
        super().__init__(1.0, steps=efforts)
        self.seconds = []

    def __call__(self, seconds, *, utilisation=None):
        self.seconds.append(seconds)
        return self.effort

    def take(self, step):
        self._step = step


@pytest.fixture(scope="module")
def swap(find):
    """A pipeline with the networks that ship, and a swap that darkens."""
    loader = Loader(Catalogue(), "cpu", allow_fallback=False, threads=None)
    paint = StandIn(lambda inputs: {"output": inputs["target"] * 0.6 - 0.2})
    network = FaceSwap(paint, Catalogue().card("mien-256").contract)
    return Pipeline(find, Embedder(*loader.load("sface", EmbedderContract)), network)


@pytest.fixture(scope="module")
def moving(load):
    """Two heads that move, 12 frames of a second."""
    ben, mei = (torch.from_numpy(load(name)) for name in ("ben", "mei"))
    return list(
        play(
            [
                actor(ben, 180, lambda t: Place(90 + 30 * t, 125)),
                actor(mei, 170, lambda t: Place(300 - 30 * t, 120)),
            ],
            times(1, 12),
            size=SIZE,
            noise=2,
        )
    )


def run(swap, frames, governor=None, **options):
    """Return what was done to copies of ``frames``, and how many faces were made for each."""
    clip = ClipPipeline(swap, cast(person(3), "all"), governor=governor, **options)
    done, made = [], []
    for frame in frames:
        seen = clip.see(replace(frame, pixels=frame.pixels.clone()))
        made.append(len(seen.targets))
        done.append(clip.finish(clip.make(seen)))
    return done, made


def test_all_that_there_is_to_do_is_what_is_done_without_one(swap, moving):
    plain, _ = run(swap, moving)
    governed, made = run(swap, moving, Fixed(Effort("everything")))
    assert made == [2] * 12
    for a, b in zip(plain, governed, strict=True):
        assert torch.equal(a.frame.pixels, b.frame.pixels)


@pytest.mark.parametrize("policy", [Policy("hold"), Policy("fade"), Policy("leave", fade=0)])
def test_every_other_frame_carries_the_faces_on(swap, moving, policy):
    done, made = run(swap, moving, Fixed(Effort("half", every=2)), policy=policy)
    assert made == [2, 0] * 6
    for each, before in zip(done, moving, strict=True):
        assert each.opacities == (1.0, 1.0)
        changed = (each.frame.pixels != before.pixels).any(dim=2).nonzero()[:, 1].float()
        for face in each.chosen:
            left, _, right, _ = each.faces.boxes[face].tolist()
            inside = changed[(changed > left - 20) & (changed < right + 20)]
            assert abs(float(inside.mean()) - (left + right) / 2) < 3


def test_who_comes_in_an_idle_frame_is_made_at_once(swap, moving):
    empty = [replace(f, pixels=torch.full_like(f.pixels, 90)) for f in moving[:3]]
    done, made = run(swap, empty + moving[3:7], Fixed(Effort("half", every=2)), look=0)
    assert made == [0, 0, 0, 2, 2, 0, 2]
    assert [len(each.chosen) for each in done] == [0, 0, 0, 2, 2, 2, 2]


def test_the_effort_changes_with_the_step(swap, moving):
    governor = Fixed(Effort("everything"), Effort("a third", every=3))
    clip = ClipPipeline(swap, cast(person(3), "all"), governor=governor)
    made = []
    for number, frame in enumerate(moving):
        governor.take(1 if 2 <= number < 9 else 0)
        seen = clip.see(replace(frame, pixels=frame.pixels.clone()))
        made.append(len(seen.targets))
        clip.finish(clip.make(seen))
    assert made == [2, 2, 2, 0, 0, 2, 0, 0, 2, 2, 2, 2]


def test_the_detector_looks_less_often(swap, moving, monkeypatch):
    looks = []
    call = FaceFinder.__call__

    def counted(finder, *given, **options):
        looks.append(1)
        return call(finder, *given, **options)

    monkeypatch.setattr(FaceFinder, "__call__", counted)
    run(swap, moving, look=0)
    often = len(looks)
    run(swap, moving, Fixed(Effort("seldom", look=Fraction(3, 5))), look=0)
    assert (often, len(looks) - often) == (12, 2)


def test_a_mesh_that_is_placed_once_is_nearly_where_it_was(swap, moving, monkeypatch):
    engine = swap.finder.landmarker.engine
    runs = []
    call = type(engine).__call__

    def counted(self, inputs):
        runs.append(self.model)
        return call(self, inputs)

    monkeypatch.setattr(type(engine), "__call__", counted)
    settled, _ = run(swap, moving, look=1)
    full = runs.count(engine.model)
    once, _ = run(swap, moving, Fixed(Effort("once", rounds=1)), look=1)
    assert runs.count(engine.model) - full < full
    for a, b in zip(settled, once, strict=True):
        assert a.faces.ids.tolist() == b.faces.ids.tolist()
        assert float((a.faces.points - b.faces.points).norm(dim=2).max()) < 3


def test_each_frame_is_timed_and_one_thread_makes_it(swap, moving):
    governor = Fixed(Effort("everything"))
    clip = ClipPipeline(swap, cast(person(3)), governor=governor)
    frames = [replace(frame, pixels=frame.pixels.clone()) for frame in moving[:3]]
    assert len(list(clip.run(frames))) == 3
    assert len(governor.seconds) == 3
    assert min(governor.seconds) > 0
    with pytest.raises(InvalidOption, match="threads=2"):
        list(clip.run([], threads=2))


def test_a_budget_that_cannot_be_held_ends_at_the_last_step(swap, moving):
    governor = Governor(1e-6)
    clip = ClipPipeline(swap, cast(person(3)), governor=governor, look=1)
    frames = [
        replace(frame, pixels=frame.pixels.clone(), time=frame.time + lap)
        for lap in range(6)
        for frame in moving
    ]
    for frame in frames:
        clip(frame)
    assert governor.step == len(governor.steps) - 1
    assert governor.why.endswith("nothing is left to give up")
    assert sum(governor.counts.values()) == len(frames)
