"""The options that say which faces are swapped: what they take, and which contradict each other.

In Python; tests/cli/test_cli_casting.py has the same on the command line.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from conftest import CONSENT

from mien import Cast
from mien.choice import check_choice
from mien.errors import InvalidOption, MienError, OptionsConflict
from mien.types import Role

ORDERS = ["large-small", "small-large", "left-right", "right-left", "top-bottom", "bottom-top"]


def check(faces=None, order=None, max_distance=None, person=None):
    return check_choice(faces, order, max_distance, person=person)


@pytest.mark.parametrize("faces", [None, "largest", "all"])
def test_words_are_returned(faces):
    assert check(faces) == faces


@pytest.mark.parametrize("order", [None, *ORDERS])
def test_numbers_are_returned_as_a_tuple_in_every_order(order):
    for numbers in ([2, 0], (2, 0), range(2, -1, -2)):
        assert check(numbers, order) == (2, 0)


@pytest.mark.parametrize(
    "faces", ["", "most", "ALL", "0", (), [-1], [0, 0], [1.0], [True], ["0"], 3, 1.5, {}, [None]]
)
def test_faces_that_cannot_be_are_named(faces):
    with pytest.raises(InvalidOption, match="faces=") as caught:
        check(faces)
    assert "largest, all" in str(caught.value)


@pytest.mark.parametrize("order", ["", "left", "LEFT-RIGHT", 0, True, ["left-right"]])
def test_an_order_that_cannot_be_is_named(order):
    with pytest.raises(InvalidOption, match="order=") as caught:
        check([0], order)
    assert "left-right" in caught.value.allowed


@pytest.mark.parametrize("distance", [-0.1, 2.1, float("nan"), float("inf"), "0.5", True, [0.5]])
def test_a_distance_that_cannot_be_is_named(distance):
    with pytest.raises(InvalidOption, match=r"max_distance=.*0 to 2"):
        check(max_distance=distance, person="only")


@pytest.mark.parametrize("distance", [0, 0.5, 2])
@pytest.mark.parametrize("person", ["only", "map"])
@pytest.mark.parametrize("faces", [None, "all"])
def test_a_distance_goes_with_a_person(distance, person, faces):
    assert check(faces, None, distance, person) == faces


def test_numbers_of_numpy_are_numbers():
    for numbers in (np.array([2, 0]), [np.int32(2), np.uint8(0)]):
        assert check(numbers) == (2, 0)
    for distance in (np.float32(0.5), np.float64(0.5), np.int64(1)):
        assert check(None, None, distance, "only") is None


def contradicts(faces, order, distance, person):
    """Say which two options contradict each other, as the documentation does; or nothing."""
    if person and faces not in (None, "all"):
        return {"faces", person}
    if person and order:
        return {"order", person}
    if order and not isinstance(faces, tuple):
        return {"order", "faces"}
    return {"max_distance", "faces"} if distance is not None and not person else None


COMBINATIONS = list(
    product(
        [None, "largest", "all", (1,)], [None, "left-right"], [None, 0.5], [None, "only", "map"]
    )
)


@pytest.mark.parametrize(("faces", "order", "distance", "person"), COMBINATIONS)
def test_what_contradicts_is_refused_with_both_names(faces, order, distance, person):
    conflict = contradicts(faces, order, distance, person)
    if conflict is None:
        assert check(faces, order, distance, person) == faces
        return
    with pytest.raises(OptionsConflict) as caught:
        check(faces, order, distance, person)
    assert set(caught.value.options) == conflict
    assert all(repr(name) in str(caught.value) for name in conflict)


# In the public API, with pictures


@pytest.fixture(scope="module")
def dev(swapper, load):
    return swapper.identity(load("dev"), consent=CONSENT)


CONFLICTS = [
    ({"faces": "largest", "only": 1}, ("faces", "only")),
    ({"faces": [0], "only": 1}, ("faces", "only")),
    ({"faces": "largest", "map": 1}, ("faces", "map")),
    ({"faces": [0], "map": 1}, ("faces", "map")),
    ({"order": "left-right", "only": 1}, ("order", "only")),
    ({"order": "left-right", "map": 1}, ("order", "map")),
    ({"order": "left-right"}, ("order", "faces")),
    ({"order": "left-right", "faces": "all"}, ("order", "faces")),
    ({"order": "left-right", "faces": "largest"}, ("order", "faces")),
    ({"max_distance": 0.5}, ("max_distance", "faces")),
    ({"max_distance": 0.5, "faces": "all"}, ("max_distance", "faces")),
    ({"max_distance": 0.5, "faces": [0]}, ("max_distance", "faces")),
    ({"only": 1, "map": 1, "nobody": 1}, ("only", "map")),
    ({"map": 1, "somebody": 1}, ("identity", "map")),
]


@pytest.mark.parametrize(("options", "names"), CONFLICTS, ids=lambda value: str(value)[:40])
def test_a_swap_with_contradictory_options_is_refused(swapper, load, dev, options, names):
    options = dict(options)
    without = "map" in options and not options.pop("somebody", None)
    options.pop("nobody", None)
    if "only" in options:
        options["only"] = load("ben")
    if "map" in options:
        options["map"] = {dev: load("ben")}
    who = () if without else (dev,)
    before = load("ben")
    target = before.copy()
    for attempt in (swapper.cast, lambda *who, **o: swapper.swap(target, *who, **o)):
        with pytest.raises(OptionsConflict) as caught:
            attempt(*who, **options)
        assert set(caught.value.options) == set(names)
        assert isinstance(caught.value, MienError | ValueError)
    assert np.array_equal(target, before)


@pytest.mark.parametrize(
    "option",
    [{"faces": "all"}, {"order": "left-right"}, {"only": 1}, {"map": {}}, {"max_distance": 0.5}],
    ids=lambda option: next(iter(option)),
)
def test_a_cast_says_it_all(swapper, load, dev, option):
    with pytest.raises(OptionsConflict) as caught:
        swapper.swap(load("ben"), Cast((Role(dev),)), **option)
    assert caught.value.options == ("who", next(iter(option)))


def test_nobody_to_put_on_anybody_is_named(swapper, load, dev):
    for options in ({}, {"only": load("ben")}, {"faces": "all"}):
        with pytest.raises(InvalidOption, match="identity"):
            swapper.swap(load("ben"), **options)
    for nobody in ({}, [], {"ben.jpg": load("ben")}, [(None, load("ben"))]):
        with pytest.raises(InvalidOption, match="map"):
            swapper.swap(load("ben"), map=nobody)


@pytest.mark.parametrize("pairs", ["dev.jpg=ben.jpg", 3, ["dev"], [(1, 2, 3)]])
def test_a_map_of_another_shape_is_named(swapper, load, pairs):
    with pytest.raises(InvalidOption, match="map"):
        swapper.cast(map=pairs)


def test_nobody_is_replaced_by_two(swapper, load, dev):
    femi = swapper.identity(load("femi"), consent=CONSENT)
    for other in (load("ben"), swapper.reference(load("ben"))):
        with pytest.raises(InvalidOption, match="same person twice"):
            swapper.cast(map=[(dev, load("ben")), (femi, other)])
