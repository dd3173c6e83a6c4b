"""Whose face goes where (T10): casts, orders, the best match on the whole, and who got what."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch
from conftest import StandIn, scene
from hypothesis import given, settings
from hypothesis import strategies as st

from mien import Cast, Catalogue, Faces, Identity
from mien.errors import ConsentMissing, InvalidOption
from mien.pipeline import Pipeline, assign, in_order
from mien.stages.embed import Embedder, unit
from mien.stages.swap import FaceSwap
from mien.types import Frame, Role


def person(number=0, consent="c-1"):
    generator = torch.Generator().manual_seed(number)
    return Identity(unit(torch.randn(128, generator=generator)), "sface", f"{number}", consent)


def cast(faces=None, order=None, max_distance=None):
    return Cast((Role(person()),), faces, order, max_distance)


def faces(*boxes):
    """Return faces with these boxes; their ids are their numbers."""
    return Faces(
        boxes=torch.tensor(boxes, dtype=torch.float32).reshape(-1, 4),
        points=torch.zeros(len(boxes), 5, 2),
        scores=torch.ones(len(boxes)),
        ids=torch.arange(len(boxes)),
    )


# Casts


def test_nobody_is_no_cast():
    with pytest.raises(InvalidOption, match="identity"):
        Cast(())


@pytest.mark.parametrize("role", [0, 1])
def test_every_face_that_is_put_on_somebody_has_consent(role):
    people = [person(0), person(1)]
    people[role] = person(role, consent="")
    with pytest.raises(ConsentMissing):
        Cast((Role(people[0], person(2, "")), Role(people[1], person(3, ""))))


def test_who_is_replaced_needs_no_consent():
    assert Cast((Role(person(), person(1, consent="")),)).by_person
    assert not cast().by_person


def test_several_roles_without_a_person_to_replace_are_no_cast():
    for roles in ((Role(person()), Role(person(1))), (Role(person()), Role(person(1), person(2)))):
        with pytest.raises(InvalidOption):
            Cast(roles)


@pytest.mark.parametrize(
    ("wanted", "count", "chosen"),
    [
        (None, 3, [0]),
        ("largest", 3, [0]),
        ("all", 3, [0, 1, 2]),
        ([2, 0], 3, [2, 0]),
        ((1, 3), 3, [1]),
        ((3,), 3, []),
        *((wanted, 0, []) for wanted in (None, "largest", "all", (0,))),
    ],
)
def test_faces_are_chosen_by_their_place(wanted, count, chosen):
    assert cast(wanted).choose(count, None, 0.5) == [(face, 0) for face in chosen]


def test_numbers_of_any_kind_of_sequence_are_kept_as_a_tuple():
    for numbers in ([2, 0], (2, 0), range(2, -1, -2)):
        assert cast(numbers).faces == (2, 0)


# Orders

#  0 is wide and at the bottom left, 1 is small and in the middle, 2 is large and at the top right
PLACES = faces((0, 80, 40, 100), (50, 45, 60, 55), (70, 0, 100, 30))


@pytest.mark.parametrize(
    ("order", "numbers"),
    [
        ("large-small", [2, 0, 1]),
        ("small-large", [1, 0, 2]),
        ("left-right", [0, 1, 2]),
        ("right-left", [2, 1, 0]),
        ("top-bottom", [2, 1, 0]),
        ("bottom-top", [0, 1, 2]),
    ],
)
def test_faces_are_put_in_order(order, numbers):
    assert in_order(PLACES, order).ids.tolist() == numbers
    assert len(in_order(faces(), order)) == 0


def test_positions_are_those_of_the_middle():
    # the first box begins further to the left and further up, and its middle is beyond the other's
    pair = faces((0, 0, 100, 100), (10, 10, 50, 50))
    assert in_order(pair, "left-right").ids.tolist() == [1, 0]
    assert in_order(pair, "top-bottom").ids.tolist() == [1, 0]


@pytest.mark.parametrize(
    "order",
    ["large-small", "small-large", "left-right", "right-left", "top-bottom", "bottom-top"],
)
def test_equals_keep_their_order(order):
    assert in_order(faces(*[(5, 5, 9, 9)] * 20), order).ids.tolist() == list(range(20))


# Who is who


def test_the_best_match_on_the_whole_is_not_the_greedy_one():
    # the nearest pair of all is face 0 with role 0; then face 1 would have to play role 1, too far
    far = torch.tensor([[0.10, 0.15], [0.20, 0.90]])
    assert assign(far, 0.6) == [(0, 1), (1, 0)]
    # and where both can be made, the sum decides
    assert assign(torch.tensor([[0.10, 0.20], [0.15, 0.58]]), 0.6) == [(0, 1), (1, 0)]
    assert assign(torch.tensor([[0.10, 0.50], [0.45, 0.58]]), 0.6) == [(0, 0), (1, 1)]


def test_nobody_is_taken_for_somebody_beyond_the_limit():
    far = torch.tensor([[0.61, 0.9], [0.7, 0.59]])
    assert assign(far, 0.6) == [(1, 1)]
    assert assign(far, 0.5) == []
    assert assign(far, 0.6, repeat=True) == [(1, 1)]


def test_a_role_goes_to_one_face_unless_it_may_repeat():
    far = torch.tensor([[0.30, 0.9], [0.20, 0.9], [0.9, 0.9], [0.5, 0.45]])
    assert assign(far, 0.6) == [(1, 0), (3, 1)]
    assert assign(far, 0.6, repeat=True) == [(0, 0), (1, 0), (3, 1)]


@pytest.mark.parametrize("shape", [(0, 0), (0, 2), (3, 0)])
@pytest.mark.parametrize("repeat", [False, True])
def test_without_faces_or_roles_nobody_is_matched(shape, repeat):
    assert assign(torch.zeros(shape), 1.0, repeat=repeat) == []


def test_equal_pictures_match_at_distance_zero():
    assert assign(torch.tensor([[0.0, 0.9], [0.9, 0.0]]), 0.0) == [(0, 0), (1, 1)]
    assert assign(torch.tensor([[0.9, 0.0], [0.0, 0.9]]), 0.0) == [(0, 1), (1, 0)]


def gain(pairs, far, limit):
    return sum(limit - float(far[face, role]) for face, role in pairs)


def best(far, limit):
    """Return the greatest gain of all ways to give roles to faces, by trying them all."""
    count, roles = far.shape
    ways = permutations([*range(count), *[None] * roles], roles)
    matches = ([(f, r) for r, f in enumerate(way) if f is not None] for way in ways)
    return max(gain([p for p in pairs if far[p] <= limit], far, limit) for pairs in matches)


distance_tables = st.integers(1, 4).flatmap(
    lambda count: st.integers(1, 3).flatmap(
        lambda roles: st.lists(
            st.lists(st.integers(0, 20), min_size=roles, max_size=roles),
            min_size=count,
            max_size=count,
        )
    )
)


@settings(deadline=None, max_examples=200)
@given(table=distance_tables, limit=st.integers(0, 20))
def test_no_other_way_fits_better(table, limit):
    far, limit = torch.tensor(table, dtype=torch.float32) / 10, limit / 10
    pairs = assign(far, limit)
    seen, played = [face for face, _ in pairs], [role for _, role in pairs]
    assert len(set(seen)) == len(seen)
    assert len(set(played)) == len(played)
    assert seen == sorted(seen)
    assert all(float(far[pair]) <= limit + 1e-6 for pair in pairs)
    assert gain(pairs, far, limit) == pytest.approx(best(far, limit), abs=1e-5)


@settings(deadline=None, max_examples=100)
@given(table=distance_tables, limit=st.integers(0, 20))
def test_with_repeats_every_face_near_enough_gets_its_nearest(table, limit):
    far, limit = torch.tensor(table, dtype=torch.float32) / 10, limit / 10
    pairs = dict(assign(far, limit, repeat=True))
    for face, row in enumerate(far.double().tolist()):
        assert (face in pairs) == (min(row) <= limit)
        if face in pairs:
            assert row[pairs[face]] == min(row)


# Who got what


@pytest.fixture(scope="module")
def three(load):
    """Three faces of one size in a row, from left to right: ben, ada, mei."""
    return scene([load(name) for name in ("ben", "ada", "mei")], 300, 3)


WHO = ("ben", "ada", "mei")


@pytest.fixture(scope="module")
def embedder():
    """The embedder that ships."""
    from mien.loader import Loader
    from mien.models import EmbedderContract

    loader = Loader(Catalogue(), "cpu", allow_fallback=False, threads=None)
    return Embedder(*loader.load("sface", EmbedderContract))


@pytest.fixture(scope="module")
def known(swapper, load):
    """Those in the frame, to be recognised."""
    return {name: swapper.reference(load(name)) for name in WHO}


@pytest.fixture(scope="module")
def painted(find, embedder):
    """A pipeline that paints each face in two colours that tell whose face was put on it."""

    def paint(inputs):
        colors = inputs["source"][:, :3].sign() * 0.9
        painted = colors[:, :, None, None].expand_as(inputs["target"]).clone()
        painted[:, :, ::2] *= 0.9  # a network that returns one flat colour is not believed
        return {"output": painted}

    swap = FaceSwap(StandIn(paint), Catalogue().card("mien-256").contract)
    return Pipeline(find, embedder, swap, color_match=False)


def source(red, green, blue):
    """Return an identity that is painted in this colour: each is -1 or 1."""
    embedding = torch.zeros(128)
    embedding[:3] = torch.tensor([red, green, blue], dtype=torch.float32)
    return Identity(unit(embedding), "sface", f"{red}{green}{blue}", "c-1")


REDDISH, GREENISH, BLUISH = source(1, -1, -1), source(-1, 1, -1), source(-1, -1, 1)


def wearing(done, before):
    """Return for each tile of the frame what colour is now on it; None where no bit changed."""
    worn = []
    for left in range(0, done.shape[1], 300):
        now, then = done[:, left : left + 300], before[:, left : left + 300]
        changed = (now != then).any(dim=-1)
        if not changed.any():
            worn.append(None)
            continue
        color = now[changed].float().median(dim=0).values
        worn.append(tuple(1 if value > 127 else -1 for value in color.tolist()))
    return worn


R, G, B = (1, -1, -1), (-1, 1, -1), (-1, -1, 1)


@pytest.mark.parametrize(
    ("roles", "worn"),
    [
        ({"ben": REDDISH, "ada": GREENISH}, [R, G, None]),
        ({"ada": REDDISH, "ben": GREENISH}, [G, R, None]),
        ({"mei": REDDISH, "ben": GREENISH}, [G, None, R]),
        ({"ada": REDDISH, "mei": GREENISH, "ben": BLUISH}, [B, R, G]),
        ({"mei": REDDISH}, [None, None, R]),
    ],
    ids=["ben ada", "ada ben", "mei ben", "ada mei ben", "only mei"],
)
def test_each_gets_exactly_its_source(painted, known, three, roles, worn):
    frame = Frame(three.clone())
    people = Cast(tuple(Role(who, known[name]) for name, who in roles.items()))
    done = painted(frame, people)
    assert wearing(frame.pixels, three) == worn
    # the account agrees with the pixels
    places = {face: int(done.faces.boxes[face, 0] // 300) for face in range(3)}
    wanted = {
        (WHO.index(name), role) for role, name in enumerate(roles)
    }  # which tile plays which role
    assert {
        (places[face], role) for face, role in zip(done.chosen, done.roles, strict=True)
    } == wanted
    assert done.distances.shape == (3, len(roles))
    for face, role in zip(done.chosen, done.roles, strict=True):
        assert float(done.distances[face, role]) < 0.3


@pytest.mark.parametrize("repeat", [False, True])
def test_a_person_seen_twice(painted, known, load, repeat):
    twins = scene([load("ben"), load("ada"), load("ben")], 300, 3)
    frame = Frame(twins.clone())
    people = Cast((Role(REDDISH, known["ben"]),), "all" if repeat else None)
    done = painted(frame, people)
    worn = wearing(frame.pixels, twins)
    assert worn[1] is None
    assert sorted(worn[::2], key=str) == ([R, R] if repeat else [R, None])
    assert len(done.chosen) == (2 if repeat else 1)


def test_a_looser_limit_takes_in_those_who_look_alike(painted, known, three, load, swapper):
    dev = swapper.reference(load("dev"))  # who is not in the picture; ben is the nearest

    def swapped(limit):
        frame = Frame(three.clone())
        return painted(frame, Cast((Role(REDDISH, dev),), max_distance=limit)), frame

    done, frame = swapped(None)
    assert done.chosen == ()
    assert torch.equal(frame.pixels, three)
    nearest = float(done.distances.min())
    assert nearest > 0.637  # the limit of the embedder's card
    for limit, worn in ((nearest + 1e-3, [R, None, None]), (nearest - 1e-3, [None] * 3)):
        assert wearing(swapped(limit)[1].pixels, three) == worn


@pytest.mark.parametrize(
    ("order", "numbers", "worn"),
    [
        ("left-right", [0], [R, None, None]),
        ("left-right", [2, 1], [None, R, R]),
        ("right-left", [0, 2], [R, None, R]),
        ("right-left", [1], [None, R, None]),
    ],
)
def test_numbers_count_in_the_order_that_is_asked_for(painted, three, order, numbers, worn):
    frame = Frame(three.clone())
    done = painted(frame, Cast((Role(REDDISH),), numbers, order))
    assert wearing(frame.pixels, three) == worn
    assert sorted(done.chosen) == sorted(numbers)
    lefts = done.faces.boxes[:, 0].tolist()
    assert lefts == sorted(lefts, reverse=order == "right-left")


def test_numbers_that_the_picture_does_not_have_are_left_out(painted, three):
    frame = Frame(three.clone())
    assert painted(frame, Cast((Role(REDDISH),), (7, 1), "left-right")).chosen == (1,)
    assert wearing(frame.pixels, three) == [None, R, None]


def test_the_largest_face_lies_on_top(painted, three):
    frame = Frame(three.clone())
    done = painted(frame, Cast((Role(REDDISH),), "all", None))
    assert done.faces.areas[list(done.chosen)].tolist() == sorted(done.faces.areas.tolist())
