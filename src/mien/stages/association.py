"""Association: which of the faces in a frame continues which track, by place and by likeness."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import exp, hypot, log, sqrt

import lap
import numpy as np
import torch
from torch import Tensor

from mien.geometry import intersection_over_smaller
from mien.stages.likeness import Likeness
from mien.types import Faces

GLIDE = 0.25
"""Seconds after which a lost face is no longer expected to move on."""

REACH, WANDER = 1.0, 2.0
"""How far from its place, by its size, a lost face may be found again; and how much farther for
each second for which it was lost."""

GROWTH = log(1.6)
"""Greatest change of a face's size between two frames, as a logarithm; twice that once lost."""

WORTH = 4.0
"""What it is worth, in the units of the cost, that a face is found again at all."""

STAY = 0.1
"""How much more alike, in cosine, somebody else must be than who a track was said to be."""


@dataclass(slots=True)
class Track:
    """One face over time: who it is, and where."""

    id: int
    person: Likeness
    face: Faces
    """One face, as last seen."""

    seen: Fraction
    """When it was last seen."""

    presence: float
    confirmed: Fraction
    """When a detector last found it."""

    velocity: tuple[float, float] = (0.0, 0.0)
    """Of its centre, pixels per second."""

    doubtful: bool = False
    """Whether it may be somebody else than its embedding says."""

    glimpse: Tensor | None = None
    """What the face looked like in the frame before; see ``Tracker.glance``."""

    def at(self, time: Fraction) -> Faces:
        """Return the face where it is expected at ``time``."""
        gap = float(time - self.seen)
        way = GLIDE * (1 - exp(-gap / GLIDE))
        shift = self.face.boxes.new_tensor(self.velocity) * way
        mesh = self.face.mesh
        if mesh is not None:
            mesh = torch.cat([mesh[..., :2] + shift, mesh[..., 2:]], dim=-1)
        return replace(
            self.face,
            boxes=self.face.boxes + shift.repeat(2),
            points=self.face.points + shift,
            mesh=mesh,
        )


def centre(face: Faces) -> tuple[float, float]:
    """Return the middle of one face's box."""
    left, top, right, bottom = face.boxes[0].tolist()
    return (left + right) / 2, (top + bottom) / 2


def _size(face: Faces) -> float:
    return sqrt(max(float(face.areas[0]), 1.0))


def overlap(one: Faces, other: Faces) -> float:
    """Return which share of the smaller of two faces' boxes lies in the other."""
    return float(intersection_over_smaller(one.boxes, other.boxes))


def apart(expected: Faces, found: Faces) -> tuple[float, float]:
    """Return how far apart two faces are by their size, and the logarithm of their sizes' ratio."""
    (x0, y0), (x1, y1) = centre(expected), centre(found)
    one, other = _size(expected), _size(found)
    way = hypot(x1 - x0, y1 - y0)
    return 2 * way / (one + other), abs(log(other / one))


def nearest(missing: list[Track], faces: Faces, time: Fraction) -> list[tuple[int, int]]:
    """Return pairs of a lost track and a face, as near as can be on the whole."""
    if not missing or not len(faces):
        return []
    cost = np.zeros((len(missing), len(faces)))
    for row, track in enumerate(missing):
        reach = REACH + WANDER * float(time - track.seen)
        for column in range(len(faces)):
            way, growth = apart(track.at(time), faces[column])
            if way <= reach and growth <= 2 * GROWTH:
                cost[row, column] = way / reach + growth - WORTH
    _, columns, _ = lap.lapjv(cost, extend_cost=True)
    return [(r, int(c)) for r, c in enumerate(columns) if c >= 0 and cost[r, c] < 0]


def most_alike(
    tracks: list[Track],
    embeddings: list[Tensor],
    people: list[tuple[int, Likeness]],
    same: float,
) -> list[tuple[int, Likeness] | None]:
    """Return for each track whose face it is among ``people``, alike on the whole."""
    if not tracks or not people:
        return [None] * len(tracks)
    known = torch.stack([person.mean for _, person in people])
    cosine = (torch.stack(embeddings) @ known.T).double().cpu().numpy()
    stays = np.array([[t.id == number for number, _ in people] for t in tracks])
    cost = np.where(cosine >= same, -cosine - STAY * stays, 0)
    _, columns, _ = lap.lapjv(cost, extend_cost=True)
    return [people[c] if c >= 0 and cost[r, c] < 0 else None for r, c in enumerate(columns)]
