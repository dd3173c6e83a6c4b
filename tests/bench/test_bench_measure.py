"""Frames that differ, percentiles that know their samples, and rows that add up."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from standins import Clock, Steps, Way

from mien.bench import Limits, Plan, Scene, Size, measure
from mien.bench.measure import FEWEST, HELD, WARM
from mien.bench.numbers import ENOUGH, median_ratio, percentile
from mien.errors import EngineError, InvalidOption, MeasurementFailed

SMALL = Size(160, 90)

# Frames


@pytest.mark.parametrize("faces", [1, 3, 4, 8, 16])
def test_no_two_frames_are_alike_and_each_can_be_had_again(faces):
    scene = Scene(SMALL, faces)
    frames = [scene(index) for index in range(12)]
    assert {(tuple(frame.shape), frame.dtype) for frame in frames} == {((90, 160, 3), torch.uint8)}
    assert len({frame.numpy().tobytes() for frame in frames}) == 12
    assert torch.equal(frames[7], Scene(SMALL, faces)(7))


def test_all_faces_are_found(find):
    for faces in (1, 4, 8):
        for index in range(2):
            found = find(Scene(Size.read("720p"), faces)(index))
            assert len(found) == faces
            assert faces == 1 or float(found.areas.max() / found.areas.min()) > 1.5


@pytest.mark.parametrize(
    ("text", "size", "name"),
    [
        ("720p", (1280, 720), "720p"),
        ("2160p", (3840, 2160), "2160p"),
        ("640x480", (640, 480), "640x480"),
        ("1280x720", (1280, 720), "720p"),
    ],
)
def test_sizes_are_read(text, size, name):
    assert Size.read(text) == size
    assert str(Size.read(text)) == name


@pytest.mark.parametrize("text", ["", "720", "p", "1x1", "99999p", "-720p", "640x", "640 x 480"])
def test_other_sizes_are_refused(text):
    with pytest.raises(InvalidOption, match="size"):
        Size.read(text)


@pytest.mark.parametrize(
    "options",
    [{"device": "tpu"}, {"faces": ()}, {"faces": (0,)}, {"faces": (17,)}, {"frames": 0},
     {"seconds": 0.0}, {"seconds": float("nan")}, {"sizes": ()}],
)  # fmt: skip
def test_what_cannot_be_planned_is_refused(options):
    with pytest.raises(InvalidOption):
        Plan(**options)


# Numbers


@given(st.lists(st.floats(0.001, 1e6), min_size=1, max_size=300), st.sampled_from(sorted(ENOUGH)))
def test_percentiles_are_numpys_or_nothing(samples, rank):
    found = percentile(samples, rank)
    if len(samples) < ENOUGH[rank]:
        assert found is None
    else:
        assert found == pytest.approx(float(np.percentile(samples, rank)))


def test_the_median_of_the_ratios_is_not_the_ratio_of_the_medians():
    assert median_ratio([2, 20, 3], [1, 10, 30]) == 2
    assert median_ratio([2, 4, 9], [1, 1]) == 3
    assert median_ratio([], [1]) is None
    assert median_ratio([1], [0]) is None


# Rows


def test_a_row_says_what_was_measured():
    clock = Clock()
    runner = Steps(clock, lambda i: {"swap": 0.2, "rest": 0.1} if i > WARM else {"swap": 1.0})
    row = measure(Way(runner, clock), Scene(SMALL, 2), Limits(frames=4), clock=clock)
    assert row.key == ("stand-in", "90p", 2)
    assert (row.prepare, row.first) == (3000, 1000)
    assert row.samples == pytest.approx([300] * 4)
    assert row.stages["swap"] == pytest.approx([200] * 4)
    assert row.stages["other"] == pytest.approx([100] * 4)
    assert len({frame.numpy().tobytes() for frame in runner.frames}) == len(runner.frames)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.dictionaries(
    st.sampled_from(["detect", "swap", "blend", "rest"]), st.floats(1e-3, 1), min_size=1
), min_size=1, max_size=12))  # fmt: skip
def test_stages_and_the_rest_add_up_to_the_whole(seconds):
    clock = Clock()
    runner = Steps(clock, lambda i: seconds[max(0, i - WARM - 1) % len(seconds)])
    limits = Limits(frames=len(seconds))
    row = measure(Way(runner, clock), Scene(Size(64, 64), 1), limits, clock=clock)
    assert all(len(times) == len(row.samples) for times in row.stages.values())
    if row.stages:
        whole = sum(row.samples) / len(row.samples)
        assert sum(row.means.values()) == pytest.approx(whole, abs=0.01)


@pytest.mark.parametrize(("seconds", "count"), [(1.0, 12), (100.0, FEWEST)])
def test_the_time_decides_how_many_frames_are_run(seconds, count):
    clock = Clock()
    runner = Steps(clock, lambda i: {"swap": seconds})
    row = measure(Way(runner, clock), Scene(SMALL, 1), Limits(20.0), clock=clock)
    assert len(row.samples) == count


def test_the_best_number_of_threads_is_told():
    clock = Clock()
    runner = Steps(clock, lambda i: {"swap": 0.1})
    limits = Limits(frames=8, workers=(1, 2, 4))
    row = measure(Way(runner, clock), Scene(SMALL, 1), limits, clock=clock)
    assert runner.streams == [(8, 1), (8, 2), (8, 4)]
    assert HELD >= 8
    assert (row.workers, row.per_second) == (2, pytest.approx(20))
    runner.workers = None
    row = measure(Way(runner, clock), Scene(SMALL, 1), limits, clock=clock)
    assert (row.workers, row.per_second) == (None, pytest.approx(10))


@pytest.mark.parametrize(
    "error", [EngineError("Out of memory.", model="yunet"), RuntimeError("odd"), KeyError("x")]
)
def test_a_runner_that_fails_says_where_and_why(error):
    def fail(_):
        raise error

    clock = Clock()
    with pytest.raises(MeasurementFailed) as raised:
        measure(Way(Steps(clock, fail), clock), Scene(SMALL, 4), Limits(), clock=clock)
    assert raised.value.__cause__ is error
    assert (raised.value.path, raised.value.row) == ("stand-in", "90p with 4 faces")
    assert "'stand-in' on 90p with 4 faces failed" in str(raised.value)
    assert str(error.args[0]) in str(raised.value)
