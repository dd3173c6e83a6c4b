"""From chosen faces to patches: what is laid over a frame, before it is laid.

Nothing here depends on another frame, so any thread may do it, for any frame, in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from mien.errors import InvalidOption
from mien.geometry import apply, paste
from mien.pipeline.stopwatch import Stopwatch
from mien.stages.align import align
from mien.stages.color import match_color, through_table
from mien.stages.embed import Embedder, mix
from mien.stages.mask import face_mask
from mien.stages.poisson import poisson_blend
from mien.stages.swap import FaceSwap
from mien.types import Crops, Faces, Frame, Layers

Blend = Literal["alpha", "poisson"]


@dataclass(frozen=True, slots=True, eq=False)
class Patches:
    """K faces made anew, each with its soft edge and its place in the frame."""

    pixels: Tensor
    """float32 (K, C, S, S): the frame's channels, in [0, 1]."""

    masks: Tensor
    """float32 (K, S, S) in [0, 1]: where the face is."""

    matrices: Tensor
    """float32 (K, 2, 3): similarities, frame pixels to patch pixels."""

    areas: Tensor
    """float32 (K,): of the faces' boxes, in square pixels of the frame; the larger is nearer."""

    def __len__(self) -> int:
        return len(self.matrices)

    def __getitem__(self, rows: list[int]) -> Patches:
        """Return the patches of these numbers."""
        return Patches(self.pixels[rows], self.masks[rows], self.matrices[rows], self.areas[rows])

    @classmethod
    def joined(cls, parts: Sequence[Patches]) -> Patches:
        """Return all ``parts``, at least one, one after another."""
        return cls(
            torch.cat([part.pixels for part in parts]),
            torch.cat([part.masks for part in parts]),
            torch.cat([part.matrices for part in parts]),
            torch.cat([part.areas for part in parts]),
        )


class PatchMaker:
    """Swaps faces, and fits what comes out to its surroundings."""

    def __init__(
        self, embedder: Embedder, swap: FaceSwap, *, blend: Blend, color_match: bool
    ) -> None:
        if blend not in get_args(Blend):
            raise InvalidOption("blend", blend, get_args(Blend))
        self.embedder, self.swap = embedder, swap
        self.blend, self.color_match = blend, color_match

    def __call__(
        self,
        frame: Frame,
        targets: Faces,
        wanted: Tensor,
        *,
        strength: float,
        own: Tensor | None,
        watch: Stopwatch,
    ) -> tuple[Patches, list[int], tuple[str | None, ...]]:
        """Return patches, which of ``targets`` they show, and what is wrong with each target.

        ``targets`` are K faces of ``frame`` with a mesh, ``wanted`` (K, D) the embeddings that they
        receive, ``own`` (K, D) theirs, which are made here if they are needed and None.  Faces of
        which the network made nothing usable have no patch; the largest comes last.
        """
        with watch("align"):
            crops = align(frame, targets, self.swap.contract)
        wanted = wanted.to(frame.pixels.device)
        if strength < 1:
            with watch("embed"):
                if own is None:
                    own = self.embedder(align(frame, targets, self.embedder.contract))
                wanted = mix(own.to(wanted), wanted, strength)
        with watch("swap"):
            swapped, reasons = self.swap(crops, wanted, self.embedder.space)
        good = [i for i, reason in enumerate(reasons) if reason is None]
        # the largest face is pasted last, on top of the smaller ones behind it
        good.sort(key=targets.areas.tolist().__getitem__)
        patches = self._fit(frame, _rows(crops, good), swapped.pixels[good], targets[good], watch)
        return patches, good, reasons

    def _fit(
        self, frame: Frame, crops: Crops, patch: Tensor, targets: Faces, watch: Stopwatch
    ) -> Patches:
        with watch("mask"):
            assert targets.mesh is not None  # the finder places it
            mask = face_mask(apply(crops.matrices, targets.mesh[..., :2]), crops.size)
        with watch("blend"):
            if self.color_match:
                patch = match_color(patch, crops.pixels, mask)
            if self.blend == "poisson":
                patch = poisson_blend(patch, crops.pixels, mask).clamp(0, 1)
            if frame.table is not None:
                patch = through_table(patch, frame.table.to(patch))
        return Patches(patch, mask, crops.matrices, targets.areas)


def lay(frame: Frame, patches: Patches, factors: Tensor | None, watch: Stopwatch) -> Layers:
    """Lay ``patches`` over ``frame``, in place, the last on top.

    ``factors`` (K,) in [0, 1] is by how much each patch covers what lies under it, where its mask
    is 1; None stands for all of it.
    """
    with watch("blend"):
        masks = patches.masks
        if factors is not None:
            masks = masks * factors.to(masks)[:, None, None]
        opacity = masks[:, None]
        planes = torch.cat([patches.pixels * opacity, opacity], dim=1)
        return Layers(masks, patches.matrices, paste(frame.pixels, planes, patches.matrices))


def _rows(crops: Crops, rows: list[int]) -> Crops:
    return Crops(crops.pixels[rows], crops.matrices[rows], crops.template)
