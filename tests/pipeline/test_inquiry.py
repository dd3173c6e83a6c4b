"""The guard works beside the swap: which refusal comes, what is left alone, and what threads."""

from __future__ import annotations

import gc
import json
import threading
from dataclasses import replace
from fractions import Fraction
from time import sleep

import pytest
import torch
from conftest import CONSENT, StandIn

from mien.engines import OnnxEngine
from mien.engines.onnx import usable_cores
from mien.errors import (
    BadOutput,
    InvalidOption,
    LooksYoung,
    ProtectedPerson,
    UnsuitableContent,
    WeightsMissing,
)
from mien.loader import AGE, CONTENT
from mien.models import Catalogue
from mien.pipeline import Guard
from mien.safety import Protected
from mien.stages.age import Ages
from mien.stages.content import Content


class Gallery:
    def __init__(self, *people):
        self.people = tuple(people)

    def all(self):
        return self.people


@pytest.fixture
def who(swapper, people):
    return swapper.identity(people["dev"], consent=CONSENT)


@pytest.fixture
def says(swapper, monkeypatch, people):
    """Let the guard find what a test wants: content, age, and who is protected."""

    def say(*, score=0.0, years=40.0, protected=None, wait=0.0, counted=None):
        def content(inputs):
            sleep(wait)
            if counted is not None:
                counted.append("content")
            return {"4195": torch.tensor([[1 - score, score]])}

        def ages(inputs):
            if counted is not None:
                counted.append("age")
            made = torch.zeros(len(next(iter(inputs.values()))), 100)
            made[:, round(years)] = 1
            return {"age_pred/Softmax:0": made}

        guard = swapper._guard
        filters = Content(StandIn(content), Catalogue().card(CONTENT).contract)
        guess = Ages(StandIn(ages), Catalogue().card(AGE).contract)
        monkeypatch.setattr(guard, "content", lambda: filters)
        monkeypatch.setattr(guard, "ages", lambda: guess)
        if protected is not None:
            face = swapper.reference(people[protected]).embedding.tolist()
            one = Protected("Somebody", tuple(face))
            monkeypatch.setattr(guard, "gallery", Gallery(one))

    return say


def refusals(swapper):
    """Return why the log says that something was refused, one after another."""
    lines = [
        json.loads(line)
        for path in sorted(swapper.ledger.audit.folder.glob("*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    return [line["reason"] for line in lines if line["event"] == "refused"]


ALL = {"score": 0.9, "years": 10, "protected": "ada"}


@pytest.mark.parametrize("wait", [0.0, 0.3])
@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (ALL, UnsuitableContent),
        ({**ALL, "score": 0}, ProtectedPerson),
        ({"years": 10}, LooksYoung),
    ],
)
def test_the_same_refusal_comes_whatever_is_ready_first(
    swapper, people, who, says, painted, found, kind, wait
):
    says(**found, wait=wait)
    picture = swapper._read(people["ada"])[0]
    before, logged = picture.frame.pixels.clone(), refusals(swapper)
    with pytest.raises(kind):
        swapper.swap(picture, who)
    assert refusals(swapper) == [*logged, kind.__name__]
    assert torch.equal(picture.frame.pixels, before)


@pytest.mark.parametrize("what", ["strength", "nobody", "spoilt"])
def test_a_refusal_goes_before_any_other_error(
    swapper, people, who, says, painted, what, monkeypatch
):
    picture, options = people["ada"], {}
    if what == "strength":
        options, kind = {"strength": 7}, InvalidOption
    elif what == "nobody":
        picture, kind = torch.zeros(64, 64, 3, dtype=torch.uint8).numpy(), Exception
    else:
        kind = BadOutput
        call = OnnxEngine.__call__

        def spoil(engine, inputs):
            made = call(engine, inputs)
            if engine.model != "mien-256":
                return made
            return {name: torch.full_like(value, float("nan")) for name, value in made.items()}

        monkeypatch.setattr(OnnxEngine, "__call__", spoil)
    says()
    with pytest.raises(kind):
        swapper.swap(picture, who, **options)
    says(score=0.9, wait=0.2)
    with pytest.raises(UnsuitableContent):
        swapper.swap(picture, who, **options)
    if what == "spoilt":
        says(years=10)
        with pytest.raises(LooksYoung):
            swapper.swap(picture, who)


def test_a_network_that_is_missing_lets_nothing_pass(swapper, people, who, says, monkeypatch):
    def missing():
        raise WeightsMissing("gone", model="faceres-age")

    says()
    monkeypatch.setattr(swapper._guard, "ages", missing)
    with pytest.raises(WeightsMissing):
        swapper.swap(people["ada"], who)
    says(score=0.9, wait=0.2)
    monkeypatch.setattr(swapper._guard, "ages", missing)
    with pytest.raises(UnsuitableContent):
        swapper.swap(people["ada"], who)


def test_no_frame_of_an_animation_changes_before_all_are_looked_at(
    swapper, people, who, says, painted, monkeypatch
):
    says()
    picture = swapper._read(people["ada"])[0]
    frame = picture.frame
    frames = tuple(
        replace(frame, pixels=frame.pixels.clone(), time=Fraction(second)) for second in range(3)
    )
    scores = iter([0.1, 0.1, 0.9])
    monkeypatch.setattr(swapper._guard, "content", lambda: lambda view: next(scores))
    with pytest.raises(UnsuitableContent, match=r"2\.0"):
        swapper.swap(replace(picture, frames=frames, durations=(Fraction(1),) * 3), who)
    assert all(torch.equal(each.pixels, frame.pixels) for each in frames)


def test_what_was_seen_is_not_asked_again_and_what_changed_is(swapper, people, who, says, painted):
    counted = []
    says(counted=counted)
    for _ in range(3):
        swapper.swap(people["ada"], who)
    assert sorted(counted) == ["age", "content"]
    picture = swapper._read(people["ada"])[0]  # the same name and digest, and other pixels
    picture.frame.pixels[:] = picture.frame.pixels.flip(1)
    swapper.swap(picture, who)
    assert sorted(counted) == ["age", "age", "content", "content"]


def test_a_remembered_score_is_judged_by_the_limit_of_now(
    swapper, people, who, says, painted, monkeypatch
):
    says(score=0.5)
    swapper.swap(people["ada"], who)
    guard = swapper._guard
    monkeypatch.setattr(guard, "limits", replace(guard.limits, content=0.4))
    with pytest.raises(UnsuitableContent):
        swapper.swap(people["ada"], who)


def test_threads_are_few_and_end_with_the_guard(swapper, people, who, says, painted):
    def threads():
        return [each for each in threading.enumerate() if each.name.startswith("mien-guard")]

    says(wait=0.05)
    for _ in range(5):
        swapper.swap(people["ada"], who)
    assert 0 < len(swapper._guard.aside._threads) <= usable_cores()
    others = threads()
    mine = swapper._guard
    guard = Guard(
        mine.embedder, mine.gallery, mine.audit, mine.limits, ages=mine.ages, content=mine.content
    )
    guard.aside.submit(int).result()
    (new,) = [each for each in threads() if each not in others]
    del guard
    gc.collect()
    new.join(5)
    assert not new.is_alive()
