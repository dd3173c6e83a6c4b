"""Tracks: which face of this frame is which of the frames before.

A face that is seen is followed by its mesh, which is looked for where the face is expected. One
that is lost is waited for: it comes back near the place where it is expected, or is known by its
embedding. Whenever place alone may err, after an occlusion, a crossing, or a change of the whole
frame, the track is doubtful until an embedding has settled who it is. All times are in seconds, so
that any rate of frames will do, also one that varies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import exp

import torch
from torch import Tensor

from mien.geometry import intersection_over_smaller
from mien.stages.association import (
    GROWTH,
    Box,
    Track,
    apart,
    boxes_of,
    centre,
    most_alike,
    nearest,
    overlap,
    shifted,
)
from mien.stages.glimpse import correlation
from mien.stages.likeness import Likeness
from mien.types import Faces

KEEP = 1.0
"""Seconds for which a lost face is waited for."""

INERTIA = 0.04
"""Seconds over which a velocity is averaged."""

GONE = 4.0
"""Presence logit below which there is no face where one was.

Of a portrait: 33; half covered 11 to 16, covered by 70 % -4 to 2."""

SURE = 20.0
"""Presence logit from which a face needs no detector to confirm it."""

JUMP = 0.6
"""How far from where it is expected, by its size, a face that is followed may be."""

SHARED = 0.4
"""Share of the smaller box from which two faces cannot both be where they seem to be."""

WEAKER = 0.75
"""Ratio of presences that makes a difference: the mesh may have slipped off the face."""

UNCONFIRMED = 0.5
"""Seconds after which a face that is not SURE, and which no detector finds, is lost."""


LOOKS_ALIKE = 0.8
"""Correlation of two glimpses below which they may be of two people.

Measured: of one person in two frames 0.86 (thrown about, frames missing) to 1.0; of two people -0.5
to 0.71."""

INSTANT = Fraction(1, 1_000_000)
"""Seconds that separate what is seen from what is not: shorter than any frame."""


class Tracker:
    """The tracks of one clip. Of one frame: ``expected``, ``accept``, ``match``, ``settle``."""

    def __init__(self) -> None:
        self.tracks: list[Track] = []
        self.time: Fraction | None = None
        self.before = Faces.none()
        """The faces that are ``expected``, as they were in the frame before."""

        self._next = 0

    def reset(self) -> None:
        """Forget all tracks: after a cut everybody is somebody new."""
        self.tracks = []

    @property
    def seen(self) -> list[Track]:
        """The tracks whose face is in the present frame."""
        return [track for track in self.tracks if track.seen == self.time]

    @property
    def lost(self) -> list[Track]:
        """The tracks whose face is waited for."""
        return [track for track in self.tracks if track.seen != self.time]

    @property
    def faces(self) -> Faces:
        """The faces in the present frame, with the ids of their tracks."""
        return Faces.joined([track.face for track in self.seen])

    def expected(self, time: Fraction) -> Faces:
        """Begin the frame of ``time``; return where those faces must be that were seen before."""
        followed = self.seen
        self.tracks = [t for t in self.tracks if float(time - t.seen) <= KEEP]
        followed = [track for track in followed if track in self.tracks]
        self.time, self.before = time, Faces.joined([track.face for track in followed])
        return shifted(self.before, [track.way(time) for track in followed])

    def accept(self, located: Faces, presence: Tensor) -> bool:
        """Take the faces that were ``expected`` as they were located; return whether all is well.

        ``presence`` (K,) are the logits that there is a face. A face that is gone, has jumped, or
        lies where a nearer one is, is lost from now on. All is well if none is lost, and none much
        less present than before.
        """
        assert self.time is not None
        claims: list[tuple[float, int, Track, Box]] = []
        by_id, weaker = {track.id: track for track in self.tracks}, False
        numbers, logits, boxes = located.ids.tolist(), presence.tolist(), boxes_of(located)
        for row, (number, logit, box) in enumerate(zip(numbers, logits, boxes, strict=True)):
            way, growth = apart(by_id[number].place(self.time), box)
            if logit >= GONE and way <= JUMP and growth <= GROWTH:
                claims.append((way + growth, row, by_id[number], box))
        # the nearer one is where it was expected; the other one's mesh has slipped onto it
        moved: list[tuple[Track, Box]] = []
        for _, row, track, box in sorted(claims, key=lambda claim: claim[0]):
            over = [other for other, there in moved if overlap(there, box) > SHARED]
            for other in over:
                other.doubtful = True
            if not over:
                weaker |= logits[row] < min(SURE, WEAKER * track.presence)
                self._move(track, located[row], logits[row])
                moved.append((track, box))
        return len(self.seen) == len(located) and not weaker

    def match(self, found: Faces, presence: Callable[[Faces], Tensor]) -> None:
        """Take what a detector ``found`` in the present frame.

        Faces of tracks in sight are confirmed. Others are tracks that were lost, or new ones; of
        these ``presence`` is asked for the logits (K,) that there is a face.
        """
        assert self.time is not None
        seen, fresh = self.seen, list(range(len(found)))
        if seen and fresh:
            followed = torch.cat([track.face.boxes for track in seen])
            shared = intersection_over_smaller(followed, found.boxes)
            for row, track in enumerate(seen):
                best = int(shared[row].argmax())
                if float(shared[row, best]) > SHARED:
                    self._confirm(track, found[best], presence)
            fresh = [i for i in fresh if float(shared[:, i].max()) <= SHARED]
        for track in seen:
            if track.confirmed != self.time and track.presence < SURE:
                track.face = replace(track.face, scores=torch.zeros_like(track.face.scores))
                if float(self.time - track.confirmed) > UNCONFIRMED:
                    self.tracks.remove(track)
        if not fresh:
            return
        others, missing = found[fresh], self.lost
        logits = presence(others).tolist()
        columns = {c: r for r, c in nearest(missing, others, self.time)}
        waited_for = len(columns) < len(missing)
        for i, logit in enumerate(logits):
            if i in columns:
                track = missing[columns[i]]
                self._move(track, others[i], logit)
                track.confirmed, track.doubtful = self.time, True
            else:
                self._begin(others[i], logit, doubtful=waited_for)

    def glance(self, glimpses: Tensor) -> None:
        """Doubt those faces in sight that do not look as they did in the frame before.

        ``glimpses`` (K, S, S) are the faces in sight, aligned, gray, a few pixels large. This tells
        when somebody else has taken a place without a cut that was noticed.
        """
        for track, glimpse in zip(self.seen, glimpses, strict=True):
            before, track.glimpse = track.glimpse, glimpse
            if before is not None and correlation(before, glimpse) < LOOKS_ALIKE:
                track.doubtful = True

    def doubt(self) -> None:
        """Make all tracks doubtful: the whole frame has changed."""
        for track in self.tracks:
            track.doubtful = True

    def settle(
        self, tracks: list[Track], embeddings: Tensor, good: list[bool], same: float
    ) -> None:
        """Learn what faces look like, and who the doubtful ones are.

        ``embeddings`` (N, D) are those of the faces of ``tracks`` in the present frame, ``good``
        says which are of clear views. A doubtful track becomes whoever of the doubtful and the lost
        it resembles most, if by ``same`` or more in cosine; else somebody new. Tracks that resemble
        themselves by less are doubtful too. What is not seen clearly is not settled.
        """
        clear = [(t, e) for t, e, seen in zip(tracks, embeddings, good, strict=True) if seen]
        for track, embedding in clear:
            if track.person.good and float(track.person.mean @ embedding) < same:
                track.doubtful = True
        doubtful = [track for track, _ in clear if track.doubtful]
        views = [embedding for track, embedding in clear if track.doubtful]
        people = [(t.id, t.person) for t in (*doubtful, *self.lost) if t.person.good]
        taken = most_alike(doubtful, views, people, same)
        gone = {t.id: t for t in self.lost}
        homeless = {t.id: replace(t, doubtful=True) for t in doubtful if t.person.good}
        for track, person in zip(doubtful, taken, strict=True):
            if person is not None:
                if person[0] in gone:
                    self.tracks.remove(gone.pop(person[0]))
                homeless.pop(person[0], None)
                track.id, track.person = person
            elif track.person.good:
                track.id, track.person = self._number(), Likeness()
                track.velocity = (0.0, 0.0)  # it did not come from where the other was
            track.doubtful = False
        for other in homeless.values():  # somebody else is where they seemed to be: not seen
            other.seen -= INSTANT
            self.tracks.append(other)
        for track, embedding, seen in zip(tracks, embeddings, good, strict=True):
            track.person = track.person.with_one_more(embedding, good=seen)
            track.face = _named(track.face, track.id)

    def _confirm(self, track: Track, found: Faces, presence: Callable[[Faces], Tensor]) -> None:
        """Take what a detector says of a face in sight; also its mesh, if that is far better."""
        assert self.time is not None
        track.confirmed = self.time
        track.face = replace(track.face, scores=found.scores)
        if track.presence < SURE:
            logit = float(presence(found))
            if WEAKER * logit > track.presence:
                track.face = replace(found, ids=track.face.ids)
                track.presence, track.velocity = logit, (0.0, 0.0)

    def _number(self) -> int:
        self._next += 1
        return self._next - 1

    def _begin(self, face: Faces, presence: float, *, doubtful: bool) -> None:
        assert self.time is not None
        number = self._number()
        face = _named(face, number)
        self.tracks.append(
            Track(number, Likeness(), face, self.time, presence, self.time, doubtful=doubtful)
        )

    def _move(self, track: Track, face: Faces, presence: float) -> None:
        assert self.time is not None
        gap = float(self.time - track.seen)
        (before,), (now,) = boxes_of(track.face), boxes_of(face)
        ahead = [(b - a) / gap for a, b in zip(centre(before), centre(now), strict=True)]
        weight = 1 - exp(-gap / INERTIA)
        vx, vy = (
            old + weight * (new - old) for old, new in zip(track.velocity, ahead, strict=True)
        )
        track.velocity = (vx, vy)
        track.face = _named(face, track.id)
        track.seen, track.presence = self.time, presence


def _named(face: Faces, number: int) -> Faces:
    """Return one ``face`` with the id ``number``."""
    if face.ids.tolist() == [number]:
        return face
    return replace(face, ids=torch.full_like(face.ids, number))
