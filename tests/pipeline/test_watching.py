"""Watching portraits that move: with the networks that ship, at few pixels and frames."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

from mien.errors import InvalidOption
from mien.evaluate.moving import Actor, Place, actor, play, times
from mien.loader import Loader
from mien.models import Catalogue, EmbedderContract
from mien.pipeline.watching import Watcher
from mien.stages.embed import Embedder
from mien.types import Frame

SIZE = (240, 400)
BLOCK = torch.full((200, 110, 3), 120, dtype=torch.uint8)


@pytest.fixture(scope="module")
def embedder():
    loader = Loader(Catalogue(), "cpu", allow_fallback=False, threads=None)
    return Embedder(*loader.load("sface", EmbedderContract))


@pytest.fixture
def watch(find, embedder):
    def run(actors, moments, *, noise=2.0, **options):
        watcher = Watcher(find, embedder, **options)
        return [watcher(frame) for frame in play(actors, moments, size=SIZE, noise=noise)]

    return run


@pytest.fixture
def head(load):
    def make(name, path, side=180):
        return actor(torch.from_numpy(load(name)), side, path)

    return make


def where(sight):
    """Return the x of each face's middle by its id."""
    middles = (sight.faces.boxes[:, 0] + sight.faces.boxes[:, 2]) / 2
    return dict(zip(sight.faces.ids.tolist(), middles.tolist(), strict=True))


@pytest.mark.parametrize("speed", [150, 300])
def test_who_cross_keep_their_ids(watch, head, speed):
    one = head("ben", lambda t: Place(80 + speed * t, 125))
    other = head("mei", lambda t: Place(320 - speed * t, 120))
    sights = watch([one, other], times(240 / speed, 25))
    first, last = where(sights[0]), where(sights[-1])
    assert set(first) == set(last) == {0, 1}
    assert all((first[n] < 200) == (last[n] > 200) for n in first)
    assert any(len(sight.faces) == 1 for sight in sights)  # one was hidden


def test_a_face_that_is_covered_for_half_a_second_keeps_its_id(watch, head):
    face = head("ada", lambda t: Place(200, 120))
    block = Actor(BLOCK, lambda t: Place(200, 120) if 0.2 <= t < 0.7 else None, head=False)
    sights = watch([face, block], times(1, 20))
    seen = [sight.faces.ids.tolist() for sight in sights]
    assert seen[:4] == [[0]] * 4
    assert seen[5:14] == [[]] * 9
    assert seen[-4:] == [[0]] * 4
    assert sights[8].waiting.ids.tolist() == [0]


def test_a_cut_makes_everybody_new(watch, head):
    one = head("ada", lambda t: Place(150, 120) if t < 0.2 else None)
    other = Actor(torch.full((*SIZE, 3), 210, dtype=torch.uint8),
                  lambda t: Place(199.5, 119.5) if t >= 0.2 else None, head=False)  # fmt: skip
    again = head("ada", lambda t: Place(250, 120) if t >= 0.2 else None)
    sights = watch([one, other, again], times(0.4, 20))
    assert [sight.fresh for sight in sights] == [True, *[False] * 3, True, *[False] * 3]
    assert [sight.faces.ids.tolist() for sight in sights] == [[0]] * 4 + [[1]] * 4


def test_somebody_else_in_the_same_place_is_somebody_new(watch, head):
    # small, and not when an embedding is due: neither the frame nor the clock tells
    random = torch.Generator().manual_seed(0)
    tiles = torch.randint(0, 256, (24, 40, 1), generator=random).to(torch.uint8)
    wall = tiles.repeat_interleave(10, 0).repeat_interleave(10, 1).expand(-1, -1, 3).contiguous()
    behind = Actor(wall, lambda t: Place(199.5, 119.5), head=False)
    one = head("ben", lambda t: Place(200, 120) if t < 0.25 else None, side=100)
    other = head("mei", lambda t: Place(200, 120) if t >= 0.25 else None, side=100)
    sights = watch([behind, one, other], times(0.5, 20), look=1)
    assert [sight.faces.ids.tolist() for sight in sights] == [[0]] * 5 + [[1]] * 5
    assert not any(sight.fresh for sight in sights[1:])
    assert not any(sight.waiting.ids.tolist() == [1] for sight in sights)
    assert float(sights[-1].presence[0]) > 20


def test_one_who_becomes_somebody_else_slowly_is_somebody_new_in_the_end(watch, head):
    def appears(t):
        return Place(200, 120, opacity=min(1.0, max(0.0, t - 0.2) / 0.6))

    one, other = head("ben", lambda t: Place(200, 120)), head("mei", appears)
    sights = watch([one, other], times(1.5, 20))
    assert sights[0].faces.ids.tolist() == [0]
    assert all(len(sight.faces) == 1 for sight in sights)
    assert sights[-1].faces.ids.tolist() == [1]


def test_a_still_face_moves_less_than_a_tenth_of_a_pixel(watch, head):
    face = head("ben", lambda t: Place(200, 120), side=220)
    raw, smooth = (
        torch.cat([sight.faces.points for sight in watch([face], times(1, 30), noise=4, **how)])
        for how in ({"smooth": False}, {})
    )
    spread = [float((each[5:] - each[5:].mean(dim=0)).square().mean().sqrt())
              for each in (raw, smooth)]  # fmt: skip
    assert spread[1] < 0.1
    assert spread[1] < 0.7 * spread[0]


def test_a_moving_face_lags_less_than_half_a_pixel(watch, head):
    face = head("ben", lambda t: Place(100 + 200 * t, 120))
    raw, smooth = (
        torch.cat([sight.faces.points for sight in watch([face], times(0.8, 25), **how)])
        for how in ({"smooth": False}, {})
    )
    assert float((smooth - raw).mean(dim=1).norm(dim=1).max()) < 0.5


def test_one_who_stops_at_once_is_where_they_stop(watch, head):
    # 400 pixels per second: a third of the face in each frame
    face = head("ben", lambda t: Place(60 + 400 * min(t, 0.5), 120), side=110)
    sights = watch([face], times(0.9, 25), look=1)
    assert [sight.faces.ids.tolist() for sight in sights] == [[0]] * len(sights)
    start = where(sights[0])[0]
    for sight, t in zip(sights, times(0.9, 25), strict=True):
        assert abs(where(sight)[0] - start - 400 * min(float(t), 0.5)) < 3


def test_irregular_times(watch, head):
    random = torch.Generator().manual_seed(3)
    steps = torch.randint(5, 120, (20,), generator=random).cumsum(0).tolist()
    moments = [Fraction(0), *(Fraction(step, 1000) for step in steps)]
    face = head("ben", lambda t: Place(100 + 120 * t, 120))
    sights = watch([face], moments)
    assert [sight.faces.ids.tolist() for sight in sights] == [[0]] * 21
    away = [abs(where(sight)[0] - where(sights[0])[0] - 120 * float(t))
            for sight, t in zip(sights, moments, strict=True)]  # fmt: skip
    assert max(away) < 1


def test_the_detector_looks_as_often_as_it_is_told(watch, head):
    face = head("ben", lambda t: Place(200, 120))
    for every in (1, 4, 8):
        looked = [s.looked for s in watch([face], times(1, 25), look=Fraction(every % 25, 25))]
        assert [i for i, one in enumerate(looked) if one] == list(range(0, 25, every))
    # but at once when a face is gone
    face = head("ben", lambda t: Place(200, 120) if t < 0.3 else None)
    looked = [s.looked for s in watch([face], times(0.5, 20), look=1)]
    assert looked[1:6] == [False] * 5
    assert looked[6]


def test_pauses_and_times_that_go_back_begin_anew(find, embedder, head):
    watcher = Watcher(find, embedder)
    face = head("ben", lambda t: Place(200, 120))
    pixels = next(play([face], [Fraction(0)], size=SIZE)).pixels
    moments = [Fraction(0), Fraction(1, 25), Fraction(3), Fraction(3), Fraction(1)]
    sights = [watcher(Frame(pixels, time=t)) for t in moments]
    assert [sight.fresh for sight in sights] == [True, False, True, True, True]
    with pytest.raises(InvalidOption, match="time"):
        watcher(Frame(pixels))
    with pytest.raises(InvalidOption, match="look"):
        Watcher(find, embedder, look=-1)


def test_where_nobody_is_nobody_is_seen(watch):
    for sight in watch([], times(0.3, 20)):
        assert (len(sight.faces), len(sight.waiting), sight.likenesses) == (0, 0, ())
