"""Guarding: what must not be swapped is refused before a pixel is changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction
from threading import Lock

import torch
from cachetools import LRUCache
from torch import Tensor

from mien.engines.onnx import usable_cores
from mien.errors import EmbedderUnfit, LooksYoung, ProtectedPerson, UnsuitableContent
from mien.pipeline.casting import Cast
from mien.safety.audit import AuditLog
from mien.safety.policy import Limits
from mien.safety.protected import SPACE, Gallery, Protected
from mien.stages.age import Ages
from mien.stages.align import align
from mien.stages.content import Content
from mien.stages.embed import Embedder
from mien.stages.likeness import Likeness
from mien.stages.track import SURE
from mien.stages.visible import yaws
from mien.types import Faces, Frame

LOOKS = 5
"""Clear views of a face in a clip by which its age is estimated: the mean of those so far counts.
"""

SAMPLE = Fraction(1)
"""Seconds of a clip of which one frame is looked at for its content."""

EVERY = Fraction(1, 5)
"""Seconds between them."""

REMEMBERED = 1024
"""Sources whose age need not be estimated again."""

TURNED = 35.0
"""Yaw in degrees beyond which an estimate says little."""


class Guard:
    """Refuses casts and faces; what it refuses is in the audit log. For any number of threads.

    ``embedder`` must be that of the gallery as soon as there is anybody in it. ``ages`` and
    ``content`` return networks that are loaded when they are first needed. ``aside`` are threads
    for them: none before there is work, and none that outlives the guard.
    """

    def __init__(
        self,
        embedder: Embedder,
        gallery: Gallery,
        audit: AuditLog,
        limits: Limits,
        *,
        ages: Callable[[], Ages],
        content: Callable[[], Content],
    ) -> None:
        self.embedder, self.gallery, self.audit, self.limits = embedder, gallery, audit, limits
        self.ages, self.content = ages, content
        self.aside = ThreadPoolExecutor(usable_cores(), "mien-guard")
        self._known: tuple[tuple[Protected, ...], Tensor] | None = None
        self._seen: LRUCache[str, float] = LRUCache(REMEMBERED)
        self._lock = Lock()

    def cast(self, cast: Cast) -> None:
        """Refuse sources who are protected. Raises ProtectedPerson, and as ``protected`` does."""
        for role in cast.roles:
            what = "the source"
            self.protected(role.identity.embedding[None], what, [role.identity.consent])

    def suitable(self, frame: Frame, cast: Cast) -> None:
        """Refuse to work on ``frame`` at all for its content, with a line in the log.

        Raises as ``look``.
        """
        with self.audit.refusals(records(cast)):
            self.look([frame])

    def look(self, frames: Sequence[Frame]) -> None:
        """Refuse ``frames`` for their content; the caller logs it.

        Raises UnsuitableContent, and WeightsMissing or WeightsCorrupt if the filter is not there:
        nothing goes unseen.
        """
        for frame in frames:
            score = self.content()(frame.view)
            if score >= self.limits.content:
                time = None if frame.time is None else float(frame.time)
                raise UnsuitableContent(score=score, limit=self.limits.content, time=time)

    def source(
        self, pictures: Mapping[str, Callable[[], tuple[Frame, Faces]]], *, adult: bool
    ) -> None:
        """Refuse a source of whom one picture, with one face, shows that they may be a minor.

        ``pictures`` are found by their digests, and only those not seen lately are asked for.
        ``adult`` says that a consent record states that they are an adult. Raises LooksYoung; the
        caller logs it.
        """
        for digest, shown in pictures.items():
            with self._lock:
                years = self._seen.get(digest)
            if years is None:
                years = self.years(*shown())[0]
                with self._lock:
                    self._seen[digest] = years
            self.old_enough([years], "the source", [adult])

    def years(self, frame: Frame, faces: Faces) -> list[float]:
        """Return how old ``faces`` look, in years."""
        ages = self.ages()
        found: list[float] = ages(align(frame, faces, ages.contract)).tolist()
        return found

    def forget(self) -> None:
        """Ask the networks anew, also of what they saw: for those who measure."""
        self.content().forget()
        self.ages().forget()

    def old_enough(self, years: Sequence[float], what: str, adults: Sequence[bool]) -> None:
        """Refuse faces that look so many ``years`` old; the caller logs it. Raises LooksYoung.

        ``adults`` says which are stated to be adults'.
        """
        limits = self.limits
        for each, adult in zip(years, adults, strict=True):
            if each < limits.minor:
                raise LooksYoung(what, years=each, limit=limits.minor, clearable=False)
            if each < limits.adult and not adult:
                raise LooksYoung(what, years=each, limit=limits.adult, clearable=True)

    def protected(self, embeddings: Tensor, what: str, consents: Sequence[str]) -> None:
        """Raise ProtectedPerson if one of ``embeddings`` (K, D) is of somebody in the gallery.

        Raises EmbedderUnfit if they cannot be compared, GalleryUnusable.
        """
        people = self.gallery.all()
        if not people:
            return
        with self.audit.refusals(consents):
            if self.embedder.space != SPACE:
                raise EmbedderUnfit(self.embedder.space, SPACE)
            cosine = embeddings.float().cpu() @ self._faces(people).T
            score = float(cosine.max())
            if score >= self.limits.protected:
                label = people[int(cosine.max(dim=0).values.argmax())].label
                raise ProtectedPerson(what, label=label, score=score, limit=self.limits.protected)

    def _faces(self, people: tuple[Protected, ...]) -> Tensor:
        """Return the embeddings (P, D) of the gallery."""
        with self._lock:
            if self._known is None or self._known[0] is not people:
                self._known = (people, torch.tensor([one.face for one in people]))
            return self._known[1]


class ClipGuard:
    """Refuses the faces of one clip, by what each looked like so far."""

    def __init__(self, guard: Guard, cast: Cast) -> None:
        self.guard, self.cast, self._consents = guard, cast, records(cast)
        self._sampled: Fraction | None = None
        self._compared: dict[int, tuple[Likeness, object]] = {}
        self._looks: dict[int, _Looks] = {}

    def __call__(
        self, frame: Frame, faces: Faces, presence: Tensor, likenesses: Sequence[Likeness]
    ) -> None:
        """Refuse ``faces`` of the next frame, which are to be swapped, if one must not be.

        They have ids; ``presence`` are their logits (K,). A likeness is compared with the gallery
        as often as it changes: some times in a face's first second, and then once a second. Ages
        are estimated LOOKS times in clear views; a view that is not clear counts only if it shows a
        minor beyond doubt. Raises ProtectedPerson, LooksYoung, and as Guard.protected.
        """
        numbers = faces.ids.tolist()
        people = self.guard.gallery.all()
        if people:
            new = [
                (number, likeness)
                for number, likeness in zip(numbers, likenesses, strict=True)
                if likeness.count and self._compared.get(number) != (likeness, people)
            ]
            if new:
                means = torch.stack([likeness.mean for _, likeness in new])
                self.guard.protected(means, where(frame.time), self._consents)
                self._compared |= {number: (likeness, people) for number, likeness in new}
        self._look(frame, faces, numbers, presence)

    def sample(self, frame: Frame) -> None:
        """Refuse the clip for the content of the next frame, of which one a second is looked at.

        Raises as Guard.suitable.
        """
        time, last = frame.time, self._sampled
        assert time is not None
        if last is None or not 0 <= time - last < SAMPLE:
            self._sampled = time
            self.guard.suitable(frame, self.cast)

    def _look(self, frame: Frame, faces: Faces, numbers: list[int], presence: Tensor) -> None:
        """Estimate the ages of faces about which there is something to learn."""
        time = frame.time
        assert time is not None
        looks = [self._looks.get(number, NEVER) for number in numbers]
        due = [row for row, one in enumerate(looks) if one.due(time)]
        clear = {row: _clear(faces[row], float(presence[row])) for row in due}
        rows = [row for row in due if clear[row] or not looks[row].clear]
        if not rows:
            return
        limits = self.guard.limits
        for row, years in zip(rows, self.guard.years(frame, faces[rows]), strict=True):
            seen = looks[row].with_one_more(years, time, clear=clear[row])
            self._looks[numbers[row]] = seen
            mean, limit = (
                (seen.total / seen.clear, limits.adult) if clear[row] else (years, limits.minor)
            )
            if mean < limit:
                with self.guard.audit.refusals(self._consents):
                    raise LooksYoung(where(time), years=mean, limit=limit, clearable=False)


@dataclass(frozen=True, slots=True)
class _Looks:
    """What was seen of a face's age."""

    clear: int = 0
    """Clear views that were looked at."""

    total: float = 0.0
    """Sum of their estimates, in years."""

    last: Fraction | None = None
    """When it was last looked at."""

    def due(self, time: Fraction) -> bool:
        """Return whether it is time to look again."""
        if self.last is None or time < self.last:
            return True
        return self.clear < LOOKS and time - self.last >= EVERY

    def with_one_more(self, years: float, time: Fraction, *, clear: bool) -> _Looks:
        """Return what is known with one more estimate, of a clear view or not."""
        if not clear:
            return replace(self, last=time)
        return _Looks(self.clear + 1, self.total + years, time)


NEVER = _Looks()


def _clear(face: Faces, presence: float) -> bool:
    """Return whether a face is seen so clearly that an estimate says something."""
    if presence < SURE or face.mesh is None:
        return False
    return abs(float(yaws(face.mesh)[0])) <= TURNED


def sampled(frames: Sequence[Frame]) -> list[Frame]:
    """Return the frames that are looked at for their content: of an animation one a second."""
    chosen: list[Frame] = []
    last: Fraction | None = None
    for frame in frames:
        if last is None or frame.time is None or frame.time - last >= SAMPLE:
            last = frame.time
            chosen.append(frame)
    return chosen


def records(cast: Cast) -> list[str]:
    """Return the ids of the consent records of a cast."""
    return list(dict.fromkeys(role.identity.consent for role in cast.roles))


def where(time: Fraction | None) -> str:
    """Return what a face is called in a message, by the time of its frame."""
    return "a face in the picture" if time is None else f"a face at {float(time):.2f} s"
