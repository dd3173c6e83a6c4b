"""Following: roles stay with people, of sights made by hand."""

from __future__ import annotations

import pytest
import torch
from moving import at, axis, face

from mien.pipeline.casting import Cast
from mien.pipeline.following import FOR_LONG, LARGER, Follower
from mien.pipeline.watching import Sight
from mien.stages.likeness import Likeness
from mien.types import Faces, Identity, Role

LIMIT, SAME = 0.6, 0.4


def identity(number, consent="c-1"):
    return Identity(axis(number), "sface", str(number), consent)


class Clip:
    """Plays people, by id, to a follower: who a track is, is its likeness."""

    def __init__(self, faces=None, *, instead_of=None, order=None):
        replaced = None if instead_of is None else identity(instead_of, "")
        cast = Cast((Role(identity(7), replaced),), faces, order)
        self.follower = Follower(cast, LIMIT, SAME)
        self.shows = 0

    def __call__(self, seconds, *people, waiting=(), fresh=False):
        """Show people, (track, who, x, size) each; return which tracks play, by id."""
        self.shows += 1
        faces = Faces.joined([face(x, 100, size, number=n) for n, _, x, size in people])
        sight = Sight(
            faces=faces,
            presence=torch.full((len(faces),), 30.0),
            likenesses=tuple(
                Likeness(who if isinstance(who, torch.Tensor) else axis(who), 1, good=True)
                for _, who, _, _ in people
            ),
            doubtful=(False,) * len(faces),
            waiting=Faces.joined([face(0, 0, number=n) for n in waiting]),
            fresh=fresh or self.shows == 1,
            looked=True,
        )
        roles = self.follower(sight, at(seconds))
        self.keepers = roles.keepers
        numbers = roles.faces.ids.tolist()
        return [numbers[row] for row, _ in roles.pairs]


def test_the_largest_does_not_flip_between_people_of_a_size():
    clip = Clip()
    for i in range(90):
        sizes = (100, 104) if i % 2 else (104, 100)
        chosen = clip(i / 30, (0, 0, 100, sizes[0]), (1, 1, 300, sizes[1]))
        assert chosen == [0]


def test_one_who_is_much_larger_for_long_takes_over():
    clip = Clip()
    assert clip(0, (0, 0, 100, 100), (1, 1, 300, 90)) == [0]
    larger = 100 * (LARGER * 1.1) ** 0.5
    took = [t / 30 for t in range(1, 31)
            if clip(t / 30, (0, 0, 100, 100), (1, 1, 300, larger)) == [1]]  # fmt: skip
    assert took[0] == pytest.approx(1 / 30 + float(FOR_LONG), abs=1e-6)
    assert len(took) == 15
    # and then keeps the role in turn
    assert clip(2, (0, 0, 100, 100), (1, 1, 300, 95)) == [1]


def test_one_who_is_larger_for_a_moment_does_not():
    clip = Clip()
    for i in range(60):
        size = 200 if i % 10 < 5 else 100
        assert clip(i / 30, (0, 0, 100, 110), (1, 1, 300, 100 if i == 0 else size)) == [0]


def test_nobody_stands_in_for_the_largest_while_that_one_is_covered():
    clip = Clip()
    clip(0, (0, 0, 100, 100), (1, 1, 300, 80))
    assert clip(0.1, (1, 1, 300, 80), waiting=[0]) == []
    assert clip.keepers == {0: 0}
    # gone for good, the other one is the largest, until the first is back
    assert clip(1.2, (1, 1, 300, 80)) == [1]
    assert clip(1.5, (1, 1, 300, 80), (2, 0, 100, 80)) == [2]


def test_one_who_comes_back_small_leaves_the_role_to_a_larger_successor():
    clip = Clip()
    clip(0, (0, 0, 100, 100))
    assert clip(1.2, (1, 1, 300, 150)) == [1]
    assert clip(1.5, (1, 1, 300, 150), (2, 0, 100, 100)) == [1]


def test_after_a_cut_the_largest_is_the_same_person():
    clip = Clip()
    clip(0, (0, 0, 100, 100), (1, 1, 300, 90))
    assert clip(1, (2, 1, 100, 110), (3, 0, 300, 100), fresh=True) == [3]
    # but a close-up of somebody else counts at once
    assert clip(2, (4, 1, 100, 200), (5, 0, 300, 100), fresh=True) == [4]


def test_numbers_stick_to_the_people_they_meant():
    clip = Clip([0, 2], order="left-right")
    assert clip(0, (0, 0, 100, 50), (1, 1, 200, 50), (2, 2, 300, 50)) == [0, 2]
    # they change places
    assert clip(0.5, (0, 0, 350, 50), (1, 1, 200, 50), (2, 2, 100, 50)) == [0, 2]
    # and leave and come back, as other tracks
    assert clip(2, (1, 1, 200, 50)) == []
    assert clip(3, (3, 2, 100, 50), (1, 1, 200, 50)) == [3]
    assert clip(4, (3, 2, 100, 50), (1, 1, 200, 50), (4, 0, 150, 50)) == [4, 3]


def test_a_number_waits_for_as_many_faces():
    clip = Clip([1], order="left-right")
    assert clip(0, (0, 0, 100, 50)) == []
    assert clip(1, (0, 0, 100, 50), (1, 1, 50, 50)) == [0]
    assert clip(2, (0, 0, 100, 50), (1, 1, 150, 50)) == [0]


def test_two_numbers_never_mean_one_person():
    clip = Clip([0, 1], order="left-right")
    assert clip(0, (0, 0, 100, 50)) == [0]
    # the first in the row of the second number is taken
    assert sorted(clip(1, (0, 0, 100, 50), (1, 1, 50, 50))) == [0, 1]


def test_everybody_plays():
    clip = Clip("all")
    assert sorted(clip(0, (0, 0, 100, 50), (1, 1, 200, 60))) == [0, 1]
    assert clip(0.1, (0, 0, 100, 50), waiting=[1]) == [0]
    assert clip.keepers == {1: 0}


def alike(number, cosine):
    """Return an embedding with this cosine to that of ``number``."""
    return cosine * axis(number) + (1 - cosine**2) ** 0.5 * axis(number + 1)


def test_a_person_to_replace_is_known_wherever_they_stand():
    clip = Clip(instead_of=3)
    assert clip(0, (0, alike(3, 0.9), 100, 50), (1, 1, 300, 90)) == [0]
    assert clip(0.5, (0, alike(3, 0.9), 300, 50), (1, 1, 100, 90)) == [0]
    assert clip(2, (1, 1, 100, 90)) == []
    assert clip(3, (1, 1, 100, 90), (2, alike(3, 0.8), 200, 50)) == [2]


def test_a_role_once_given_is_kept_a_little_beyond_the_limit():
    clip = Clip(instead_of=3)
    just, beyond, far = (alike(3, 1 - LIMIT + d) for d in (0.01, -0.03, -0.1))
    assert clip(0, (0, beyond, 100, 50)) == []
    assert clip(0.1, (1, just, 100, 50)) == [1]
    assert clip(0.2, (1, beyond, 100, 50)) == [1]
    assert clip(0.3, (1, far, 100, 50)) == []


def test_while_a_person_is_covered_nobody_who_resembles_stands_in():
    clip = Clip(instead_of=3)
    assert clip(0, (0, 3, 100, 50), (1, alike(3, 0.5), 300, 50)) == [0]
    assert clip(0.1, (1, alike(3, 0.5), 300, 50), waiting=[0]) == []
    assert clip.keepers == {0: 0}
    assert clip(1.5, (1, alike(3, 0.5), 300, 50)) == [1]


@pytest.mark.parametrize(("cosine", "same"), [(SAME + 0.05, False), (SAME + 0.15, True)])
def test_a_newcomer_must_be_clearly_alike_to_be_somebody_of_before(cosine, same):
    clip = Clip([0])
    assert clip(0, (0, 3, 100, 50)) == [0]
    assert clip(2, (1, alike(3, cosine), 100, 50)) == ([1] if same else [])


def test_a_newcomer_seen_badly_at_first_is_known_later():
    clip = Clip([0])
    assert clip(0, (0, 3, 100, 50)) == [0]
    assert clip(2, (1, alike(3, 0.2), 100, 50)) == []
    assert clip(2.2, (1, alike(3, 0.8), 100, 50)) == [1]


def test_no_faces_no_roles():
    for clip in (Clip(), Clip("all"), Clip([0]), Clip(instead_of=3)):
        assert clip(0) == []
        assert clip(1) == []
