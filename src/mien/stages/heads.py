"""Decoders of detectors' raw outputs: from maps of numbers to boxes, points and scores.

Each takes the network's outputs, its contract, and the height and width of the input, and returns
boxes (N, M, 4), points (N, M, 5, 2) and scores (N, M) in input pixels, M being all cells or priors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import product
from types import MappingProxyType

import torch
from torch import Tensor

from mien.models import DetectorContract

Decoded = tuple[Tensor, Tensor, Tensor]
Head = Callable[[Mapping[str, Tensor], DetectorContract, int, int], Decoded]


def yunet(
    outputs: Mapping[str, Tensor], contract: DetectorContract, height: int, width: int
) -> Decoded:
    """Decode YuNet (Wu, Peng, Yu: "YuNet: a tiny millisecond-level face detector", 2023).

    A score is the geometric mean of class and objectness; centres and points are offsets in
    cells, sizes are logarithms of cells.
    """
    boxes, points, scores = [], [], []
    for stride in contract.strides:
        cells = _cells(height // stride, width // stride).to(outputs[f"bbox_{stride}"].device)
        box, five = outputs[f"bbox_{stride}"], outputs[f"kps_{stride}"]
        centre = (cells + box[..., :2]) * stride
        half = box[..., 2:].exp() * (stride / 2)
        boxes.append(torch.cat([centre - half, centre + half], dim=-1))
        points.append((five.unflatten(-1, (5, 2)) + cells[:, None]) * stride)
        score = outputs[f"cls_{stride}"].clamp(0, 1) * outputs[f"obj_{stride}"].clamp(0, 1)
        scores.append(score[..., 0].sqrt())
    return torch.cat(boxes, dim=1), torch.cat(points, dim=1), torch.cat(scores, dim=1)


def retinaface(
    outputs: Mapping[str, Tensor], contract: DetectorContract, height: int, width: int
) -> Decoded:
    """Decode RetinaFace (Deng et al., 2020): offsets from prior boxes, as in SSD."""
    loc = outputs["loc"]
    priors = _priors(contract.strides, contract.anchors, height, width).to(loc.device)
    centre, side = priors[:, :2], priors[:, 2:]
    near, far = contract.variances
    middle = centre + loc[..., :2] * near * side
    half = side * (loc[..., 2:] * far).exp() / 2
    five = outputs["landmarks"].unflatten(-1, (5, 2))
    return (
        torch.cat([middle - half, middle + half], dim=-1),
        centre[:, None] + five * near * side[:, None],
        outputs["conf"][..., 1],
    )


HEADS: Mapping[str, Head] = MappingProxyType({"yunet": yunet, "retinaface": retinaface})
"""The decoders by the name that a contract's ``head`` uses."""


@lru_cache(maxsize=64)
def _cells(rows: int, columns: int) -> Tensor:
    """Return the (x, y) of every cell, row by row, float32 (rows * columns, 2)."""
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    return torch.stack([x, y], dim=-1).reshape(-1, 2).float()


@lru_cache(maxsize=16)
def _priors(
    strides: tuple[int, ...], anchors: tuple[tuple[float, ...], ...], height: int, width: int
) -> Tensor:
    """Return the prior boxes, float32 (M, 4): centre and sides in pixels."""
    maps = []
    for stride, sides in zip(strides, anchors, strict=True):
        cells = _cells(-(-height // stride), -(-width // stride))
        centres = (cells + 0.5) * stride
        each = [torch.cat([centres, torch.full_like(centres, side)], dim=1) for side in sides]
        maps.append(torch.stack(each, dim=1).reshape(-1, 4))
    return torch.cat(maps)


def tiles(height: int, width: int, side: int, overlap: int) -> list[tuple[int, int, int, int]]:
    """Return (top, left, bottom, right) of tiles of at most ``side`` that cover a picture."""
    return [
        (top, left, bottom, right)
        for (top, bottom), (left, right) in product(
            _pieces(height, side, overlap), _pieces(width, side, overlap)
        )
    ]


def _pieces(length: int, side: int, overlap: int) -> list[tuple[int, int]]:
    if length <= side:
        return [(0, length)]
    count = -(-(length - overlap) // (side - overlap))
    each = -(-(length + (count - 1) * overlap) // count)  # no larger than they need be
    starts = [round(i * (length - each) / (count - 1)) for i in range(count)]
    return [(start, start + each) for start in starts]
