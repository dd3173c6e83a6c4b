"""One picture, from pixels to pixels: find, cast, make anew, lay over."""

from __future__ import annotations

import torch
from torch import Tensor

from mien.choice import is_number
from mien.errors import InvalidOption, SpaceMismatch
from mien.pipeline.casting import Cast, in_order
from mien.pipeline.finder import FaceFinder
from mien.pipeline.guarding import Guard
from mien.pipeline.inquiry import Inquiry
from mien.pipeline.patch import Blend, PatchMaker, lay
from mien.pipeline.stopwatch import Stopwatch
from mien.stages.align import align
from mien.stages.embed import Embedder, distances
from mien.stages.occlude import Occlusion
from mien.stages.swap import FaceSwap
from mien.types import Fault, Frame, Swapped


class Pipeline:
    """Swaps faces in frames. Holds no state between frames; may be used from many threads.

    ``guard`` refuses what must not be swapped; None is for those who measure.
    """

    def __init__(
        self,
        finder: FaceFinder,
        embedder: Embedder,
        swap: FaceSwap,
        *,
        blend: Blend = "alpha",
        color_match: bool = True,
        occlusion: Occlusion | None = None,
        guard: Guard | None = None,
    ) -> None:
        self.finder, self.embedder, self.swap, self.guard = finder, embedder, swap, guard
        self.make = PatchMaker(
            embedder, swap, blend=blend, color_match=color_match, occlusion=occlusion
        )

    def __call__(
        self,
        frame: Frame,
        cast: Cast,
        *,
        strength: float = 1.0,
        adult: bool = False,
        inquiry: Inquiry | None = None,
    ) -> Swapped:
        """Swap the faces of ``frame`` as ``cast``, in place: its pixels change.

        ``strength`` moves the identity from the target's own (0) to the source's (1) along the
        sphere. A frame without a face of the cast comes back as it is, with nothing chosen; faces
        of which the network made nothing usable are in ``faults`` and stay as they are. Raises
        Refused if a face must not be swapped; no pixel is changed then. ``adult`` says that a
        consent record states that the largest face is an adult's. ``inquiry`` is the guard's into
        the picture of which the frame is; without one, it is made here.
        """
        if inquiry is None and self.guard is not None:
            with Inquiry(self.guard, [frame], cast) as own_one:
                return self(frame, cast, strength=strength, adult=adult, inquiry=own_one)
        self.check(cast, strength)
        watch = Stopwatch()
        found = self.finder(frame.view, largest_only=largest_only(cast), watch=watch)
        found = in_order(found, cast.order or "large-small")
        own = far = None
        if cast.by_person:
            with watch("embed"):
                own = self.embedder(align(frame, found, self.embedder.contract))
                far = distances(own, replaced(cast).to(own))
        pairs = cast.choose(len(found), far, self.limit(cast))
        chosen, roles = [face for face, _ in pairs], [role for _, role in pairs]
        if not chosen:
            return Swapped(frame, found, distances=far, timings=watch.seconds)
        if inquiry is not None:
            with watch("guard"):
                known = None if own is None else own[chosen]
                stated = int(found.areas.argmax()) if adult else -1
                inquiry.faces(frame, found[chosen], known, [face == stated for face in chosen])
        patches, good, reasons = self.make(
            frame,
            found[chosen],
            wanted(cast, roles),
            strength=strength,
            own=None if own is None else own[chosen],
            watch=watch,
        )
        if inquiry is not None:
            with watch("guard"):
                inquiry.settle()
        return Swapped(
            frame=frame,
            faces=found,
            chosen=tuple(chosen[i] for i in good),
            roles=tuple(roles[i] for i in good),
            faults=tuple(Fault(chosen[i], r) for i, r in enumerate(reasons) if r is not None),
            distances=far,
            layers=lay(frame, patches, None, watch),
            timings=watch.seconds,
        )

    def limit(self, cast: Cast) -> float:
        """Return the greatest distance at which a face is that of a person ``cast`` replaces."""
        if cast.max_distance is not None:
            return cast.max_distance
        return self.embedder.contract.max_distance

    def check(self, cast: Cast, strength: float) -> None:
        """Raise InvalidOption or SpaceMismatch if this pipeline cannot play ``cast``."""
        if not is_number(strength) or not 0 <= strength <= 1:
            raise InvalidOption("strength", strength, "0 to 1")
        for role in cast.roles:
            for person in (role.identity, role.instead_of):
                if person is not None and person.space != self.embedder.space:
                    raise SpaceMismatch(expected=self.embedder.space, found=person.space)


def largest_only(cast: Cast) -> bool:
    """Return whether no face but the largest matters to ``cast``."""
    return cast.faces in (None, "largest") and not cast.by_person


def replaced(cast: Cast) -> Tensor:
    """Return the embeddings (R, D) of those whom the cast replaces."""
    return torch.stack([role.instead_of.embedding for role in cast.roles if role.instead_of])


def wanted(cast: Cast, roles: list[int]) -> Tensor:
    """Return the embeddings (K, D) that faces receive who play ``roles``."""
    return torch.stack([cast.roles[role].identity.embedding for role in roles])
