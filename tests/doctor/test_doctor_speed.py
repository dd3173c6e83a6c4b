"""The speed test: within its budget by a clock of its own, and a self-test that can fail."""

from __future__ import annotations

from inspect import signature

import pytest
import torch
from conftest import StandIn

from mien import Catalogue, Swapper
from mien.doctor import speed
from mien.doctor.speed import ROUNDS, SECONDS, measure, median_seconds, self_test
from mien.engines import OnnxEngine, Port
from mien.errors import EngineError
from mien.media import read_picture

PIPELINE = ("yunet", "facemesh", "sface", "mien-256", "mien-occlusion")


@pytest.fixture(scope="module")
def catalogue():
    return Catalogue()


@pytest.fixture(scope="module")
def engines(catalogue):
    return {name: OnnxEngine(name, catalogue.card(name).read) for name in PIPELINE}


class Clock:
    """A clock that goes only when told to."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def timed(clock, name, seconds):
    """Return an engine of a network of this name, each run of which takes these seconds."""

    def run(inputs):
        clock.now += seconds
        return {"shapes": [tuple(value.shape) for value in inputs.values()]}

    engine = StandIn(run, model=name)
    engine.inputs = (Port("input", (None, 3, None, None)),)
    return engine


# Time


def test_the_median_of_some_rounds_is_taken():
    clock, times = Clock(), iter([9.0, 1.0, 2.0, 7.0, 3.0])

    def work():
        clock.now += next(times)

    assert median_seconds(work, 100 + 9 + 1 + 2 + 7, clock) == 4.5
    clock = Clock()
    assert median_seconds(lambda: setattr(clock, "now", clock.now + 60), 100.0, clock) == 60


def test_no_more_rounds_are_run_than_a_median_needs():
    runs = []
    median_seconds(lambda: runs.append(1), 1e9, Clock())
    assert len(runs) == ROUNDS


@pytest.mark.parametrize("seconds", [0.01, 0.5, 4.0])
def test_the_budget_is_kept_but_for_the_run_in_progress(catalogue, monkeypatch, seconds):
    clock = Clock()
    names = [card.name for card in catalogue]
    engines = {name: timed(clock, name, seconds) for name in names}
    monkeypatch.setattr(speed, "self_test", lambda *given: lambda: timed(clock, "all", seconds)({}))
    found = measure(catalogue, engines, clock=clock)
    assert clock.now - 100 <= SECONDS + seconds
    assert found.milliseconds == seconds * 1e3
    assert found.per_second == round(1 / seconds, 1)
    assert [run.name for run in found.networks] == names
    untimed = [run.name for run in found.networks if run.milliseconds is None]
    assert untimed == (names[2:] if seconds == 4 else [])
    assert all(run.fault is None for run in found.networks)


# Networks


def test_each_network_runs_at_batch_one_in_its_own_shape(catalogue, engines, monkeypatch):
    monkeypatch.setattr(speed, "ROUNDS", 1)
    shapes = {}
    call = OnnxEngine.__call__

    def watched(engine, inputs):
        shapes.setdefault(engine.model, [tuple(value.shape) for value in inputs.values()])
        return call(engine, inputs)

    monkeypatch.setattr(OnnxEngine, "__call__", watched)
    found = measure(catalogue, engines)
    assert shapes == {
        "yunet": [(1, 3, 640, 640)],
        "facemesh": [(1, 192, 192, 3)],
        "sface": [(1, 3, 112, 112)],
        "mien-256": [(1, 3, 256, 256), (1, 128)],
        "mien-occlusion": [(1, 3, 128, 128)],
    }
    assert [(run.name, run.provider, run.fault) for run in found.networks] == [
        (name, "cpu", None) for name in PIPELINE
    ]
    assert found.fault is None
    assert found.milliseconds > 0


def test_a_network_that_cannot_be_run_is_reported(catalogue):
    def fail(inputs):
        raise EngineError("out of memory", model="yunet")

    engine = StandIn(fail, model="yunet")
    found = measure(catalogue, {"yunet": engine})
    assert (found.networks[0].milliseconds, found.networks[0].fault) == (None, "out of memory")


def test_what_a_network_ended_on_is_told(catalogue):
    clock = Clock()
    engine = timed(clock, "yunet", 0.1)
    run = engine._function

    def give_up(inputs):
        engine.provider = "cpu"
        return run(inputs)

    engine.provider, engine._function = "cuda", give_up
    assert measure(catalogue, {"yunet": engine}, clock=clock).networks[0].provider == "cpu"


# The whole


def test_the_networks_are_those_of_a_swap():
    defaults = {name: given.default for name, given in signature(Swapper).parameters.items()}
    assert (defaults["detector"], defaults["model"]) == (speed.DETECTOR, speed.SWAPPER)


def test_the_face_in_the_test_picture_is_swapped_again_and_again(catalogue, engines):
    swap = self_test(catalogue, engines)
    first = swap()
    pixels = first.frame.pixels.clone()
    assert (len(first.faces), tuple(first.chosen), tuple(first.faults)) == (1, (0,), ())
    assert pixels.shape == (720, 1280, 3)
    assert not torch.equal(pixels, speed.scene(read_picture(speed.PORTRAIT)))
    assert torch.equal(pixels, swap().frame.pixels)


@pytest.mark.parametrize(
    ("spoiled", "fault"),
    [
        ({"mien-256": StandIn(lambda inputs: {"output": 0 * inputs["target"]})}, "flat colour"),
        ({"sface": None}, "'sface' could not be opened"),
        ({"facemesh": StandIn(lambda inputs: {}, model="facemesh")}, "KeyError"),
    ],
    ids=["blank", "absent", "unforeseen"],
)
def test_a_swap_that_fails_is_reported(catalogue, engines, monkeypatch, spoiled, fault):
    monkeypatch.setattr(speed, "_time_network", lambda *given: None)
    left = {name: engine for name, engine in (engines | spoiled).items() if engine}
    found = measure(catalogue, left)
    assert fault in found.fault
    assert (found.milliseconds, found.per_second) == (None, None)


def test_a_face_that_is_not_found_is_reported(catalogue, engines, monkeypatch):
    monkeypatch.setattr(speed, "_time_network", lambda *given: None)
    blank = torch.full((720, 1280, 3), 96, dtype=torch.uint8)
    monkeypatch.setattr(speed, "scene", lambda portrait: blank)
    assert "No face was found in the test picture" in measure(catalogue, engines).fault
