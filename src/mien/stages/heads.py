"""Decoders of detectors' raw outputs: from maps of numbers to boxes, points and scores.

Each takes the network's outputs for one picture, its contract, the height and width of the input,
and the least score of interest; it returns boxes (K, 4), points (K, 5, 2) and scores (K,) in input
pixels. Only the places that score enough are decoded: one in ten thousand of a large picture.
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
Head = Callable[[Mapping[str, Tensor], DetectorContract, int, int, float], Decoded]


def yunet(
    outputs: Mapping[str, Tensor],
    contract: DetectorContract,
    height: int,
    width: int,
    min_score: float,
) -> Decoded:
    """Decode YuNet (Wu, Peng, Yu: "YuNet: a tiny millisecond-level face detector", 2023).

    A score is the geometric mean of class and objectness; centres and points are offsets in
    cells, sizes are logarithms of cells.
    """
    del height
    boxes, points, scores = [], [], []
    for stride in contract.strides:
        product = outputs[f"cls_{stride}"].clamp(0, 1) * outputs[f"obj_{stride}"].clamp(0, 1)
        score = product[0, :, 0].sqrt()
        rows = (score >= min_score).nonzero()[:, 0]
        cells = torch.stack([rows % (width // stride), rows // (width // stride)], dim=1)
        box, five = outputs[f"bbox_{stride}"][0, rows], outputs[f"kps_{stride}"][0, rows]
        centre = (cells + box[:, :2]) * stride
        half = box[:, 2:].exp() * (stride / 2)
        boxes.append(torch.cat([centre - half, centre + half], dim=1))
        points.append((five.unflatten(1, (5, 2)) + cells[:, None]) * stride)
        scores.append(score[rows])
    return torch.cat(boxes), torch.cat(points), torch.cat(scores)


def retinaface(
    outputs: Mapping[str, Tensor],
    contract: DetectorContract,
    height: int,
    width: int,
    min_score: float,
) -> Decoded:
    """Decode RetinaFace (Deng et al., 2020): offsets from prior boxes, as in SSD."""
    score = outputs["conf"][0, :, 1]
    rows = (score >= min_score).nonzero()[:, 0]
    priors = _priors(contract.strides, contract.anchors, height, width).to(rows.device)[rows]
    centre, side = priors[:, :2], priors[:, 2:]
    near, far = contract.variances
    loc, five = outputs["loc"][0, rows], outputs["landmarks"][0, rows].unflatten(1, (5, 2))
    middle = centre + loc[:, :2] * near * side
    half = side * (loc[:, 2:] * far).exp() / 2
    return (
        torch.cat([middle - half, middle + half], dim=1),
        centre[:, None] + five * near * side[:, None],
        score[rows],
    )


HEADS: Mapping[str, Head] = MappingProxyType({"yunet": yunet, "retinaface": retinaface})
"""The decoders by the name that a contract's ``head`` uses."""


@lru_cache(maxsize=16)
def _priors(
    strides: tuple[int, ...], anchors: tuple[tuple[float, ...], ...], height: int, width: int
) -> Tensor:
    """Return the prior boxes, float32 (M, 4): centre and sides in pixels."""
    maps = []
    for stride, sides in zip(strides, anchors, strict=True):
        y, x = torch.meshgrid(
            torch.arange(-(-height // stride)), torch.arange(-(-width // stride)), indexing="ij"
        )
        cells = torch.stack([x, y], dim=-1).reshape(-1, 2)
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
