"""Masks over time: noise is calmed, a hand comes at once, leaves no trail, and nothing lasts."""

from __future__ import annotations

import pytest
import torch

from mien.stages import calm
from mien.stages.calm import DEPTH, HIDDEN, SHOWN, Seen

SIDE = 32


def calmed(now, before):
    """Return what is seen of one face now (S, S), with a list of what was seen before."""
    return of_several([now], [before])[0]


def of_several(now, past):
    seen = Seen.of(torch.stack(now), past)
    return calm.calmed(seen.now, seen.before, seen.there)


def run(frames):
    """Return each of ``frames`` (T, S, S), calmed with those before it."""
    past = [list(reversed(frames[max(0, i - DEPTH) : i])) for i in range(len(frames))]
    return torch.stack([calmed(now, before) for now, before in zip(frames, past, strict=True)])


def jump(frames):
    return float((frames[:-2] - 2 * frames[1:-1] + frames[2:]).square().mean().sqrt())


def edge(at):
    """Return a face that is hidden left of column ``at``, with an edge a pixel wide."""
    return (torch.arange(SIDE) - at + 0.5).clamp(0, 1).expand(SIDE, SIDE).clone()


def test_noise_is_calmed_to_a_third_and_less():
    random = torch.Generator().manual_seed(0)
    noisy = 0.5 + 0.03 * torch.randn(40, SIDE, SIDE, generator=random)
    assert jump(run(noisy)) < jump(noisy) / 3
    assert float(run(noisy).mean()) == pytest.approx(0.5, abs=0.002)


def test_the_first_frame_and_a_still_one_are_as_they_are():
    now = edge(9.3)
    assert torch.equal(calmed(now, []), now)
    torch.testing.assert_close(calmed(now, [now] * DEPTH), now)


@pytest.mark.parametrize(("old", "new"), [(1.0, 1 - HIDDEN), (1.0, 0.0), (0.0, SHOWN), (0.0, 1.0)])
def test_a_large_change_is_taken_at_once(old, new):
    before = [torch.full((SIDE, SIDE), old)] * DEPTH
    now = torch.full((SIDE, SIDE), new)
    torch.testing.assert_close(calmed(now, before), now, rtol=0, atol=1e-5)


def test_what_hides_is_taken_over_sooner_than_what_shows():
    middle, step = torch.full((SIDE, SIDE), 0.5), 0.08
    hidden = calmed(middle - step, [middle] * DEPTH)
    shown = calmed(middle + step, [middle] * DEPTH)
    assert float((hidden - (middle - step)).mean()) < 0.6 * float((middle + step - shown).mean())


@pytest.mark.parametrize("speed", [1.0, 2.0, 5.0, -1.0, -2.0, -5.0])
def test_a_moving_edge_is_less_than_a_pixel_and_less_than_a_frame_late(speed):
    start = 3 if speed > 0 else SIDE - 3
    places = [start + speed * i for i in range(6)]
    found = run(torch.stack([edge(at) for at in places]))
    hidden = (1 - found[5]).sum(dim=1).mean() - 0.0
    late = (float(hidden) - float((1 - edge(places[5])).sum(dim=1).mean())) / -speed
    assert -0.01 < late < (0.45 if speed > 0 else 1.0)
    assert abs(late * speed) < 1


def test_before_a_frame_that_does_not_count_none_does():
    seen, hidden = torch.ones(SIDE, SIDE), torch.zeros(SIDE, SIDE)
    assert torch.equal(calmed(seen, [hidden, seen, seen]), seen)
    half = seen - HIDDEN / 2
    assert torch.equal(calmed(half, [hidden, seen, seen]), half)


def test_nothing_is_remembered_beyond_the_depth():
    frames = torch.rand(DEPTH + 2, SIDE, SIDE, generator=torch.Generator().manual_seed(1))
    near = list(frames[1 : DEPTH + 1])
    assert torch.equal(calmed(frames[0], near), calmed(frames[0], [*near, frames[-1]]))


def test_faces_at_once_are_as_each_alone():
    frames = torch.rand(8, SIDE, SIDE, generator=torch.Generator().manual_seed(2)) / 20 + 0.5
    now, past = list(frames[:4]), [list(frames[4:]), [], [frames[4]], list(frames[4:7])]
    both = of_several(now, past)
    alone = torch.stack([calmed(one, before) for one, before in zip(now, past, strict=True)])
    torch.testing.assert_close(both, alone, rtol=0, atol=1e-6)
    assert torch.equal(both[1], now[1])
