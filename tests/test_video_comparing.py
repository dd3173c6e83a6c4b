"""Comparisons: two frames in one, whatever their size, layout and orientation."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import av
import numpy as np
import pytest

from mien.errors import InvalidOption
from mien.media.clip import Look, StoredFrame
from mien.media.clip.colour import SDR, Colour, Hdr
from mien.media.clip.layout import layout_of, planes_of
from mien.media.clip.orientation import Orientation
from mien.video.comparing import LARGEST, Comparison

PQ = Colour(primaries=9, transfer=16, matrix=9, full=False)


def look(width, height, *, layout="yuv420p", orientation=None, colour=SDR):
    return Look(
        width=width,
        height=height,
        layout=layout_of(layout),
        colour=colour,
        siting="left",
        orientation=orientation or Orientation(),
        hdr=Hdr(),
        aspect=Fraction(4, 3),
    )


def frame(of, seed):
    """Return a stored frame of noise."""
    raw = av.VideoFrame(of.width, of.height, of.layout.name)
    random = np.random.default_rng(seed)
    for plane in planes_of(raw, of.layout):
        plane[:] = random.integers(0, of.layout.top, plane.shape, endpoint=True)
    return StoredFrame(raw, of, Fraction(7, 3), duration=Fraction(1, 3), number=5)


@pytest.mark.parametrize("size", [(60, 40), (40, 60), (31, 45), (45, 31)])
@pytest.mark.parametrize("turn", list(product([False, True], repeat=3)))
def test_upright_before_comes_first(size, turn):
    of = look(*size, layout="gbrp", orientation=Orientation(*turn))
    before, after = frame(of, 1), frame(of, 2)
    both = Comparison(of)(before, after).picture().pixels.numpy()
    one, other = before.picture().pixels.numpy(), after.picture().pixels.numpy()
    height, width = one.shape[:2]
    axis = 0 if width > height else 1
    side = one.shape[axis]
    assert both.shape[1 - axis] == one.shape[1 - axis]
    assert side * 2 < both.shape[axis] <= side * 2 + 4
    first, last = (np.take(both, range(*r), axis) for r in ((0, side), (-side, 0)))
    assert np.array_equal(first, one)
    assert np.array_equal(last, other)


@pytest.mark.parametrize("layout", ["yuv420p", "yuv422p10le", "yuv411p", "yuva444p", "gray12le"])
@pytest.mark.parametrize("size", [(37, 51), (51, 37), (38, 52)])
def test_samples_are_those_of_both_in_every_layout(layout, size):
    of = look(*size, layout=layout, colour=PQ if "10" in layout else SDR)
    before, after = frame(of, 1), frame(of, 2)
    joined = Comparison(of)(before, after)
    assert (joined.look.colour, joined.look.layout) == (of.colour, of.layout)
    assert (joined.time, joined.duration, joined.number) == (Fraction(7, 3), Fraction(1, 3), 5)
    axis = 0 if size[0] > size[1] else 1
    for one, other, plane in zip(before.planes, after.planes, joined.planes, strict=True):
        side, half = one.shape[axis], (plane.shape[axis] + 1) // 2
        assert np.array_equal(np.take(plane, range(side), axis), one)
        places = [i for i in range(half, plane.shape[axis] - side + 1)
                  if np.array_equal(np.take(plane, range(i, i + side), axis), other)]  # fmt: skip
        assert len(places) == 1
        assert plane.shape[axis] - places[0] - side < 4  # what fills it up


def test_what_was_there_stays_as_it_was():
    of = look(32, 24)
    before, after = frame(of, 1), frame(of, 2)
    kept = [plane.copy() for plane in (*before.planes, *after.planes)]
    for plane in Comparison(of)(before, after).planes:
        plane[:] = 0
    assert all(
        np.array_equal(a, b) for a, b in zip(kept, (*before.planes, *after.planes), strict=True)
    )


def test_what_no_encoder_takes_is_refused():
    Comparison(look(LARGEST, 60))
    for size in ((LARGEST // 2, LARGEST // 2 + 1), (LARGEST + 1, 60)):
        with pytest.raises(InvalidOption, match=f"compare.*at most {LARGEST}"):
            Comparison(look(*size))
