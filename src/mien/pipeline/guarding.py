"""Guarding: what must not be swapped is refused before a pixel is changed."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from threading import Lock

import torch
from torch import Tensor

from mien.errors import EmbedderUnfit, ProtectedPerson
from mien.pipeline.casting import Cast
from mien.safety.audit import AuditLog
from mien.safety.policy import Limits
from mien.safety.protected import SPACE, Gallery, Protected
from mien.stages.align import align
from mien.stages.embed import Embedder
from mien.stages.likeness import Likeness
from mien.types import Faces, Frame


class Guard:
    """Refuses casts and faces; what it refuses is in the audit log. For any number of threads.

    ``embedder`` must be that of the gallery as soon as there is anybody in it.
    """

    def __init__(
        self, embedder: Embedder, gallery: Gallery, audit: AuditLog, limits: Limits
    ) -> None:
        self.embedder, self.gallery, self.audit, self.limits = embedder, gallery, audit, limits
        self._known: tuple[tuple[Protected, ...], Tensor] | None = None
        self._lock = Lock()

    def cast(self, cast: Cast) -> None:
        """Refuse sources who are protected. Raises ProtectedPerson, and as ``protected`` does."""
        for role in cast.roles:
            what = "the source"
            self.protected(role.identity.embedding[None], what, [role.identity.consent])

    def picture(self, frame: Frame, faces: Faces, own: Tensor | None, cast: Cast) -> None:
        """Refuse ``faces`` of ``frame``, which are to be swapped, if one must not be.

        ``own`` are their embeddings (K, D), if they are known. Raises ProtectedPerson, and as
        ``protected`` does.
        """
        if not self.gallery.all() or not len(faces):
            return
        if own is None:
            own = self.embedder(align(frame, faces, self.embedder.contract))
        self.protected(own, where(frame.time), records(cast))

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
        self.guard, self._consents = guard, records(cast)
        self._compared: dict[int, tuple[Likeness, object]] = {}

    def __call__(
        self, time: Fraction, numbers: Sequence[int], likenesses: Sequence[Likeness]
    ) -> None:
        """Refuse faces that are to be swapped, by their ids, in the frame at ``time``.

        A likeness is compared as often as it changes: some times in a face's first second, and then
        once a second. Raises as Guard.protected.
        """
        people = self.guard.gallery.all()
        if not people:
            return
        new = [
            (number, likeness)
            for number, likeness in zip(numbers, likenesses, strict=True)
            if likeness.count and self._compared.get(number) != (likeness, people)
        ]
        if new:
            means = torch.stack([likeness.mean for _, likeness in new])
            self.guard.protected(means, where(time), self._consents)
            self._compared |= {number: (likeness, people) for number, likeness in new}


def records(cast: Cast) -> list[str]:
    """Return the ids of the consent records of a cast."""
    return list(dict.fromkeys(role.identity.consent for role in cast.roles))


def where(time: Fraction | None) -> str:
    """Return what a face is called in a message, by the time of its frame."""
    return "a face in the picture" if time is None else f"a face at {float(time):.2f} s"
