"""Casting: whose face goes where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import lap
import numpy as np
from torch import Tensor

from mien.choice import Order, Which, check_choice
from mien.errors import ConsentMissing, InvalidOption
from mien.types import Faces, Role

WORTH = 1e-6
"""What it is worth that a person is found at all, as a distance."""


@dataclass(frozen=True, slots=True, eq=False)
class Cast:
    """Who is put on which faces, for any number of pictures.

    Either there is one role, and ``faces`` says by their place which faces play it; or every role
    names whom it replaces, and faces are chosen by who they are. Raises InvalidOption,
    OptionsConflict, ConsentMissing.
    """

    roles: tuple[Role, ...]

    faces: Which | Sequence[int] | None = None
    """'largest' (the default), 'all', or numbers counted from 0 in ``order``.

    With people to replace: None gives each role to at most one face; 'all' to every face that
    resembles, as in a mirror."""

    order: Order | None = None
    """What the numbers in ``faces`` count; 'large-small' is the default."""

    max_distance: float | None = None
    """Greatest cosine distance, 0 to 2, at which a face is that of a person to replace.

    None leaves it to the embedder's contract."""

    def __post_init__(self) -> None:
        if not self.roles:
            raise InvalidOption("identity", None, "an identity, or a map")
        if any(not role.identity.consent for role in self.roles):
            raise ConsentMissing("the identity")
        if len(self.roles) > 1 and any(role.instead_of is None for role in self.roles):
            raise InvalidOption("map", "an identity alone", "whom each of several replaces")
        person: Literal["only", "map"] | None = None
        if self.by_person:
            person = "only" if len(self.roles) == 1 else "map"
        chosen = check_choice(self.faces, self.order, self.max_distance, person=person)
        object.__setattr__(self, "faces", chosen)

    @property
    def by_person(self) -> bool:
        """Whether faces are chosen by who they are."""
        return any(role.instead_of is not None for role in self.roles)

    def choose(self, count: int, distances: Tensor | None, limit: float) -> list[tuple[int, int]]:
        """Return pairs of a face and the role it plays, among ``count`` faces in ``order``.

        ``distances`` (count, R) are those of each face to who is replaced in each role, if faces
        are chosen ``by_person``; ``limit`` is the greatest at which they are the same person.
        """
        if distances is not None:
            return assign(distances, limit, repeat=self.faces == "all")
        if isinstance(self.faces, tuple):
            return [(face, 0) for face in self.faces if face < count]
        return [(face, 0) for face in range(count if self.faces == "all" else min(count, 1))]


def assign(distances: Tensor, limit: float, *, repeat: bool = False) -> list[tuple[int, int]]:
    """Return pairs of a face and a role such that the people fit best on the whole.

    ``distances`` is (K, R). Among all ways to give each role to at most one face and each face to
    at most one role, this has the greatest sum of ``limit`` - distance; pairs beyond ``limit`` are
    never made. With ``repeat`` a role may go to several faces. (Jonker and Volgenant, "A shortest
    augmenting path algorithm for dense and sparse linear assignment problems", 1987.)
    """
    if 0 in distances.shape:
        return []
    far = distances.double().cpu().numpy()
    if repeat:
        roles = far.argmin(axis=1)
    else:
        # a pair just at the limit is still worth a little more than none
        cost = np.where(far <= limit, far - limit - WORTH, 0)
        _, roles, _ = lap.lapjv(cost, extend_cost=True)
    return [
        (face, int(role))
        for face, role in enumerate(roles)
        if role >= 0 and far[face, role] <= limit
    ]


def in_order(faces: Faces, order: Order) -> Faces:
    """Return ``faces`` sorted; positions are those of the boxes' centres."""
    return faces[ranked(faces, order)]


def ranked(faces: Faces, order: Order) -> Tensor:
    """Return the numbers of ``faces``, int64 (K,), as ``in_order`` sorts them."""
    if order in ("large-small", "small-large"):
        key = faces.areas
    else:
        middle = (faces.boxes[:, :2] + faces.boxes[:, 2:]) / 2
        key = middle[:, 0 if order in ("left-right", "right-left") else 1]
    descending = order in ("large-small", "right-left", "bottom-top")
    return key.argsort(descending=descending, stable=True)
