"""From chosen faces to patches: what is laid over a frame, before it is laid.

Nothing here depends on another frame, but for what ``seen`` may know of it; so any thread may do
it, for any frame, in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Literal, get_args

import torch
from torch import Tensor

from mien.engines.graphed import Graphed
from mien.errors import InvalidOption
from mien.geometry import apply, compose, invert, paste, sample
from mien.pipeline.stopwatch import Stopwatch
from mien.stages.align import align
from mien.stages.calm import Seen, calmed
from mien.stages.color import match_color, through_table
from mien.stages.embed import Embedder, mix
from mien.stages.mask import face_mask
from mien.stages.occlude import Occlusion, shares
from mien.stages.poisson import poisson_blend
from mien.stages.swap import FaceSwap
from mien.types import Crops, Faces, Frame, Layers

Blend = Literal["alpha", "poisson"]

Look = Callable[[Faces, Crops], Tensor | Seen]
"""Says how far faces are seen in their crops, float32 (K, S, S) in [0, 1], or what an occlusion
network says of these very crops."""


@dataclass(frozen=True, slots=True, eq=False)
class Patches:
    """K faces made anew, each with its soft edge and its place in the frame."""

    pixels: Tensor
    """float32 (K, C, S, S): the frame's channels, in [0, 1]."""

    masks: Tensor
    """float32 (K, S, S) in [0, 1]: where the face is seen."""

    shapes: Tensor
    """float32 (K, S, S) in [0, 1]: where the face is, be there something before it or not."""

    matrices: Tensor
    """float32 (K, 2, 3) on the CPU: similarities, frame pixels to patch pixels."""

    areas: Tensor
    """float32 (K,) on the CPU: of the faces' boxes, in square pixels of the frame; the larger is
    nearer."""

    def __len__(self) -> int:
        return len(self.matrices)

    def __getitem__(self, rows: list[int]) -> Patches:
        """Return the patches of these numbers."""
        if len(rows) == 1:  # where they lie on a GPU, a list of numbers would have to go there
            row = slice(rows[0], rows[0] + 1)
            return Patches(
                self.pixels[row],
                self.masks[row],
                self.shapes[row],
                self.matrices[row],
                self.areas[row],
            )
        return Patches(
            self.pixels[rows],
            self.masks[rows],
            self.shapes[rows],
            self.matrices[rows],
            self.areas[rows],
        )

    @classmethod
    def joined(cls, parts: Sequence[Patches]) -> Patches:
        """Return all ``parts``, at least one, one after another."""
        return cls(
            torch.cat([part.pixels for part in parts]),
            torch.cat([part.masks for part in parts]),
            torch.cat([part.shapes for part in parts]),
            torch.cat([part.matrices for part in parts]),
            torch.cat([part.areas for part in parts]),
        )


class PatchMaker:
    """Swaps faces, and fits what comes out to its surroundings."""

    def __init__(
        self,
        embedder: Embedder,
        swap: FaceSwap,
        *,
        blend: Blend,
        color_match: bool,
        occlusion: Occlusion | None,
    ) -> None:
        """Without ``occlusion`` the swapped face lies over whatever is before the face."""
        if blend not in get_args(Blend):
            raise InvalidOption("blend", blend, get_args(Blend))
        self.embedder, self.swap = embedder, swap
        self.blend, self.color_match, self.occlusion = blend, color_match, occlusion
        self._graphs: dict[torch.device, Graphed] = {}
        self._lock = Lock()

    def __call__(
        self,
        frame: Frame,
        targets: Faces,
        wanted: Tensor,
        *,
        strength: float,
        own: Tensor | None,
        watch: Stopwatch,
        crops: Crops | None = None,
        seen: Look | None = None,
    ) -> tuple[Patches, list[int], tuple[str | None, ...]]:
        """Return patches, which of ``targets`` they show, and what is wrong with each target.

        ``targets`` are K faces of ``frame`` with a mesh, ``wanted`` (K, D) the embeddings that they
        receive, ``own`` (K, D) theirs, which are made here if they are needed and None; so are
        ``crops``, those of ``targets`` for the swap network. ``seen`` knows better how far faces
        are seen than this frame alone tells. Faces of which the network made nothing usable have no
        patch; the largest comes last.
        """
        with watch("align"):
            if crops is None:
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
        crops, swapped, targets = _rows(crops, good), _rows(swapped, good), targets[good]
        patches = self._fit(frame, crops, swapped.pixels, targets, watch, seen)
        return patches, good, reasons

    def _fit(
        self,
        frame: Frame,
        crops: Crops,
        patch: Tensor,
        targets: Faces,
        watch: Stopwatch,
        seen: Look | None,
    ) -> Patches:
        with watch("mask"):
            assert targets.mesh is not None  # the finder places it
            outline = apply(crops.matrices, targets.mesh[..., :2]).to(patch.device)
        share: Tensor | Seen | None = None
        if self.occlusion is not None:
            with watch("occlusion"):
                if seen is None:
                    share = seen_now(self.occlusion, frame, targets, crops)
                else:
                    share = seen(targets, crops)
        if graphable(patch) and self.color_match and isinstance(share, Seen):
            with watch("blend"):
                given = patch, crops.pixels, outline, share.now, share.before, share.there
                patch, mask, shape = self._fast(patch.device)(*given)
        else:
            with watch("mask"):
                mask = shape = face_mask(outline, crops.size)
            if share is not None:
                with watch("occlusion"):
                    mask = shape * shown(share, crops.size)
            with watch("blend"):
                if self.color_match:
                    patch = match_color(patch, crops.pixels, mask)
        with watch("blend"):
            if self.blend == "poisson":
                patch = poisson_blend(patch, crops.pixels, mask).clamp(0, 1)
            if frame.table is not None:
                patch = through_table(patch, frame.table.to(patch))
        return Patches(patch, mask, shape, crops.matrices, targets.areas)

    def _fast(self, device: torch.device) -> Graphed:
        """Return ``fitted`` on a GPU, where a hundred small steps are one graph."""
        with self._lock:
            if device not in self._graphs:
                self._graphs[device] = Graphed("the blend", fitted, device)
            return self._graphs[device]


def graphable(like: Tensor) -> bool:
    """Return whether a graph can hold what is done to ``like``."""
    return like.is_cuda


def fitted(
    made: Tensor, crops: Tensor, outline: Tensor, now: Tensor, before: Tensor, there: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return patches with the colours of their crops, both (K, 3, S, S), masks, and shapes.

    ``outline`` (K, N, 2) is the mesh in pixels of the crops; the rest is what Seen holds. See
    Patches for the last two, float32 (K, S, S).
    """
    size = crops.shape[-1]
    shape = face_mask(outline, size)
    mask = shape * shares(calmed(now, before, there), size)
    return match_color(made, crops, mask), mask, shape


def shown(found: Tensor | Seen, size: int) -> Tensor:
    """Return how far faces are seen in crops of ``size``, whichever a Look gave."""
    if isinstance(found, Seen):
        return shares(calmed(found.now, found.before, found.there), size)
    return found


def seen_now(occlusion: Occlusion, frame: Frame, faces: Faces, crops: Crops) -> Tensor:
    """Return how far ``faces`` are seen in their ``crops``, float32 (K, S, S) in [0, 1].

    Crops on another template than the network's are cut anew for it; see ``taken_to``.
    """
    alike = crops.template == occlusion.contract.template
    own = crops if alike else align(frame, faces, occlusion.contract)
    found = occlusion.probabilities(own)
    return taken_to(found, None if alike else own.matrices, crops.matrices, crops.size)


def taken_to(found: Tensor, own: Tensor | None, matrices: Tensor, size: int) -> Tensor:
    """Return how far faces are seen in crops of ``size``, float32 (K, size, size) in [0, 1].

    ``found`` (K, s, s) are an occlusion network's probabilities, in crops that frame pixels are
    taken to by ``own`` (K, 2, 3); None if these are the same crops, be it at another size. Those to
    which they are taken have ``matrices``. Beyond what the network looks at, faces count as seen.
    """
    if own is None:
        return shares(found, size)
    hidden = 1 - shares(found, found.shape[-1])
    back = compose(own, invert(matrices))
    parts = [
        sample(there[None, None], to, size, size, outside="zeros")[0]
        for there, to in zip(hidden, back, strict=True)
    ]
    return 1 - torch.cat(parts) if parts else found.new_ones(0, size, size)


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
    if rows == list(range(len(crops.pixels))):
        return crops
    return Crops(crops.pixels[rows], crops.matrices[rows], crops.template)
