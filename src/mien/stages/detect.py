"""Detection: where there may be faces in a picture, at one scale."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from mien.engines import Engine, run_finite
from mien.geometry import intersection_over_union
from mien.models import DetectorContract
from mien.stages.heads import HEADS, tiles
from mien.types import Faces

TILE = 1536
"""Longest side that goes through the network in one piece; memory stays flat beyond it."""

SAME_FACE = 0.4
"""Boxes of which the lower overlaps by more than this intersection over union are one face."""


class Detector:
    """Runs a detection network over a picture, in tiles if it is large."""

    def __init__(self, engine: Engine, contract: DetectorContract) -> None:
        self.engine, self.contract = engine, contract
        self._head = HEADS[contract.head]

    def __call__(self, pixels: Tensor, *, side: int, min_score: float) -> Faces:
        """Return faces scoring at least ``min_score``, best first.

        ``pixels`` is uint8 (H, W, 3); it is searched as if its longer side had ``side`` pixels.
        Boxes and points are in pixels of the picture as given; they lie on the CPU, wherever that
        is.
        """
        height, width = pixels.shape[:2]
        scale = side / max(height, width)
        rows, columns = max(1, round(height * scale)), max(1, round(width * scale))
        planes = pixels.permute(2, 0, 1)[None]
        if (rows, columns) != (height, width):
            if not planes.is_cpu:
                planes = planes.float()
            planes = functional.interpolate(
                planes, (rows, columns), mode="bilinear", antialias=True
            )
            planes = planes.to(torch.uint8)
        # a face cut by a tile's edge lies whole in the next tile, or was found at a coarser scale
        overlap = 8 * self.contract.smallest
        found = [
            self._tile(planes[..., top:bottom, left:right], left, top, min_score)
            for top, left, bottom, right in tiles(rows, columns, TILE, overlap)
        ]
        boxes, points, scores = (torch.cat(part) for part in zip(*found, strict=True))
        ratio = torch.tensor([width / columns, height / rows])
        kept = suppress(boxes, scores, SAME_FACE)
        return Faces(
            boxes=boxes[kept] * ratio.repeat(2) - 0.5,
            points=points[kept] * ratio - 0.5,
            scores=scores[kept],
            ids=torch.full((len(kept),), -1, dtype=torch.int64),
        )

    def _tile(
        self, planes: Tensor, left: int, top: int, min_score: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        height, width = planes.shape[-2:]
        multiple = self.contract.multiple
        below, right = -height % multiple, -width % multiple
        values = self.contract.pixels.encode(functional.pad(planes, (0, right, 0, below)))
        outputs = run_finite(self.engine, {self.contract.input: values})
        boxes, points, scores = self._head(
            outputs, self.contract, height + below, width + right, min_score
        )
        corner = boxes.new_tensor([left, top])
        return boxes + corner.repeat(2), points + corner, scores


def suppress(
    boxes: Tensor,
    scores: Tensor,
    limit: float,
    overlap: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Tensor:
    """Return the indices of the boxes (K, 4) that survive greedy suppression, best first.

    A box goes when a better one overlaps it by more than ``limit``, in intersection over union
    unless another measure of ``overlap`` is given.
    """
    order = scores.argsort(descending=True, stable=True)
    shared = (overlap or intersection_over_union)(boxes[order], boxes[order])
    alive = torch.ones(len(order), dtype=torch.bool, device=boxes.device)
    for i in range(len(order)):
        if alive[i]:
            alive[i + 1 :] &= shared[i, i + 1 :] <= limit
    return order[alive]
