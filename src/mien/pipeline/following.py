"""Following: who plays which role through a clip, by who they are and not by where they stand.

A face that is followed is one track. A person may have many: one who leaves and comes back, or is
seen again after a cut, is known by their likeness, and plays what they played.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

from mien.pipeline.casting import Cast, assign, ranked
from mien.pipeline.frame import replaced
from mien.pipeline.watching import Sight
from mien.stages.embed import distances
from mien.stages.likeness import Likeness
from mien.types import Faces

LARGER = 1.5
"""By how many times the area of another face must exceed that of the 'largest' to take over."""

FOR_LONG = Fraction(1, 2)
"""Seconds for which it must do so."""

SETTLED = 0.05
"""By how much a face's distance may exceed the limit before a role, once given, is taken away."""

SURER = 0.1
"""How much more alike than one person's pictures must be, in cosine, a newcomer and somebody who
was there before must be: of many people one is always a little alike.

Measured with the embedder that ships, whose threshold is 0.36: likenesses of one person in clips
0.7 and more, of 9 people up to 0.33, of 102 people up to 0.53."""

VIEWS = 4
"""Embeddings of a newcomer that are compared with those who were there before."""

MOST_PEOPLE = 512
"""People who are remembered; of more, those not seen for longest are forgotten."""


@dataclass(slots=True, eq=False)
class Person:
    """Somebody in a clip."""

    likeness: Likeness
    seen: Fraction


@dataclass(frozen=True, slots=True, eq=False)
class Roles:
    """Who plays what in one frame."""

    faces: Faces
    """The faces of the sight in the cast's order."""

    rows: tuple[int, ...]
    """For each of ``faces`` its number in the sight."""

    pairs: tuple[tuple[int, int], ...]
    """Faces that play a role, and which."""

    distances: Tensor | None
    """float32 (K, R): distances of the faces' likenesses to who is replaced; None by place."""

    keepers: dict[int, int]
    """Lost tracks that play a role as soon as they are seen again, and which."""


class Follower:
    """Gives the roles of ``cast`` to the people of one clip; ``limit`` is as for Cast.choose.

    'largest' is the largest face of the first frame that has any, and remains it: another takes
    over only when its area is LARGER times as much for FOR_LONG, or when the first is gone. One who
    comes back takes the role back from a smaller successor, or one not LARGER. Numbers mean the
    faces that had them when as many were first seen together. People to replace are known by the
    likeness of their track, which grows better with time; a role once given is kept while the
    distance exceeds the limit by less than SETTLED.
    """

    def __init__(self, cast: Cast, limit: float, same_person: float) -> None:
        self.cast, self.limit, self.same_person = cast, limit, same_person
        self._people: list[Person] = []
        self._who: dict[int, Person] = {}
        self._new: dict[int, Likeness | None] = {}
        self._numbers: dict[int, Person] = {}
        self._leads: list[Person] = []
        self._lead: Person | None = None
        self._rising: tuple[Person, Fraction] | None = None
        self._given: dict[int, int] = {}

    def __call__(self, sight: Sight, time: Fraction) -> Roles:
        """Return who plays what in the next frame."""
        self._recognise(sight, time)
        rows = [0]
        if len(sight.faces) != 1:
            rows = ranked(sight.faces, self.cast.order or "large-small").tolist()
        faces = sight.faces[rows] if rows else sight.faces
        people = [self._who[number] for number in faces.ids.tolist()]
        waiting = {n: self._who[n] for n in sight.waiting.ids.tolist() if n in self._who}
        if self.cast.by_person:
            far = self._distances(people)
            keepers = {n: role for n, role in self._given.items() if n in waiting}
            pairs = self._by_person(faces, far, keepers)
            return Roles(faces, tuple(rows), tuple(pairs), far, keepers)
        if self.cast.faces == "all":
            chosen = [*people, *waiting.values()]
        elif isinstance(self.cast.faces, tuple):
            chosen = self._by_number(people)
        else:
            chosen = self._by_size(
                people,
                faces.areas.tolist(),
                list(waiting.values()),
                fresh=sight.fresh,
                time=time,
            )
        pairs = [(people.index(one), 0) for one in chosen if one in people]
        keepers = {number: 0 for number, one in waiting.items() if one in chosen}
        return Roles(faces, tuple(rows), tuple(pairs), None, keepers)

    def _recognise(self, sight: Sight, time: Fraction) -> None:
        """Find out which person each track is."""
        numbers = sight.faces.ids.tolist()
        kept = {*numbers, *sight.waiting.ids.tolist()}
        self._who = {number: one for number, one in self._who.items() if number in kept}
        self._new = {number: one for number, one in self._new.items() if number in kept}
        for number, likeness in zip(numbers, sight.likenesses, strict=True):
            if number not in self._who:
                self._people.append(Person(likeness, time))
                self._who[number] = self._people[-1]
                self._new[number] = None
            if number in self._new and likeness is not self._new[number]:
                self._compare(number, likeness)
            person = self._who[number]
            if _worth(likeness) >= _worth(person.likeness):
                person.likeness = likeness
            person.seen = time
        if len(self._people) > MOST_PEOPLE:
            self._people.sort(key=lambda one: one.seen)
            del self._people[:-MOST_PEOPLE]
            self._leads = [one for one in self._leads if one in self._people]

    def _compare(self, number: int, likeness: Likeness) -> None:
        """Make the track ``number`` that of somebody known who is not there, if it is alike.

        A first look from the side may not tell: it is tried until the likeness has enough views.
        """
        self._new[number] = likeness
        if likeness.good and likeness.count >= VIEWS:
            del self._new[number]
        here = list(self._who.values())
        absent = [one for one in self._people if one not in here and one.likeness.count]
        if not likeness.count or not absent:
            return
        cosine = torch.stack([one.likeness.mean for one in absent]) @ likeness.mean
        best = int(cosine.argmax())
        if float(cosine[best]) >= self.same_person + SURER:
            newcomer, person = self._who[number], absent[best]
            self._who[number] = person
            self._new.pop(number, None)
            # what the newcomer was given meanwhile goes back
            self._people.remove(newcomer)
            self._leads = [one for one in self._leads if one is not newcomer]
            self._numbers = {n: one for n, one in self._numbers.items() if one is not newcomer}

    def _by_number(self, people: list[Person]) -> list[Person]:
        """Return the people whom the cast's numbers mean; see the class."""
        numbers = self.cast.faces
        assert isinstance(numbers, tuple)
        for number in sorted(numbers):
            if number not in self._numbers and number < len(people):
                bound = list(self._numbers.values())
                free = [one for one in people[number:] + people[:number] if one not in bound]
                if free:
                    self._numbers[number] = free[0]
        return [self._numbers[number] for number in numbers if number in self._numbers]

    def _by_size(
        self,
        people: list[Person],
        areas: list[float],
        waiting: list[Person],
        *,
        fresh: bool,
        time: Fraction,
    ) -> list[Person]:
        """Return who is the largest, or nobody; see the class."""
        if not people and not waiting:
            return []
        lead = next((one for one in self._leads if one in people or one in waiting), None)
        if lead is not None and lead in waiting:
            return [lead]
        if not people:
            return []
        largest = people[max(range(len(people)), key=areas.__getitem__)]
        if lead is None:
            lead = largest
            self._leads.append(lead)
        elif max(areas) > LARGER * areas[people.index(lead)]:
            if self._rising is None or self._rising[0] is not largest:
                self._rising = (largest, time)
            if fresh or largest is self._lead or time - self._rising[1] >= FOR_LONG:
                self._leads = [one for one in self._leads if one is not largest]
                self._leads.insert(self._leads.index(lead), largest)
                lead = largest
        if lead is largest or max(areas) <= LARGER * areas[people.index(lead)]:
            self._rising = None
        self._lead = lead
        return [lead]

    def _distances(self, people: list[Person]) -> Tensor:
        wanted = replaced(self.cast)
        if not people:
            return wanted.new_zeros(0, len(wanted))
        means = torch.stack([one.likeness.mean for one in people])
        return distances(means, wanted.to(means))

    def _by_person(
        self, faces: Faces, far: Tensor, keepers: dict[int, int]
    ) -> list[tuple[int, int]]:
        """Return which faces are those of people to replace."""
        numbers = faces.ids.tolist()
        nearer = far.clone()
        for row, number in enumerate(numbers):
            if number in self._given:
                nearer[row, self._given[number]] -= SETTLED
        several = self.cast.faces == "all"
        if not several:  # whoever is waited for is not somebody else meanwhile
            nearer[:, list(keepers.values())] = float("inf")
        pairs = assign(nearer, self.limit, repeat=several)
        self._given = keepers | {numbers[face]: role for face, role in pairs}
        return pairs


def _worth(likeness: Likeness) -> tuple[bool, int]:
    """Return what puts likenesses of one person in order."""
    return likeness.good, likeness.count
