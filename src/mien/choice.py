"""The options that say which faces are swapped: their values, and which contradict each other."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from operator import index
from typing import Literal, get_args

from mien.errors import InvalidOption, OptionsConflict

Which = Literal["largest", "all"]
Order = Literal[
    "large-small", "small-large", "left-right", "right-left", "top-bottom", "bottom-top"
]

PLACES = "largest, all, or different numbers from 0 up"


def check_choice(
    faces: Which | Sequence[int] | None,
    order: Order | None,
    max_distance: float | None,
    *,
    person: Literal["only", "map"] | None,
) -> Which | tuple[int, ...] | None:
    """Return ``faces``, numbers as a tuple, if the options are possible and go together.

    ``person`` is the option that chooses faces by who they are, if one is used. Raises
    InvalidOption, OptionsConflict.
    """
    if order is not None and order not in get_args(Order):
        raise InvalidOption("order", order, get_args(Order))
    if max_distance is not None and not (is_number(max_distance) and 0 <= max_distance <= 2):
        raise InvalidOption("max_distance", max_distance, "0 to 2")
    if not isinstance(faces, str | None):
        faces = _numbers(faces)
    elif faces not in (*get_args(Which), None):
        raise InvalidOption("faces", faces, PLACES)
    if person and faces not in (None, "all"):
        raise OptionsConflict("faces", person, "one goes by place, the other by person")
    if person and order is not None:
        raise OptionsConflict("order", person, "one goes by place, the other by person")
    if order is not None and not isinstance(faces, tuple):
        shown = faces or "largest"
        raise OptionsConflict("order", "faces", f"an order is for numbers, not for {shown!r}")
    if max_distance is not None and not person:
        raise OptionsConflict("max_distance", "faces", "a distance needs a person: only or map")
    return faces


def is_number(value: object) -> bool:
    """Return whether ``value`` is a number, of Python or of numpy; truth values are none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def _numbers(faces: Sequence[int]) -> tuple[int, ...]:
    try:
        whole = not any(isinstance(number, bool) for number in faces)
        numbers = tuple(index(number) for number in faces)
    except TypeError:
        raise InvalidOption("faces", faces, PLACES) from None
    if not whole or not numbers or min(numbers) < 0 or len(set(numbers)) < len(numbers):
        raise InvalidOption("faces", numbers, PLACES)
    return numbers
