"""Who is who, among a fixed number of faces now and before; see ``stages.association``."""

from __future__ import annotations

import torch
from torch import Tensor

ROUNDS = 8
"""Longest chain of faces, each nearer to the next one's place than to its own, told right."""


def pairs(cost: Tensor) -> Tensor:
    """Return who belongs together, bool (K, M): each at most to one, the nearest ones first.

    ``cost`` (K, M) is infinite where two cannot belong together. In each round those pairs are
    made of which neither has a nearer one left: after enough of them that is the greedy choice.
    """
    made = torch.zeros_like(cost, dtype=torch.bool)
    here, there = (torch.arange(count, device=cost.device) for count in cost.shape)
    for _ in range(min(ROUNDS, *cost.shape)):
        best = there == cost.argmin(dim=1)[:, None]
        both = best & (here[:, None] == cost.argmin(dim=0)) & (cost < torch.inf)
        made = made | both
        gone = both.any(dim=1, keepdim=True) | both.any(dim=0)
        cost = torch.where(gone, torch.inf, cost)
    return made


def apart(expected: Tensor, found: Tensor) -> tuple[Tensor, Tensor]:
    """Return how far apart faces are by their size, and the logarithms of their sizes' ratios.

    Of boxes (M, 4) and (K, 4) both are (K, M).
    """
    one, other = sizes(expected), sizes(found)[:, None]
    way = (middles(found)[:, None] - middles(expected)).norm(dim=2)
    return 2 * way / (one + other), (other / one).log().abs()


def middles(boxes: Tensor) -> Tensor:
    """Return the middles (K, 2) of boxes (K, 4)."""
    return (boxes[:, :2] + boxes[:, 2:]) / 2


def sizes(boxes: Tensor) -> Tensor:
    """Return the sizes (K,) of boxes (K, 4), in pixels: the roots of their areas."""
    return (boxes[:, 2:] - boxes[:, :2]).prod(dim=1).clamp_min(1).sqrt()
