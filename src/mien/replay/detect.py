"""Detection with a fixed number of guesses: one look at frames whose size is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from mien.errors import InvalidOption
from mien.geometry import intersection_over_union
from mien.geometry.spans import whole_table
from mien.kernels import fused, usable
from mien.models import DetectorContract
from mien.replay.codec import Codec
from mien.stages.detect import SAME_FACE

Network = Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]]
"""Takes float32 tensors by name, batch first, and returns all outputs by name."""

CANDIDATES = 64
"""Places with the best scores that are decoded; a face has a dozen."""

ROUNDS = 8
"""Longest chain of boxes, each of which would suppress the next, that is told right without
kernels."""


class Look(nn.Module):
    """Looks once over whole frames with a YuNet."""

    cells: Tensor
    strides: Tensor
    table: Tensor

    def __init__(
        self,
        network: Network,
        contract: DetectorContract,
        *,
        height: int,
        width: int,
        side: int,
        slots: int,
    ) -> None:
        """``side`` is what the longer side is resized to; ``slots`` faces of each are returned."""
        super().__init__()
        if contract.head != "yunet":
            raise InvalidOption("detector", contract.head, ["yunet"])
        self._network, self._contract, self._codec = network, contract, Codec(contract.pixels)
        scale = side / max(height, width)
        self._rows, self._columns = max(1, round(height * scale)), max(1, round(width * scale))
        self._below, self._right = (
            -self._rows % contract.multiple,
            -self._columns % contract.multiple,
        )
        self._ratio = (width / self._columns, height / self._rows)
        self._slots = slots
        cells, strides = [], []
        for stride in contract.strides:
            down = torch.arange((self._rows + self._below) // stride)
            across = torch.arange((self._columns + self._right) // stride)
            y, x = torch.meshgrid(down, across, indexing="ij")
            cells.append(torch.stack([x, y], dim=-1).reshape(-1, 2).float())
            strides.append(torch.full((len(cells[-1]),), float(stride)))
        self.register_buffer("cells", torch.cat(cells))
        self.register_buffer("strides", torch.cat(strides))
        self.register_buffer("table", whole_table((self._rows, self._columns), (height, width)))

    def forward(self, frames: Tensor) -> tuple[Tensor, Tensor]:
        """Return points (B, K, 5, 2) in frame pixels, and scores (B, K), a frame's best first.

        ``frames`` is uint8 (B, H, W, 3). Slots without a face have a score of 0.
        """
        return self.found(*self.resized(frames))

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of a frame as it is looked at."""
        return self._rows, self._columns

    def found(self, small: Tensor, peak: int) -> tuple[Tensor, Tensor]:
        """Return what is found in frames that are ``resized`` already."""
        seen = _seen(small, self._codec, peak, self._right, self._below)
        outputs = self._network({self._contract.input: seen})
        sure, there, box, five = (
            torch.cat([outputs[f"{name}_{stride}"] for stride in self._contract.strides], dim=1)
            for name in ("cls", "obj", "bbox", "kps")
        )
        if usable(box):
            from mien.kernels.suppress import best

            return best(
                *(sure, there, box, five, self.cells, self.strides),
                ratio=self._ratio,
                slots=self._slots,
                candidates=CANDIDATES,
                limit=SAME_FACE,
            )
        return _told(sure, there, box, five, self.cells, self.strides, self._ratio, self._slots)

    def resized(self, frames: Tensor) -> tuple[Tensor, int]:
        """Return frames as they are looked at, float32 (B, 3, rows, columns), and what white is."""
        if usable(frames):
            from mien.kernels.cut import cut

            table = self.table.expand(len(frames), -1)
            return cut(frames, table, self._rows, self._columns), 1
        planes, size = frames.permute(0, 3, 1, 2).float(), (self._rows, self._columns)
        return functional.interpolate(planes, size, mode="bilinear", antialias=True), 255


@fused
def _seen(small: Tensor, codec: Codec, peak: int, right: int, below: int) -> Tensor:
    """Return frames of whole codes as the network wants them, with black on two sides."""
    codes = (small if peak == 255 else small * (255 / peak)).round()
    return codec.encode(functional.pad(codes, (0, right, 0, below)) / 255)


def _told(
    sure: Tensor,
    there: Tensor,
    box: Tensor,
    five: Tensor,
    cells: Tensor,
    strides: Tensor,
    ratio: tuple[float, float],
    slots: int,
) -> tuple[Tensor, Tensor]:
    """Return points (B, K, 5, 2) in frame pixels and scores (B, K), the best first.

    The heads are (B, cells, channels) each, of all strides; see ``heads.yunet``.
    """
    both = sure.clamp(0, 1) * there.clamp(0, 1)
    scores, at = both[..., 0].sqrt().topk(min(CANDIDATES, both.shape[1]))
    cells, strides = cells[at], strides[at][..., None]
    box, five = _chosen(box, at), _chosen(five, at).unflatten(2, (5, 2))
    centre, half = (cells + box[..., :2]) * strides, box[..., 2:].exp() * (strides / 2)
    points = (five + cells[:, :, None]) * strides[:, :, None]
    boxes = torch.cat([centre - half, centre + half], dim=2)
    scores = torch.where(survivors(boxes, scores, SAME_FACE), scores, 0)
    scores, best = scores.topk(slots)
    across, down = _chosen(points.flatten(2), best).unflatten(2, (5, 2)).unbind(dim=-1)
    return torch.stack([across * ratio[0] - 0.5, down * ratio[1] - 0.5], dim=-1), scores


def _chosen(rows: Tensor, at: Tensor) -> Tensor:
    """Return the rows (B, N, C) of ``rows`` (B, M, C) that ``at`` (B, N) names."""
    return rows.gather(1, at[..., None].expand(-1, -1, rows.shape[2]))


def survivors(boxes: Tensor, scores: Tensor, limit: float) -> Tensor:
    """Return which of boxes (..., N, 4), best first, survive greedy suppression, bool (..., N).

    A box survives if no better one that survives overlaps it by more than ``limit``. Which do is
    found by asking again and again, as in Zheng et al., "Enhancing geometric factors in model
    learning and inference for object detection" (2020): it is settled after as many rounds as the
    longest chain has boxes.
    """
    over = (intersection_over_union(boxes, boxes) > limit).float().triu(diagonal=1)
    alive = torch.ones_like(scores)
    for _ in range(ROUNDS):
        alive = ((alive[..., None] * over).sum(dim=-2) == 0).to(alive)
    return alive > 0
