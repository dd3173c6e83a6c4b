"""Cuts, of portraits that are changed in known ways."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from moving import CLOUD, axis, face

from mien.stages.cut import CutFinder
from mien.stages.glimpse import correlation, glimpses
from mien.stages.likeness import Likeness
from mien.stages.track import LOOKS_ALIKE
from mien.stages.visible import inside, yaws

NAMES = ["ada", "ben", "dev", "eva", "femi", "mei"]


def change(one, other):
    find = CutFinder()
    assert find(one) == "none"
    return find(other)


@pytest.fixture
def ada(load):
    return torch.from_numpy(load("ada"))


@pytest.mark.parametrize(("one", "other"), list(pairwise(NAMES)))
def test_another_picture_is_a_cut(load, one, other):
    assert change(torch.from_numpy(load(one)), torch.from_numpy(load(other))) == "cut"


@pytest.mark.parametrize("gain", [0.4, 0.8, 1.3, 1.8])
def test_another_light_is_none(ada, gain):
    assert change(ada, (ada.float() * gain).clamp(0, 255).to(torch.uint8)) == "none"


def test_a_flash_is_none(ada):
    assert change(ada, (ada.float() * 0.4 + 150).clamp(0, 255).to(torch.uint8)) == "none"


@pytest.mark.parametrize("shift", [8, 40, 160])
def test_a_pan_is_no_cut(ada, shift):
    assert change(ada[:, :-shift], ada[:, shift:]) != "cut"


def test_noise_is_none(ada):
    noisy = ada.float() + 12 * torch.randn(ada.shape, generator=torch.Generator().manual_seed(0))
    assert change(ada, noisy.clamp(0, 255).to(torch.uint8)) == "none"


def test_a_slow_dissolve_is_none(ada, load):
    find, ben = CutFinder(), torch.from_numpy(load("ben"))
    for share in np.linspace(0, 1, 25):
        mixed = ada.float() * (1 - share) + ben.float() * share
        assert find(mixed.to(torch.uint8)) != "cut"


def test_pictures_of_one_colour_and_of_one_pixel():
    black, white = torch.zeros(90, 160, 3).byte(), torch.full((90, 160, 3), 255).byte()
    assert change(black, black) == "none"
    assert change(black, white) == "cut"
    assert change(black[:1, :1], white[:1, :1]) == "cut"


def barred(picture, share):
    """Return a picture with black bars at both sides that take ``share`` of the width."""
    bar = torch.zeros(len(picture), round(640 * share / (1 - share) / 2), 3, dtype=torch.uint8)
    return torch.cat([bar, picture, bar], dim=1)


@pytest.mark.parametrize("share", [0.1, 0.4, 0.7])
@pytest.mark.parametrize("turned", [False, True])
def test_bars_hide_no_cut_and_make_none(load, share, turned):
    one, other = (barred(torch.from_numpy(load(name)), share) for name in ("ada", "femi"))
    if turned:
        one, other = one.transpose(0, 1), other.transpose(0, 1)
    assert change(one, other) == "cut"
    assert change(one, (one.float() * 0.8).to(torch.uint8)) == "none"


def test_a_glimpse_tells_people_apart_in_any_light(find, load):
    seen = []
    for name in NAMES:
        picture = torch.from_numpy(load(name))
        dark = (picture.float() * 0.5 + 20).to(torch.uint8)
        seen.append([glimpses(each, find(picture)[0])[0] for each in (picture, dark)])
    for i, (one, dark) in enumerate(seen):
        assert correlation(one, dark) > 0.99
        assert all(correlation(one, other) < LOOKS_ALIKE for other, _ in seen[i + 1 :])
    assert correlation(one, torch.ones(16, 16)) == 0


def test_a_likeness_is_the_mean_on_the_sphere():
    one = Likeness().with_one_more(axis(0), good=True)
    assert torch.equal(one.mean, axis(0))
    both = one.with_one_more(axis(1), good=True)
    torch.testing.assert_close(both.mean[:2], torch.tensor([0.5, 0.5]).sqrt())
    assert (one.count, both.count) == (1, 2)


def test_clear_views_take_the_place_of_others_and_not_the_reverse():
    dim = Likeness().with_one_more(axis(0), good=False).with_one_more(axis(1), good=False)
    assert (dim.count, dim.good) == (2, False)
    clear = dim.with_one_more(axis(2), good=True)
    assert (clear.count, clear.good) == (1, True)
    assert torch.equal(clear.mean, axis(2))
    assert clear.with_one_more(axis(0), good=False) is clear


@pytest.mark.parametrize("degrees", [-80, -30, 0, 30, 80])
def test_the_turn_of_a_mesh(degrees):
    turned = face(50, 50, depth=degrees).mesh
    assert float(yaws(turned)[0]) == pytest.approx(degrees, abs=0.1)


def test_the_share_inside_of_the_frame():
    share = float((CLOUD[:, 0] >= 0).float().mean())
    assert float(inside(face(-0.5, 100).mesh, 200, 200)[0]) == pytest.approx(share, abs=0.01)
    assert float(inside(face(100, 100).mesh, 200, 200)[0]) == 1
