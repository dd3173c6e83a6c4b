"""One frame, from pixels to pixels: find, align, swap, mask, blend."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from mien.errors import BadOutput, ConsentMissing, InvalidOption, SpaceMismatch
from mien.geometry import apply, paste
from mien.pipeline.finder import FaceFinder
from mien.pipeline.stopwatch import Stopwatch
from mien.stages.align import align
from mien.stages.color import match_color
from mien.stages.embed import Embedder, mix
from mien.stages.mask import face_mask
from mien.stages.poisson import poisson_blend
from mien.stages.swap import FaceSwap
from mien.types import Crops, Faces, Fault, Frame, Identity, Swapped

Blend = Literal["alpha", "poisson"]
Which = Literal["largest", "all"]


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
    ) -> None:
        if blend not in get_args(Blend):
            raise InvalidOption("blend", blend, get_args(Blend))
        self.finder, self.embedder, self.swap = finder, embedder, swap
        self.blend, self.color_match = blend, color_match

    def __call__(
        self, frame: Frame, identity: Identity, *, faces: Which = "largest", strength: float = 1.0
    ) -> Swapped:
        """Return ``frame`` with ``identity`` on its largest face or on all of them.

        ``strength`` moves the identity from the target's own (0) to the source's (1) along the
        sphere. A frame without a face comes back as it is, with nothing chosen. Raises BadOutput
        when no chosen face could be swapped; if only some could, the others are in ``faults``.
        """
        if faces not in get_args(Which):
            raise InvalidOption("faces", faces, get_args(Which))
        if not isinstance(strength, int | float) or not 0 <= strength <= 1:
            raise InvalidOption("strength", strength, "0 to 1")
        if not identity.consent:
            raise ConsentMissing("the identity")
        if identity.space != self.embedder.space:
            raise SpaceMismatch(expected=self.embedder.space, found=identity.space)
        watch = Stopwatch()
        found = self.finder(frame.pixels, largest_only=faces == "largest", watch=watch)
        chosen = tuple(range(len(found)))[: 1 if faces == "largest" else None]
        if not chosen:
            return Swapped(frame, found, (), (), watch.seconds)
        targets = found[list(chosen)]
        with watch("align"):
            crops = align(frame, targets, self.swap.contract)
        wanted = identity.embedding.to(frame.pixels.device).expand(len(targets), -1)
        if strength < 1:
            with watch("embed"):
                own = self.embedder(align(frame, targets, self.embedder.contract))
                wanted = mix(own, wanted, strength)
        with watch("swap"):
            swapped, reasons = self.swap(crops, wanted, identity.space)
        good = [i for i, reason in enumerate(reasons) if reason is None]
        if not good:
            engine = self.swap.engine
            raise BadOutput(
                model=engine.model, provider=engine.provider, reason=reasons[0] or "nothing"
            )
        good.reverse()  # the largest face is pasted last, on top of the smaller ones behind it
        pixels = self._lay(
            frame.pixels, _rows(crops, good), _rows(swapped, good), targets[good], watch
        )
        return Swapped(
            frame=Frame(pixels, frame.time),
            faces=found,
            chosen=tuple(chosen[i] for i in sorted(good)),
            faults=tuple(Fault(chosen[i], r) for i, r in enumerate(reasons) if r is not None),
            timings=watch.seconds,
        )

    def _lay(
        self, pixels: Tensor, crops: Crops, swapped: Crops, targets: Faces, watch: Stopwatch
    ) -> Tensor:
        """Return ``pixels`` with the swapped crops in the place of the crops."""
        patch = swapped.pixels
        with watch("mask"):
            assert targets.mesh is not None  # the finder places it
            mask = face_mask(apply(crops.matrices, targets.mesh[..., :2]), crops.size)
        with watch("blend"):
            if self.color_match:
                patch = match_color(patch, crops.pixels, mask)
            if self.blend == "poisson":
                patch = poisson_blend(patch, crops.pixels, mask).clamp(0, 1)
            opacity = mask[:, None]
            return paste(pixels, torch.cat([patch * opacity, opacity], dim=1), crops.matrices)


def _rows(crops: Crops, rows: list[int]) -> Crops:
    return Crops(crops.pixels[rows], crops.matrices[rows], crops.template)
