"""Bootstrap intervals and KID: against closed forms and plain loops."""

from __future__ import annotations

import math

import pytest
import torch

from mien.evaluate.distribution import kid
from mien.evaluate.intervals import bootstrap, resamples


def normal(count, seed=0):
    return torch.randn(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_resamples_draw_as_many_as_there_are_and_each_equally_often():
    counts = resamples(50, times=4000)
    assert counts.shape == (4000, 50)
    assert torch.equal(counts.sum(dim=1), torch.full((4000,), 50.0, dtype=torch.float64))
    # binomial(50, 1/50): mean 1, variance 0.98
    assert counts.mean(dim=0).sub(1).abs().max() < 0.08
    assert float(counts.var(dim=0).mean()) == pytest.approx(0.98, abs=0.03)


def test_the_interval_of_a_mean_is_that_of_the_normal_approximation():
    values = normal(400) * 3 + 7
    found = bootstrap({"x": values})["x"]
    error = float(values.std(correction=0)) / math.sqrt(400)
    assert found.mean == pytest.approx(float(values.mean()), abs=1e-12)
    assert found.low == pytest.approx(found.mean - 1.96 * error, abs=0.1 * error)
    assert found.high == pytest.approx(found.mean + 1.96 * error, abs=0.1 * error)
    assert found.count == 400


def test_about_95_of_100_intervals_hold_the_truth():
    draws = normal(200 * 60).reshape(200, 60)
    hits = sum(
        one.low <= 0 <= one.high
        for one in bootstrap({str(i): row for i, row in enumerate(draws)}).values()
    )
    assert 180 <= hits <= 198


def test_pairs_with_something_in_common_are_drawn_together():
    clusters = torch.tensor([5, 5, 9, 9, 9])
    counts = resamples(5, clusters=clusters, times=500)
    assert torch.equal(counts[:, 0], counts[:, 1])
    assert torch.equal(counts[:, 2], counts[:, 4])
    assert set((counts[:, 0] + counts[:, 2]).tolist()) == {2.0}
    assert torch.equal(resamples(5, clusters=torch.arange(5)), resamples(5))


def test_five_copies_of_a_pair_are_worth_one():
    values = normal(60)
    once = bootstrap({"x": values})["x"]
    copies = values.repeat_interleave(5)
    clustered = bootstrap({"x": copies}, clusters=torch.arange(60).repeat_interleave(5))["x"]
    naive = bootstrap({"x": copies})["x"]
    assert clustered.high - clustered.low == pytest.approx(once.high - once.low, rel=1e-9)
    assert naive.high - naive.low < 0.6 * (once.high - once.low)


def test_a_missing_value_does_not_count():
    values = torch.tensor([1.0, math.nan, 3.0])
    found = bootstrap({"x": values, "none": torch.full((3,), math.nan)})
    assert (found["x"].mean, found["x"].count) == (2.0, 2)
    assert 1 <= found["x"].low <= found["x"].high <= 3
    assert found["none"].count == 0
    assert found["none"].report() == {"mean": None, "low": None, "high": None, "count": 0}


def test_ratios_have_a_geometric_mean():
    found = bootstrap({"x": torch.tensor([0.5, 2.0])}, geometric=frozenset({"x"}))["x"]
    assert found.mean == pytest.approx(1.0)
    assert (found.low, found.high) == pytest.approx((0.5, 2.0))


def test_the_same_seed_gives_the_same_interval_and_another_another():
    values = {"x": normal(20)}
    assert bootstrap(values) == bootstrap(values)
    assert bootstrap(values) != bootstrap(values, seed=1)


def test_no_pairs_have_no_mean():
    found = bootstrap({"x": torch.empty(0)})["x"]
    assert math.isnan(found.mean)
    assert found.count == 0


def loop_kid(x, y, who_x, who_y):
    """Return the unbiased squared MMD, written out."""

    def kernel(a, b):
        return (float(a @ b) / float(a.norm() * b.norm()) + 1) ** 3

    def mean(a, who_a, b, who_b):
        values = [
            kernel(a[i], b[j])
            for i in range(len(a))
            for j in range(len(b))
            if not {*who_a[i]} & {*who_b[j]}
        ]
        return sum(values) / len(values)

    among = mean(x, who_x, x, who_x) + mean(y, who_y, y, who_y)
    return among - 2 * mean(x, who_x, y, who_y)


def test_kid_is_the_double_loop():
    x, y = normal(7 * 5).reshape(7, 5) + 0.5, normal(9 * 5, 1).reshape(9, 5)
    alone = [[i] for i in range(16)]
    assert kid(x, y).mean == pytest.approx(loop_kid(x, y, alone[:7], alone[7:]), abs=1e-12)
    who = [[0, 1], [0, 2], [1, 0], [3, 4], [5, 3], [6, 2], [7, 8]]
    reference_who = [[i] for i in range(9)]
    found = kid(x, y, who=torch.tensor(who), reference_who=torch.tensor(reference_who))
    expected = loop_kid(x, y, who, reference_who)
    assert found.mean == pytest.approx(expected, abs=1e-12)


def test_kid_is_nothing_between_halves_of_a_crowd_and_much_between_two_crowds():
    crowd = normal(400 * 8).reshape(400, 8)
    same, other = kid(crowd[:200], crowd[200:]), kid(crowd[:200] + 1, crowd[200:])
    assert same.low < 0 < same.high
    assert other.low > 0.5
    assert other.low < other.mean < other.high


def test_kid_of_the_pictures_themselves_is_nothing():
    crowd = normal(30 * 8).reshape(30, 8)
    numbers = torch.arange(30)[:, None]
    assert kid(crowd, crowd, who=numbers, reference_who=numbers).mean == pytest.approx(0, abs=1e-12)
