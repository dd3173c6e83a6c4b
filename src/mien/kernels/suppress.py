"""A detector's best places, each overlapping no better one, in one kernel.

The twin, in ``mien.replay.detect``, sorts the best candidates and asks all pairs in rounds. Here a
program for each frame takes the best place that is left, again and again, until it has enough.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from mien.kernels.placing import placed

WARPS = 8


@placed
def best(
    sure: Tensor,
    there: Tensor,
    box: Tensor,
    five: Tensor,
    cells: Tensor,
    strides: Tensor,
    *,
    ratio: tuple[float, float],
    slots: int,
    candidates: int,
    limit: float,
) -> tuple[Tensor, Tensor]:
    """Return points (B, slots, 5, 2) in frame pixels and scores (B, slots), the best first.

    ``sure``, ``there``, ``box`` and ``five`` are a YuNet's, float32 (B, N, 1, 1, 4 and 10);
    ``cells`` (N, 2) and ``strides`` (N,) say where they are. Frame pixels are ``ratio`` times as
    many, across and down. Of ``candidates`` places those are left out that overlap a better one by
    more than ``limit``; slots for which none is left have a score of 0, and points of 0.
    """
    batch, count, _ = box.shape
    points = torch.empty(batch, slots, 5, 2, device=box.device)
    scores = torch.empty(batch, slots, device=box.device)
    _best[(batch,)](
        sure.contiguous(), there.contiguous(), box.contiguous(), five.contiguous(),
        cells, strides, points, scores, count, *ratio, slots, min(candidates, count), limit,
        triton.next_power_of_2(count), triton.next_power_of_2(slots), num_warps=WARPS,
    )  # fmt: skip
    return points, scores


@triton.jit
def _share(values, index, there):
    value = tl.load(values + index, mask=there, other=0.0)
    return tl.where(value > 0, tl.minimum(value, 1.0), 0.0)  # what is no number is nothing


@triton.jit
def _store(points, five, at, x, y, stride, ratio_x, ratio_y):
    """Store the five points of the place ``at``, the cell (x, y)."""
    number = tl.arange(0, 16)
    there, down = number < 10, number % 2
    value = tl.load(five + at * 10 + number, mask=there, other=0.0)
    value = (value + tl.where(down == 0, x, y)) * stride
    value = value * tl.where(down == 0, ratio_x, ratio_y) - 0.5
    tl.store(points + number, value, mask=there)


@triton.jit
def _best(
    sure, there, box, five, cells, strides, points, scores,
    count, ratio_x, ratio_y, slots, candidates, limit,
    COUNT: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    frame = tl.program_id(0)
    sure, there = sure + frame * count, there + frame * count
    box, five = box + frame * count * 4, five + frame * count * 10
    points, scores = points + frame * slots * 10, scores + frame * slots
    index = tl.arange(0, COUNT)
    real = index < count
    left = tl.where(real, _share(sure, index, real) * _share(there, index, real), -1.0)
    slot = tl.arange(0, SLOTS)
    x0, y0 = tl.zeros((SLOTS,), tl.float32), tl.zeros((SLOTS,), tl.float32)
    x1, y1 = tl.zeros((SLOTS,), tl.float32), tl.zeros((SLOTS,), tl.float32)
    found, tried = 0, 0
    while (found < slots) & (tried < candidates):
        score, at = tl.max(left, axis=0, return_indices=True)
        left = tl.where(index == at, -1.0, left)
        x, y, stride = tl.load(cells + 2 * at), tl.load(cells + 2 * at + 1), tl.load(strides + at)
        middle_x = (x + tl.load(box + 4 * at)) * stride
        middle_y = (y + tl.load(box + 4 * at + 1)) * stride
        half_x = tl.exp(tl.load(box + 4 * at + 2)) * (stride / 2)
        half_y = tl.exp(tl.load(box + 4 * at + 3)) * (stride / 2)
        left_x, right_x = middle_x - half_x, middle_x + half_x
        top_y, below_y = middle_y - half_y, middle_y + half_y
        wide = tl.maximum(tl.minimum(x1, right_x) - tl.maximum(x0, left_x), 0.0)
        high = tl.maximum(tl.minimum(y1, below_y) - tl.maximum(y0, top_y), 0.0)
        both = wide * high
        whole = (x1 - x0) * (y1 - y0) + 4 * half_x * half_y - both
        over = (slot < found) & (both > limit * whole)
        if tl.sum(over.to(tl.int32), axis=0) == 0:
            mine = slot == found
            x0, x1 = tl.where(mine, left_x, x0), tl.where(mine, right_x, x1)
            y0, y1 = tl.where(mine, top_y, y0), tl.where(mine, below_y, y1)
            _store(points + found * 10, five, at, x, y, stride, ratio_x, ratio_y)
            tl.store(scores + found, tl.sqrt(score))
            found += 1
        tried += 1
    while found < slots:  # nobody is there
        number = tl.arange(0, 16)
        tl.store(points + found * 10 + number, tl.zeros((16,), tl.float32), mask=number < 10)
        tl.store(scores + found, 0.0)
        found += 1
