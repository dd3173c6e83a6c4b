"""Association: which of the faces in a frame continues which track, by place and by likeness."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import exp, hypot, log, sqrt

import lap
import numpy as np
import torch
from torch import Tensor

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

    def way(self, time: Fraction) -> tuple[float, float]:
        """Return how far the face is expected to have moved by ``time``, in pixels."""
        gap = float(time - self.seen)
        share = GLIDE * (1 - exp(-gap / GLIDE))
        return self.velocity[0] * share, self.velocity[1] * share

    def place(self, time: Fraction) -> Box:
        """Return the box in which the face is expected at ``time``."""
        dx, dy = self.way(time)
        ((left, top, right, bottom),) = boxes_of(self.face)
        return left + dx, top + dy, right + dx, bottom + dy

    def at(self, time: Fraction) -> Faces:
        """Return the face where it is expected at ``time``."""
        return shifted(self.face, [self.way(time)])


Box = tuple[float, float, float, float]
"""Left, top, right and bottom, as in Faces."""


def boxes_of(faces: Faces) -> list[Box]:
    """Return the faces' boxes."""
    return [(left, top, right, bottom) for left, top, right, bottom in faces.boxes.tolist()]


def shifted(faces: Faces, ways: list[tuple[float, float]]) -> Faces:
    """Return each of ``faces`` moved by its way (x, y) in pixels."""
    if not any(x or y for x, y in ways):
        return faces
    # one tensor serves what has two coordinates, three, and twice two
    by = faces.boxes.new_tensor([[x, y, x, y, 0.0] for x, y in ways])
    flat, solid = by[:, None, :2], by[:, None, 2:]
    return Faces(
        boxes=faces.boxes + by[:, :4],
        points=faces.points + flat,
        scores=faces.scores,
        ids=faces.ids,
        mesh=None if faces.mesh is None else faces.mesh + solid,
    )


def centre(place: Box) -> tuple[float, float]:
    """Return the middle of a box."""
    left, top, right, bottom = place
    return (left + right) / 2, (top + bottom) / 2


def _area(place: Box) -> float:
    left, top, right, bottom = place
    return max(0.0, right - left) * max(0.0, bottom - top)


def overlap(one: Box, other: Box) -> float:
    """Return which share of the smaller of two boxes lies in the other."""
    across = max(0.0, min(one[2], other[2]) - max(one[0], other[0]))
    down = max(0.0, min(one[3], other[3]) - max(one[1], other[1]))
    return across * down / max(min(_area(one), _area(other)), 1e-9)


def apart(expected: Box, found: Box) -> tuple[float, float]:
    """Return how far apart two faces are by their size, and the logarithm of their sizes' ratio."""
    (x0, y0), (x1, y1) = centre(expected), centre(found)
    one, other = (sqrt(max(_area(place), 1.0)) for place in (expected, found))
    way = hypot(x1 - x0, y1 - y0)
    return 2 * way / (one + other), abs(log(other / one))


def nearest(missing: list[Track], faces: Faces, time: Fraction) -> list[tuple[int, int]]:
    """Return pairs of a lost track and a face, as near as can be on the whole."""
    if not missing or not len(faces):
        return []
    cost = np.zeros((len(missing), len(faces)))
    boxes = boxes_of(faces)
    for row, track in enumerate(missing):
        reach, place = REACH + WANDER * float(time - track.seen), track.place(time)
        for column, found in enumerate(boxes):
            way, growth = apart(place, found)
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
