"""Clips whose motion is known: what is where, by formula."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

from mien.evaluate.moving import Actor, Place, actor, play, times
from mien.geometry import apply

WHITE = torch.full((20, 30, 3), 255, dtype=torch.uint8)


def frame_of(path, **options):
    one = Actor(WHITE, path, head=False)
    return next(play([one], [Fraction(1, 2)], size=(60, 80), **options)).pixels


def test_an_actor_is_where_it_was_put():
    pixels = frame_of(lambda t: Place(20 + 40 * t, 30))
    rows, columns = (pixels[..., 0] == 255).nonzero(as_tuple=True)
    # an even number of pixels around a whole one: half a pixel is shared by the neighbours
    assert (int(columns.min()), int(columns.max())) == (26, 54)
    assert (int(rows.min()), int(rows.max())) == (21, 39)


def test_the_matrix_says_where_each_point_is():
    one = Actor(WHITE, lambda t: Place(40, 30, 2, 90), head=False)
    corner = apply(one.matrix(0), torch.tensor([[[0.0, 0.0], [29.0, 0.0]]]))[0]
    # turned clockwise by a quarter: what was at the top left is at the top right
    torch.testing.assert_close(corner, torch.tensor([[40 + 19.0, 30 - 29.0], [59.0, 59.0]]))


def test_times_are_exact():
    assert times(1, 30)[7] == Fraction(7, 30)
    assert len(times(2.5, 24)) == 60
    assert times(1, 29.97)[1] == Fraction(1, 1) / Fraction(29.97).limit_denominator(1001)


def test_noise_and_light_are_as_told():
    still = frame_of(lambda t: Place(40, 30))
    assert torch.equal(still, frame_of(lambda t: Place(40, 30)))
    dark = frame_of(lambda t: Place(40, 30), light=lambda t: 1 - t)
    assert int(dark[30, 40, 0]) == 128
    noisy = frame_of(lambda t: None, noise=6.0).float() - frame_of(lambda t: None).float()
    assert float(noisy.std()) == pytest.approx(6, abs=0.3)


def test_later_actors_stand_in_front_and_may_be_half_there(load):
    head = actor(torch.from_numpy(load("ada")), 60, lambda t: Place(40, 30))
    block = Actor(WHITE, lambda t: Place(40, 30, opacity=0.5), head=False)
    (alone,) = play([head], [Fraction(0)], size=(60, 80))
    (covered,) = play([head, block], [Fraction(0)], size=(60, 80))
    before, after = alone.pixels[30, 40].float(), covered.pixels[30, 40].float()
    assert float((after - (before + 255) / 2).abs().max()) <= 1
    assert torch.equal(alone.pixels[:10], covered.pixels[:10])
