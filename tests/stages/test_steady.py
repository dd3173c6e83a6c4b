"""Steadiness: noise goes, motion stays, by numbers."""

from __future__ import annotations

from dataclasses import replace
from math import pi, sin

import pytest
import torch
from moving import at, face, several

from mien.stages.steady import POSE_BAND, Steady, gains
from mien.types import Faces

SIZE = float((face(0, 0).mesh[0, :, :2]).square().sum(dim=1).mean().sqrt())
"""What Steady calls the size of a face of 100 px."""


def smoothed(places, moments, noise=0.0, size=100.0):
    """Return the points (T, 5, 2) as found and as smoothed of a face at ``places``."""
    steady, random = Steady(), torch.Generator().manual_seed(0)
    found = [face(x, y, size, number=0, noise=noise, random=random) for x, y in places]
    kept = [steady(one, at(t)) for one, t in zip(found, moments, strict=True)]
    return torch.cat([f.points for f in found]), torch.cat([f.points for f in kept])


def test_a_still_face_stands_still():
    moments = [i / 30 for i in range(90)]
    steady, random = Steady(), torch.Generator().manual_seed(0)
    places = []
    for t in moments:
        # a network's noise moves the whole face, and each point a little
        x, y = 0.1 * torch.randn(2, generator=random)
        found = face(200 + float(x), 200 + float(y), number=0, noise=0.1, random=random)
        places.append(steady(found, at(t)).points[0])
    off = torch.stack(places[10:])
    assert float((off - off.mean(dim=0)).square().mean().sqrt()) < 0.1


@pytest.mark.parametrize("rate", [12, 30, 60])
@pytest.mark.parametrize("speed", [10, 100, 1000])
def test_constant_motion_has_no_lag(speed, rate):
    moments = [i / rate for i in range(rate)]
    found, kept = smoothed([(speed * t, 50 - speed * t) for t in moments], moments)
    assert float((kept - found).norm(dim=-1).max()) < 0.5
    assert float((kept - found)[-1].norm(dim=-1).max()) < 0.25


def test_irregular_times_are_no_motion():
    random = torch.Generator().manual_seed(1)
    moments = torch.rand(60, generator=random).mul(0.08).add(0.004).cumsum(0).tolist()
    found, kept = smoothed([(300 * t, 0) for t in moments], moments)
    assert float((kept - found)[20:].norm(dim=-1).max()) < 0.3


@pytest.mark.parametrize(
    "path",
    [
        lambda t: (200 * min(t, 0.5), 0),  # stops
        lambda t: (30 * sin(6 * pi * t), 0),  # is shaken
        lambda t: (0 if t < 0.5 else 80, 0),  # jumps
        lambda t: (400 * t * t, 0),  # speeds up
    ],
)
def test_whatever_moves_lags_less_than_the_bound(path):
    moments = [i / 30 for i in range(40)]
    found, kept = smoothed([path(t) for t in moments], moments)
    assert float((kept - found).norm(dim=-1).max()) < 0.385 * POSE_BAND * SIZE + 0.01


def test_the_share_that_is_taken_bounds_the_rest():
    deviations = torch.linspace(0, 3, 1000)
    share = gains(deviations, 1.0, 0.2)
    assert (float(share[0]), float(share[-1])) == pytest.approx((0.2, 1))
    assert float((deviations * (1 - share)).max()) <= 0.385 * 0.8


def test_a_turn_through_half_a_circle_is_followed():
    steady = Steady()
    upright = face(0, 0, number=0)
    for i in range(60):
        turn = torch.tensor(2 * pi * i / 50)
        matrix = torch.stack([torch.stack([turn.cos(), -turn.sin()]),
                              torch.stack([turn.sin(), turn.cos()])])  # fmt: skip
        mesh = torch.cat([upright.mesh[..., :2] @ matrix.T, upright.mesh[..., 2:]], dim=-1)
        found = replace(upright, points=upright.points @ matrix.T, mesh=mesh)
        kept = steady(found, at(i / 30))
        assert float((kept.points - found.points).norm(dim=-1).max()) < 0.5


def test_what_is_new_comes_back_as_it_is():
    steady = Steady()
    for t in (0.0, 1.0):
        found = face(100 + t, 100, number=int(t))
        kept = steady(found, at(t))
        assert torch.equal(kept.mesh, found.mesh)
        assert torch.equal(kept.points, found.points)
        assert torch.equal(kept.boxes, found.boxes)
    steady.reset()
    found = face(150, 100, number=1)
    assert torch.equal(steady(found, at(1.03)).mesh, found.mesh)
    assert len(steady(Faces.none(), at(1.06))) == 0


def test_tracks_do_not_touch_each_other():
    together, alone = Steady(), Steady()
    random = torch.Generator().manual_seed(0)
    for i in range(10):
        one = face(100 + i, 100, number=4, noise=0.2, random=random)
        other = face(300, 100 + 9 * i, number=2, noise=0.2, random=random)
        both = together(several(one, other) if i % 2 else several(other, one), at(i / 30))
        row = both.ids.tolist().index(4)
        assert torch.equal(both.points[row], alone(one, at(i / 30)).points[0])
