"""Policy and fading: which faces are bad, what is laid instead, and what is noted."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from moving import at, face, several

from mien.errors import InvalidOption
from mien.geometry import apply, template
from mien.pipeline.fading import Fader, Wish
from mien.pipeline.patch import Patches
from mien.pipeline.policy import (
    CLEAR,
    COVERED,
    OUTSIDE,
    PROFILE,
    TURNED_BACK,
    UNCOVERED,
    Inspector,
    Log,
    Policy,
)
from mien.types import Event, Faces


class Contract:
    template, size = "arcface_128", 64


def patch(value=0.5, area=100.0):
    return Patches(
        torch.full((1, 3, 64, 64), value),
        torch.full((1, 64, 64), 0.5),
        torch.ones(1, 64, 64),
        torch.tensor([[[1.0, 0, 0], [0, 1, 0]]]),
        torch.tensor([area]),
    )


class Run:
    """Runs a fader at 50 frames per second."""

    def __init__(self, **policy):
        self.fader, self.frame = Fader(Policy(**policy), Contract()), -1

    def __call__(self, good, *, made=None, fresh=None, x=100.0, role=0):
        """Show one face, good or bad, made or not (as it is good); None wishes for nothing."""
        self.frame += 1
        made = good if made is None else made
        wish = Wish(0, role, bool(good), patch() if made else None)
        return self.fader(
            [] if good is None else [wish],
            face(x, 100, number=0),
            at(self.frame / 50),
            fresh=self.frame == 0 if fresh is None else fresh,
        )

    def opacities(self, *goods, **options):
        return [sum(self(good, **options).opacities.tolist()) for good in goods]


def softened(*levels):
    return [pytest.approx(x * x * (3 - 2 * x), abs=1e-5) for x in levels]


def test_at_the_beginning_of_a_shot_faces_are_there_at_once():
    assert Run().opacities(True, True) == [1, 1]
    assert Run()(True).opacities.tolist() == [1.0]


def test_a_face_that_comes_later_fades_in_over_the_stated_seconds():
    run = Run(fade=0.1)
    run.fader([], Faces.none(), at(-1), fresh=True)
    run.fader([], Faces.none(), at(-0.02), fresh=False)
    assert run.opacities(*[True] * 6, fresh=False) == softened(0.2, 0.4, 0.6, 0.8, 1, 1)


def test_a_bad_face_fades_over_the_stated_seconds_and_comes_back():
    run = Run(action="fade", fade=0.1)
    run(True)
    assert run.opacities(*[False] * 6, made=True) == softened(0.8, 0.6, 0.4, 0.2, 0, 0)
    assert run.opacities(*[True] * 6) == softened(0.2, 0.4, 0.6, 0.8, 1, 1)


@pytest.mark.parametrize("rate", [10, 24, 100])
def test_fades_are_monotone_and_last_equally_long_at_any_rate(rate):
    fader = Fader(Policy(fade=0.5), Contract())
    place, levels = face(0, 0, number=0), []
    fader([Wish(0, 0, True, patch())], place, at(0), fresh=True)
    for i in range(1, rate + 1):
        laid = fader([Wish(0, 0, False, None)], place, at(i / rate), fresh=False)
        levels.append(sum(laid.opacities.tolist()))
    assert all(a >= b for a, b in pairwise(levels))
    first = next(i for i, level in enumerate(levels, 1) if level < 1e-6)
    assert first / rate == pytest.approx(0.5, abs=1 / rate)


def test_hold_carries_the_last_good_face_along_and_then_fades():
    run = Run(action="hold", hold=0.06, fade=0.04)
    run(True)
    held = [run(False, x=100 + 5 * i) for i in range(7)]
    assert [sum(laid.opacities.tolist()) for laid in held] == [1, 1, 1, 1, pytest.approx(0.5), 0, 0]
    for i in range(5):
        assert float(held[i].patches.pixels[0, 0, 0, 0]) == 0.5
        # the patch lies where the face's points are
        there = apply(held[i].patches.matrices, face(100 + 5 * i, 100).points)
        wanted = template("arcface_128").at(64)
        assert float((there[0].mean(dim=0) - wanted.mean(dim=0)).norm()) < 0.01


def test_leave_shows_the_frame_as_it_came_at_once():
    run = Run(action="leave", fade=0.04)
    run(True)
    assert run(False).patches is None
    assert run.opacities(True, True) == [pytest.approx(0.5), 1]


def test_a_face_that_was_never_good_is_never_laid():
    for action in ("hold", "fade", "leave"):
        assert Run(action=action).opacities(False, False, False) == [0, 0, 0]


def test_a_rejected_frame_shows_the_last_good_face_a_little_fainter():
    run = Run(fade=0.2)
    run(True)
    laid = run(False, made=False)
    assert [laid.opacities.tolist()] == [softened(0.9)]
    assert float(laid.patches.pixels.mean()) == 0.5


def test_what_is_carried_is_a_clear_face_if_there_was_one_lately():
    fader, place = Fader(Policy("hold"), Contract()), face(0, 0, number=0)
    wishes = [Wish(0, 0, True, patch(0.3)), Wish(0, 0, True, patch(0.6), clear=False),
              Wish(0, 0, False, None)]  # fmt: skip
    shown = [fader([wish], place, at(i / 25), fresh=i == 0) for i, wish in enumerate(wishes)]
    assert [float(laid.patches.pixels.mean()) for laid in shown] == pytest.approx([0.3, 0.6, 0.3])
    for i in range(3, 20):  # half covered for long: what it looked like before is out of date
        fader([wishes[1]], place, at(i / 25), fresh=False)
    laid = fader([wishes[2]], place, at(20 / 25), fresh=False)
    assert float(laid.patches.pixels.mean()) == pytest.approx(0.6)


def test_who_loses_a_role_fades_and_keeps_the_role_meanwhile():
    run = Run(fade=0.04)
    run(True, role=1)
    laid = run(None)
    assert (laid.roles, laid.opacities.tolist()) == ((1,), softened(0.5))
    assert run(None).patches is None


def test_the_largest_lies_on_top():
    fader = Fader(Policy(), Contract())
    wishes = [Wish(n, 0, True, patch(area=area)) for n, area in ((0, 9.0), (1, 3.0), (2, 5.0))]
    places = several(*(face(100 * n, 0, number=n) for n in range(3)))
    assert fader(wishes, places, at(0), fresh=True).numbers == (1, 2, 0)


def test_policies_that_cannot_be():
    for options in ({"action": "hide"}, {"hold": -1}, {"fade": 1.5}, {"hold": 0.6, "fade": 0.6},
                    {"fade": True}, {"hold": "long"}):  # fmt: skip
        with pytest.raises(InvalidOption):
            Policy(**options)


def inspect(inspector, one, presence=30.0, doubt=False):
    return inspector(one, torch.tensor([presence]), (doubt,), (200, 200))[0]


def test_what_is_bad_must_become_clearly_good():
    inspector, good = Inspector(), face(100, 100, number=0)
    assert inspect(inspector, good) is None
    between = (COVERED + UNCOVERED) / 2
    assert inspect(inspector, good, between) is None
    assert inspect(inspector, good, COVERED - 1) == "covered"
    assert inspect(inspector, good, between) == "covered"
    assert inspect(inspector, good, UNCOVERED + 1) is None


def test_profiles_faces_outside_and_faces_no_detector_sees_are_bad():
    inspector = Inspector()
    assert inspect(inspector, face(100, 100, number=0, depth=PROFILE + 1)) == "profile"
    middle = (PROFILE + TURNED_BACK) / 2
    assert inspect(inspector, face(100, 100, number=0, depth=-middle)) == "profile"
    assert inspect(inspector, face(100, 100, number=0, depth=TURNED_BACK - 1)) is None
    assert inspect(inspector, face(-0.5 - 100 * (0.5 - OUTSIDE) - 15, 100, number=0)) == "outside"
    assert inspect(inspector, face(100, 100, number=0, score=0.0)) == "unsure"
    assert inspect(inspector, face(100, 100, number=0), doubt=True) is None
    assert inspect(inspector, face(100, 100, number=0), CLEAR - 1, doubt=True) == "unsure"
    assert inspector(Faces.none(), torch.zeros(0), (), (9, 9)) == {}


def test_events_are_spans_of_time():
    log = Log()
    for i, wrong in enumerate([{}, {4: "covered"}, {4: "covered"}, {}, {4: "lost", 5: "profile"}]):
        log(at(i / 10), wrong, "fade")
    assert log.events == (
        Event(4, "covered", "fade", at(0.1), at(0.2), 2),
        Event(4, "lost", "fade", at(0.4), at(0.4), 1),
        Event(5, "profile", "fade", at(0.4), at(0.4), 1),
    )


def test_what_is_carried_along_is_seen_as_far_as_it_is_now():
    run = Run(action="hold", hold=0.1)
    run(True)
    wish = Wish(0, 0, good=False, patch=None)
    half = torch.zeros(1, 64, 64)
    half[..., 32:] = 1
    now = run.fader([wish], face(100, 100, number=0), at(1 / 50), fresh=False, fronts={0: half})
    assert torch.equal(now.patches.masks, half)  # all of its shape, and not the mask it had
    still = run.fader([wish], face(100, 100, number=0), at(2 / 50), fresh=False)
    assert bool((still.patches.masks == 0.5).all())
