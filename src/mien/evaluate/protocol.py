"""The protocol: whose face is put on whom.

"cross": each source goes on several other people, among them, where groups are known, people of
the other sex and of other skin. "same": the neutral face of a person goes on their smiling one; the
result should be the target as it was.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Literal, NamedTuple

from mien.errors import InvalidOption
from mien.evaluate.people import Portrait

Protocol = Literal["cross", "same"]

EACH = 5
"""Targets of each source."""

MIX = ((False, False), (False, True), (True, False), (True, True), None)
"""Of each source's targets in turn: of the same sex? of the same skin tone? None is anybody."""


class Pair(NamedTuple):
    """Numbers of two portraits, and what may be known of the result."""

    source: int
    target: int
    result: Path | None = None
    """The picture that was made of them; None if it is still to be made."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What is to be evaluated."""

    protocol: Protocol
    pairs: tuple[Pair, ...]

    gallery: tuple[int, ...]
    """The portraits among which the source of a result is to be found: one of each person."""


def guess(people: Sequence[Portrait]) -> Protocol:
    """Return 'same' if most pictures belong to a person with both expressions, else 'cross'."""
    return "same" if 4 * len(_twins(people)) > len(people) else "cross"


def plan(
    people: Sequence[Portrait], protocol: Protocol, count: int, *, seed: int = 0, each: int = EACH
) -> Plan:
    """Return about ``count`` pairs; the same for the same people and ``seed``.

    Raises InvalidOption if there are too few people.
    """
    draw = random.Random(seed)
    if protocol == "same":
        twins = _twins(people)
        if not twins:
            raise InvalidOption("protocol", protocol, "pictures NAME_neutral and NAME_smiling")
        chosen = sorted(draw.sample(twins, min(count, len(twins))))
        return Plan(protocol, tuple(Pair(*pair) for pair in chosen), tuple(a for a, _ in twins))
    gallery = _one_each(people)
    if len(gallery) < 2:
        raise InvalidOption("people", len(gallery), "pictures of at least two people")
    each = min(each, len(gallery) - 1, count)
    sources = _spread(people, gallery, draw)[: max(1, count // each)]
    uses = dict.fromkeys(gallery, 0)
    pairs = [
        Pair(source, target)
        for source in sources
        for target in _targets(people, gallery, source, each, uses, draw)
    ]
    return Plan(protocol, tuple(pairs), tuple(gallery))


def listed(people: Sequence[Portrait], named: Sequence[tuple[str, str, Path | None]]) -> Plan:
    """Return the plan of pairs that are ``named``: source, target, and result if there is one.

    Raises InvalidOption for a name that is nobody's.
    """
    numbers = {portrait.name: i for i, portrait in enumerate(people)}
    numbers |= {portrait.path.name: i for i, portrait in enumerate(people)}
    for source, target, _ in named:
        for name in (source, target):
            if name not in numbers:
                raise InvalidOption("pairs", name, "names of pictures of people with a face")
    pairs = tuple(Pair(numbers[a], numbers[b], result) for a, b, result in named)
    same = all(people[pair.source].person == people[pair.target].person for pair in pairs)
    gallery = {people[i].person: i for i in _one_each(people)}
    # a source stands for its person, also where another picture of them comes first
    gallery |= {people[pair.source].person: pair.source for pair in pairs}
    return Plan("same" if same else "cross", pairs, tuple(gallery.values()))


def read_list(path: Path) -> list[tuple[str, str, Path | None]]:
    """Return the pairs in a CSV file with the columns source, target and, if made, result.

    Names are those of pictures, with or without suffix; results are relative to the file. Raises
    InvalidOption.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        return [
            (
                row["source"],
                row["target"],
                path.parent / row["result"] if row.get("result") else None,
            )
            for row in rows
        ]
    except (OSError, ValueError, KeyError, csv.Error) as error:
        allowed = f"a CSV file with the columns source and target ({error})"
        raise InvalidOption("pair-list", str(path), allowed) from None


def _twins(people: Sequence[Portrait]) -> list[tuple[int, int]]:
    """Return the numbers of the neutral and the smiling picture of each person with both."""
    neutral = {p.person: i for i, p in enumerate(people) if p.expression == "neutral"}
    smiling = {p.person: i for i, p in enumerate(people) if p.expression == "smiling"}
    return [(neutral[person], smiling[person]) for person in neutral if person in smiling]


def _one_each(people: Sequence[Portrait]) -> list[int]:
    """Return the number of the first picture of each person."""
    first: dict[str, int] = {}
    for i, portrait in enumerate(people):
        first.setdefault(portrait.person, i)
    return list(first.values())


def _spread(people: Sequence[Portrait], numbers: Sequence[int], draw: random.Random) -> list[int]:
    """Return ``numbers`` shuffled, and so that the groups of sex and skin take turns."""
    shuffled = draw.sample(list(numbers), len(numbers))
    groups: dict[tuple[str, str], list[int]] = {}
    for i in shuffled:
        groups.setdefault(_kind(people[i]), []).append(i)
    turns = zip_longest(*(groups[kind] for kind in sorted(groups)))
    return [i for turn in turns for i in turn if i is not None]


def _targets(
    people: Sequence[Portrait],
    numbers: Sequence[int],
    source: int,
    count: int,
    uses: dict[int, int],
    draw: random.Random,
) -> list[int]:
    """Return ``count`` people for the face of ``source``, as MIX wants them, the least used first.

    ``uses`` counts how often each was a target, and is brought up to date.
    """
    sex, tone = _kind(people[source])
    left = draw.sample([i for i in numbers if i != source], len(numbers) - 1)
    chosen = []
    for turn in range(count):
        wanted = MIX[turn % len(MIX)]
        fitting = [
            i
            for i in left
            if wanted is None
            or (
                (_kind(people[i])[0] == sex) == wanted[0]
                and (_kind(people[i])[1] == tone) == wanted[1]
            )
        ]
        target = min(fitting or left, key=uses.__getitem__)
        uses[target] += 1
        left.remove(target)
        chosen.append(target)
    return chosen


def _kind(portrait: Portrait) -> tuple[str, str]:
    return portrait.groups.get("sex", ""), portrait.groups.get("tone", "")
