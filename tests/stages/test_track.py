"""Tracks, of faces by hand: no network is asked."""

from __future__ import annotations

import pytest
import torch
from moving import at, axis, face, middles, several

from mien.stages.track import KEEP, SURE, Tracker
from mien.types import Faces

SAME = 0.36


class Scene:
    """Runs a tracker as the pipeline does; the detector looks at every frame unless told not to."""

    def __init__(self):
        self.tracker = Tracker()

    def __call__(self, seconds, faces, *, presence=30.0, look=True, who=None):
        """Show ``faces``; the mesh network finds for each expected one the nearest within 60 px.

        ``who`` are the embeddings of the faces seen, by the x of their middles.
        """
        tracker = self.tracker
        expected = tracker.expected(at(seconds))
        if len(expected):
            located, logits = [], []
            for i in range(len(expected)):
                near = _nearest(expected[i], faces)
                located.append(near if near is not None else expected[i])
                logits.append(presence if near is not None else -5.0)
            located = Faces.joined(located)
            located = Faces(
                located.boxes, located.points, located.scores, expected.ids, located.mesh
            )
            tracker.accept(located, torch.tensor(logits))
        if look:
            tracker.match(faces, lambda found: torch.full((len(found),), presence))
        if who is not None:
            seen = tracker.seen
            rows = [who[middles(track.face)[track.id][0]] for track in seen]
            tracker.settle(seen, torch.stack(rows), [True] * len(rows), SAME)
        return middles(tracker.faces)


def _nearest(one, faces):
    away = (faces.points.mean(dim=1) - one.points.mean(dim=1)).norm(dim=1)
    return faces[int(away.argmin())] if len(faces) and float(away.min()) < 60 else None


@pytest.fixture
def show():
    return Scene()


def test_faces_keep_their_ids_in_any_order(show):
    assert show(0, several(face(100, 100), face(300, 100))) == {0: (100, 100), 1: (300, 100)}
    assert show(0.04, several(face(303, 100), face(104, 100))) == {0: (104, 100), 1: (303, 100)}


def test_a_face_is_followed_without_the_detector(show):
    show(0, face(100, 100))
    for i in range(1, 30):
        assert show(i / 30, face(100 + 10 * i, 100), look=False) == {0: (100 + 10 * i, 100)}


@pytest.mark.parametrize("rate", [8, 15, 30, 120])
def test_a_moving_face_is_expected_where_it_will_be_at_any_rate(show, rate):
    speed = 240
    for i in range(rate):
        show(i / rate, face(100 + speed * i / rate, 100))
    expected = show.tracker.expected(at(1))
    # less than the whole way: who walks may stop
    behind = 100 + speed - float(expected.boxes[0, ::2].mean())
    assert 0 <= behind < speed / rate / 3


def test_a_covered_face_keeps_its_id_and_is_lost_meanwhile(show):
    show(0, face(100, 100))
    for i in range(1, 16):
        assert show(i / 30, Faces.none()) == {}
        assert [track.id for track in show.tracker.lost] == [0]
    assert show(0.55, face(120, 100)) == {0: (120, 100)}


def test_a_lost_face_is_given_up_after_a_second(show):
    show(0, face(100, 100))
    show(0.1, Faces.none())
    show(KEEP + 0.05, Faces.none())
    assert show.tracker.tracks == []
    assert show(KEEP + 0.1, face(100, 100)) == {1: (100, 100)}


def test_a_face_far_from_the_lost_one_is_another(show):
    show(0, face(100, 100))
    show(0.1, Faces.none())
    assert show(0.2, face(500, 100)) == {1: (500, 100)}
    assert [track.id for track in show.tracker.lost] == [0]


def test_of_two_on_one_place_the_one_that_jumped_is_lost(show):
    show(0, several(face(100, 100), face(150, 100, 90)))
    # the second one's mesh has slipped onto the first
    tracker = show.tracker
    expected = tracker.expected(at(0.04))
    both = several(face(101, 100), face(102, 100))
    slipped = Faces(both.boxes, both.points, both.scores, expected.ids, both.mesh)
    assert not tracker.accept(slipped, torch.tensor([30.0, 30.0]))
    assert middles(tracker.faces) == {0: (101, 100)}
    assert [track.id for track in tracker.lost] == [1]
    assert all(track.doubtful for track in tracker.seen)


@pytest.mark.parametrize("swapped", [False, True])
def test_after_a_crossing_likeness_decides(show, swapped):
    one, other = axis(0), axis(1)
    show(0, several(face(100, 100), face(300, 100)), who={100: one, 300: other})
    show.tracker.doubt()
    who = {110: other, 290: one} if swapped else {110: one, 290: other}
    seen = show(0.04, several(face(110, 100), face(290, 100)), who=who)
    left, right = (1, 0) if swapped else (0, 1)
    assert seen == {left: (110, 100), right: (290, 100)}
    assert show.tracker.faces.ids.tolist() == [left, right]
    assert not any(track.doubtful for track in show.tracker.tracks)


def test_a_lost_person_is_known_where_nobody_was_expected(show):
    show(0, face(100, 100), who={100: axis(0)})
    show(0.1, Faces.none())
    assert show(0.5, face(700, 300), who={700: axis(0)}) == {0: (700, 300)}


def test_somebody_else_in_the_place_of_a_lost_one_is_somebody_new(show):
    show(0, face(100, 100), who={100: axis(0)})
    show(0.1, Faces.none())
    assert show(0.2, face(105, 100), who={105: axis(1)}) == {1: (105, 100)}
    assert [track.id for track in show.tracker.lost] == [0]
    # and the first, beside the other, is the first again
    both = show(0.3, several(face(105, 100), face(300, 100)), who={105: axis(1), 300: axis(0)})
    assert both == {1: (105, 100), 0: (300, 100)}


def test_what_no_detector_confirms_and_is_not_sure_is_dropped(show):
    show(0, face(100, 100))
    for i in range(1, 30):
        show(i / 30, face(100, 100), look=False, presence=SURE - 5)
        show.tracker.match(Faces.none(), lambda found: torch.zeros(len(found)))
    assert show.tracker.tracks == []


def test_what_is_sure_needs_no_detector(show):
    show(0, face(100, 100))
    for i in range(1, 60):
        show(i / 30, face(100, 100), look=False)
        show.tracker.match(Faces.none(), lambda found: torch.zeros(len(found)))
    assert len(show.tracker.seen) == 1


def test_a_reset_makes_everybody_new(show):
    show(0, face(100, 100))
    show.tracker.reset()
    assert show(0.04, face(100, 100)) == {1: (100, 100)}
