"""One frame, from pixels to pixels: find, cast, align, swap, mask, blend."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from mien.choice import is_number
from mien.errors import InvalidOption, SpaceMismatch
from mien.geometry import apply, paste
from mien.pipeline.casting import Cast, in_order
from mien.pipeline.finder import FaceFinder
from mien.pipeline.stopwatch import Stopwatch
from mien.stages.align import align
from mien.stages.color import match_color, through_table
from mien.stages.embed import Embedder, distances, mix
from mien.stages.mask import face_mask
from mien.stages.occlude import Occlusion
from mien.stages.poisson import poisson_blend
from mien.stages.swap import FaceSwap
from mien.types import Crops, Faces, Fault, Frame, Layers, Swapped

Blend = Literal["alpha", "poisson"]


class Pipeline:
    """Swaps faces in frames. Holds no state between frames; may be used from many threads."""

    def __init__(
        self,
        finder: FaceFinder,
        embedder: Embedder,
        swap: FaceSwap,
        *,
        blend: Blend = "alpha",
        color_match: bool = True,
        occlusion: Occlusion | None = None,
    ) -> None:
        if blend not in get_args(Blend):
            raise InvalidOption("blend", blend, get_args(Blend))
        self.finder, self.embedder, self.swap = finder, embedder, swap
        self.blend, self.color_match = blend, color_match
        self.occlusion = occlusion

    def __call__(self, frame: Frame, cast: Cast, *, strength: float = 1.0) -> Swapped:
        """Swap the faces of ``frame`` as ``cast``, in place: its pixels change.

        ``strength`` moves the identity from the target's own (0) to the source's (1) along the
        sphere. A frame without a face of the cast comes back as it is, with nothing chosen; faces
        of which the network made nothing usable are in ``faults`` and stay as they are.
        """
        if not is_number(strength) or not 0 <= strength <= 1:
            raise InvalidOption("strength", strength, "0 to 1")
        self._check_spaces(cast)
        watch = Stopwatch()
        largest = cast.faces in (None, "largest") and not cast.by_person
        found = self.finder(frame.view, largest_only=largest, watch=watch)
        found = in_order(found, cast.order or "large-small")
        own = far = None
        if cast.by_person:
            with watch("embed"):
                own = self.embedder(align(frame, found, self.embedder.contract))
                far = distances(own, _replaced(cast).to(own))
        pairs = cast.choose(len(found), far, self.limit(cast))
        chosen, roles = [face for face, _ in pairs], [role for _, role in pairs]
        if not chosen:
            return Swapped(frame, found, distances=far, timings=watch.seconds)
        targets = found[chosen]
        with watch("align"):
            crops = align(frame, targets, self.swap.contract)
        wanted = torch.stack([cast.roles[role].identity.embedding for role in roles])
        wanted = wanted.to(frame.pixels.device)
        if strength < 1:
            with watch("embed"):
                if own is None:
                    own_now = self.embedder(align(frame, targets, self.embedder.contract))
                else:
                    own_now = own[chosen]
                wanted = mix(own_now, wanted, strength)
        with watch("swap"):
            swapped, reasons = self.swap(crops, wanted, self.embedder.space)
        good = [i for i, reason in enumerate(reasons) if reason is None]
        # the largest face is pasted last, on top of the smaller ones behind it
        good.sort(key=targets.areas.tolist().__getitem__)
        layers = self._lay(frame, _rows(crops, good), _rows(swapped, good), targets[good], watch)
        return Swapped(
            frame=frame,
            faces=found,
            chosen=tuple(chosen[i] for i in good),
            roles=tuple(roles[i] for i in good),
            faults=tuple(Fault(chosen[i], r) for i, r in enumerate(reasons) if r is not None),
            distances=far,
            layers=layers,
            timings=watch.seconds,
        )

    def limit(self, cast: Cast) -> float:
        """Return the greatest distance at which a face is that of a person ``cast`` replaces."""
        if cast.max_distance is not None:
            return cast.max_distance
        return self.embedder.contract.max_distance

    def _lay(
        self, frame: Frame, crops: Crops, swapped: Crops, targets: Faces, watch: Stopwatch
    ) -> Layers:
        """Lay the swapped crops over the frame, in the place of the crops."""
        patch = swapped.pixels
        with watch("mask"):
            assert targets.mesh is not None  # the finder places it
            mask = face_mask(apply(crops.matrices, targets.mesh[..., :2]), crops.size)
            if self.occlusion is not None:
                mask = self.occlusion(crops, mask)
        with watch("blend"):
            if self.color_match:
                patch = match_color(patch, crops.pixels, mask)
            if self.blend == "poisson":
                patch = poisson_blend(patch, crops.pixels, mask).clamp(0, 1)
            if frame.table is not None:
                patch = through_table(patch, frame.table.to(patch))
            opacity = mask[:, None]
            patches = torch.cat([patch * opacity, opacity], dim=1)
            return Layers(mask, crops.matrices, paste(frame.pixels, patches, crops.matrices))

    def _check_spaces(self, cast: Cast) -> None:
        for role in cast.roles:
            for person in (role.identity, role.instead_of):
                if person is not None and person.space != self.embedder.space:
                    raise SpaceMismatch(expected=self.embedder.space, found=person.space)


def _replaced(cast: Cast) -> Tensor:
    """Return the embeddings (R, D) of those whom the cast replaces."""
    return torch.stack([role.instead_of.embedding for role in cast.roles if role.instead_of])


def _rows(crops: Crops, rows: list[int]) -> Crops:
    return Crops(crops.pixels[rows], crops.matrices[rows], crops.template)
