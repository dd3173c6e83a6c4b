"""The governor: in its range, quick down, patient up, and calm whatever the noise."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mien.errors import InvalidOption
from mien.pipeline import STEPS, Effort, Governor
from mien.pipeline.governor import CAP, LONGEST, REST, SLACK, TRIAL, WINDOW

BUDGET = 1 / 30
LAST = len(STEPS) - 1
SEEDS = st.integers(0, 2**32)
quiet = settings(deadline=None, max_examples=60)


class Stream:
    """Frames that come at 30 a second, or as fast as they are done."""

    def __init__(self, **options):
        self.now = 50.0
        self.governor = Governor(BUDGET, clock=lambda: self.now, **options)

    def __call__(self, load, utilisation=None):
        """Let a frame take ``load`` budgets."""
        seconds = load * BUDGET
        self.now += max(seconds, BUDGET)
        self.governor(seconds, utilisation=utilisation)
        return self.governor.step

    def for_seconds(self, seconds, load):
        """Return the steps of frames whose load is a function of the step."""
        end, steps = self.now + seconds, []
        while self.now < end:
            steps.append(self(load(self.governor.step)))
        return steps


# Steps


def test_the_steps_give_up_more_and_more_in_the_order_that_was_asked_for():
    assert STEPS[0] == Effort("everything")
    assert [step.look > 0 for step in STEPS] == [False, *[True] * 5]
    assert [step.rounds for step in STEPS] == [None, None, 1, 1, 1, 1]
    assert [step.every for step in STEPS] == [1, 1, 1, 2, 2, 2]
    assert [step.scale for step in STEPS] == [1, 1, 1, 1, 0.75, 0.5]
    assert len({step.name for step in STEPS}) == len(STEPS)


def test_at_first_everything_is_done_and_counted():
    stream = Stream()
    governor = stream.governor
    assert (governor.step, governor.effort, dict(governor.counts)) == (0, STEPS[0], {})
    assert governor.why == "no frame was measured yet"
    for _ in range(5):
        stream(0.5)
    assert dict(governor.counts) == {"everything": 5}


@quiet
@given(st.floats(1.05, 50))
def test_a_lasting_overload_costs_a_step_every_window(load):
    stream = Stream()
    steps = [stream(load) for _ in range(WINDOW * (LAST + 2))]
    assert steps == [min(LAST, (i + 1) // WINDOW) for i in range(len(steps))]
    governor = stream.governor
    assert governor.changes == LAST
    assert governor.why.endswith("nothing is left to give up")
    assert sum(governor.counts.values()) == len(steps)
    assert set(governor.counts) == {step.name for step in STEPS}


def test_it_goes_no_further_than_it_takes():
    stream = Stream()
    steps = stream.for_seconds(60, lambda step: (2, 1.5, 0.9, 0.5, 0.4, 0.3)[step])
    assert steps[-1] == max(steps) == 2
    assert stream.governor.why == "frames took 150% of what there is for them"


@quiet
@given(
    st.integers(20, 600),
    st.floats(1.1, 5),
    st.floats(0, SLACK - 0.05),
)
def test_all_is_done_again_soon_after_the_load_ends(frames, heavy, light):
    stream = Stream()
    for _ in range(frames):
        stream(heavy)
    reached = stream.governor.step
    assert reached >= 1
    window = WINDOW * BUDGET
    steps = stream.for_seconds((reached + 1) * (REST + 2 * window), lambda step: light)
    assert steps[-1] == 0
    assert all(b in (a, a - 1) for a, b in pairwise(steps[WINDOW:]))
    assert stream.governor.why.endswith("for some time")


@quiet
@given(
    st.lists(
        st.tuples(st.floats(0, 60), st.one_of(st.none(), st.floats(0, 1)), st.floats(0, 5)),
        max_size=400,
    ),
    st.integers(1, LAST + 1),
)
def test_whatever_comes_it_stays_in_its_range_and_moves_by_one(frames, count):
    now = 0.0
    governor = Governor(BUDGET, steps=STEPS[:count], clock=lambda: now)
    counts, before = Counter(), 0
    for load, utilisation, pause in frames:
        counts[governor.effort.name] += 1
        now += load * BUDGET + pause
        assert governor(load * BUDGET, utilisation=utilisation) is governor.effort
        assert 0 <= governor.step < count
        assert abs(governor.step - before) <= 1
        before = governor.step
        assert governor.why
    assert governor.counts == counts


# Calm


@quiet
@given(SEEDS, st.integers(0, LAST))
def test_noise_between_slack_and_budget_changes_nothing(seed, step):
    stream, random = Stream(), Random(seed)
    while stream.governor.step < step:
        stream(2)
    before = stream.governor.changes
    stream.for_seconds(60, lambda _: random.uniform(SLACK + 0.02, 0.98))
    assert stream.governor.changes == before


@quiet
@given(SEEDS, st.floats(0.1, 0.6), st.floats(CAP, 100))
def test_frames_that_stall_now_and_then_are_no_overload(seed, load, stall):
    stream, random = Stream(), Random(seed)
    for i in range(600):
        stream(stall if i % 20 == 7 else load * random.uniform(0.8, 1.2))
    assert stream.governor.changes == 0


@quiet
@given(SEEDS, st.floats(0.5, 3), st.floats(0.05, 0.3))
def test_it_does_not_go_back_and_forth_under_noise(seed, load, noise):
    """Each step saves so much that there is slack below, and too little time above: the worst."""
    stream, random, minutes = Stream(), Random(seed), 10
    shares = [0.6**i for i in range(LAST + 1)]
    stream.for_seconds(
        minutes * 60, lambda step: max(0.0, load * shares[step] * random.gauss(1, noise))
    )
    # each boundary between steps is tried after REST, twice that, and so on, then every LONGEST
    tries = math.ceil(math.log2(LONGEST / REST)) + 2 + minutes * 60 / LONGEST
    # and once in a while noise lets a try last, after which the next is made early
    assert stream.governor.changes <= 1.1 * (LAST + 2 * tries * 2)


def test_a_try_that_fails_is_made_later_and_later():
    stream = Stream()
    steps = stream.for_seconds(300, lambda step: 1.2 if step == 0 else 0.5)
    ups = [i for i, (a, b) in enumerate(pairwise(steps)) if b < a]
    pauses = [b - a for a, b in pairwise(ups)]
    assert len(ups) < 12
    assert pauses[:4] == sorted(pauses[:4])
    assert pauses[3] > 6 * pauses[0]
    # and once a try lasts, the next one is made as soon as at first
    stream.for_seconds(LONGEST + REST + TRIAL + 2, lambda step: 0.5)
    assert stream.governor.step == 0
    stream.for_seconds(1, lambda step: 2)
    assert stream.governor.step > 0
    stream.for_seconds(2 * (REST + 1), lambda step: 0.5)
    assert stream.governor.step == 0


def test_slack_must_last():
    stream = Stream()
    stream.for_seconds(0.5, lambda step: 1.2)
    assert stream.governor.step == 1
    for _ in range(20):  # two seconds of slack, and then none
        assert {*stream.for_seconds(2, lambda step: 0.5)} == {1}
        stream.for_seconds(1, lambda step: 0.9)
    assert stream.governor.step == 1


def test_a_pause_is_neither_slack_nor_overload():
    stream = Stream()
    stream.for_seconds(0.45, lambda step: 1.2)
    assert stream.governor.step == 1
    stream.for_seconds(2.5, lambda step: 0.5)
    stream.now += 600
    assert {*stream.for_seconds(2.5, lambda step: 0.5)} == {1}
    stream.for_seconds(2.5, lambda step: 0.5)
    assert stream.governor.step == 0


# The GPU


@pytest.mark.parametrize(("utilisation", "step"), [(0.89, 0), (0.91, 1), (None, 0)])
def test_a_busy_gpu_is_over_budget(utilisation, step):
    stream = Stream()
    for _ in range(WINDOW):
        stream(0.2, utilisation)
    assert stream.governor.step == step


def test_a_gpu_that_is_half_busy_gives_no_slack_for_more():
    stream = Stream()
    for _ in range(WINDOW):
        stream(2)
    for _ in range(300):
        stream(0.1, 0.8)
    assert stream.governor.step == 1
    for _ in range(300):
        stream(0.1, 0.5)
    assert stream.governor.step == 0


@pytest.mark.parametrize("budget", [0, -1, float("nan"), float("inf"), "fast", None])
def test_a_budget_is_seconds(budget):
    with pytest.raises(InvalidOption, match="budget"):
        Governor(budget)


def test_what_cannot_be_measured_is_refused():
    governor = Governor(BUDGET)
    for seconds in (-1, float("nan"), float("inf"), None):
        with pytest.raises(InvalidOption, match="seconds"):
            governor(seconds)
    for utilisation in (-0.1, 95, float("nan")):
        with pytest.raises(InvalidOption, match="utilisation"):
            governor(0.01, utilisation=utilisation)
    with pytest.raises(InvalidOption, match="steps"):
        Governor(BUDGET, steps=())
