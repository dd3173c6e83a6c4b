"""Record: frames go by, and what is worth telling of them stays."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from mien.types import Swapped
from mien.video.report import Box, FaceStretch, Stretch, TrackSummary

LONGEST = Fraction(10)
"""Seconds of a stretch at most, so that "where" says something."""


@dataclass(slots=True)
class _Face:
    """A face in the stretch that grows."""

    role: int | None
    first: Box
    last: Box
    around: Box
    scores: float = 0.0
    opacities: float = 0.0
    distances: list[float] = field(default_factory=lambda: [0.0, 0.0])
    """Their sum and number."""


@dataclass(slots=True)
class _Track:
    start: Fraction
    end: Fraction
    roles: set[int] = field(default_factory=set)
    frames: int = 0
    swapped: int = 0
    scores: float = 0.0


class Record:
    """Takes what was done to each frame of a clip, in order, and keeps an account of it.

    Times in the account count from ``origin``. Memory grows with what happens, not with frames.
    """

    def __init__(self, origin: Fraction) -> None:
        self.origin = origin
        self.frames = self.swapped = self.most = 0
        self.nearest: float | None = None
        self._stretches: list[Stretch] = []
        self._growing: dict[int, _Face] = {}
        self._span: tuple[Fraction, Fraction, int] | None = None
        self._tracks: dict[int, _Track] = {}

    def __call__(self, done: Swapped, time: Fraction) -> None:
        """Note what was done to the frame of ``time``."""
        time -= self.origin
        self.frames += 1
        self.swapped += bool(done.chosen)
        faces = done.faces
        numbers, scores = faces.ids.tolist(), faces.scores.tolist()
        self.most = max(self.most, sum(score > 0 for score in scores))
        roles: dict[int, int | None] = dict.fromkeys(numbers)
        opacities = dict.fromkeys(numbers, 0.0)
        for face, role, opacity in zip(done.chosen, done.roles, done.opacities, strict=True):
            roles[numbers[face]], opacities[numbers[face]] = role, opacity
        boxes = [tuple(round(v, 1) for v in box) for box in faces.boxes.tolist()]
        same = {n: face.role for n, face in self._growing.items()} == roles
        if self._span is None or not same or time - self._span[0] >= LONGEST:
            self._close()
            self._span = (time, time, 0)
            self._growing = {
                number: _Face(roles[number], box, box, box)
                for number, box in zip(numbers, boxes, strict=True)
            }
        self._span = (self._span[0], time, self._span[2] + 1)
        for row, number in enumerate(numbers):
            kept, box = self._growing[number], boxes[row]
            kept.last = box
            a, b = kept.around, box
            kept.around = (min(a[0], b[0]), min(a[1], b[1]), max(a[2], b[2]), max(a[3], b[3]))
            kept.scores += scores[row]
            kept.opacities += opacities[number]
            if done.distances is not None and scores[row] > 0:
                far = done.distances[row]
                least = float(far.min())
                self.nearest = least if self.nearest is None else min(self.nearest, least)
                kept.distances[0] += least if kept.role is None else float(far[kept.role])
                kept.distances[1] += 1
            self._note_track(number, time, roles[number], scores[row])

    @property
    def stretches(self) -> tuple[Stretch, ...]:
        """All stretches so far, in order."""
        self._close()
        return tuple(self._stretches)

    @property
    def tracks(self) -> tuple[TrackSummary, ...]:
        """All tracks so far, by id."""
        return tuple(
            TrackSummary(
                number,
                tuple(sorted(each.roles)),
                each.start,
                each.end,
                each.frames,
                each.swapped,
                each.scores / each.frames,
            )
            for number, each in sorted(self._tracks.items())
        )

    def _note_track(self, number: int, time: Fraction, role: int | None, score: float) -> None:
        track = self._tracks.setdefault(number, _Track(time, time))
        track.end = time
        track.frames += 1
        track.scores += score
        if role is not None:
            track.roles.add(role)
            track.swapped += 1

    def _close(self) -> None:
        if self._span is None:
            return
        start, end, frames = self._span
        faces = tuple(
            FaceStretch(
                track=number,
                role=face.role,
                score=face.scores / frames,
                distance=face.distances[0] / face.distances[1] if face.distances[1] else None,
                opacity=face.opacities / frames,
                first=face.first,
                last=face.last,
                around=face.around,
            )
            for number, face in self._growing.items()
        )
        self._stretches.append(Stretch(start, end, frames, faces))
        self._span, self._growing = None, {}
