"""Cutting faces out of a frame of bytes in one pass; the twin is ``mien.replay.warp.cut``.

The twin resizes a piece of the frame by filters, and looks the crop up in it bilinearly. Both steps
work along rows and along columns, so together they are one separable filter of each crop pixel:
the mean of the filters of its two neighbours in the resized piece.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

PIXELS = 256
"""Crop pixels of one program."""


def cut(frame: Tensor, back: Tensor, spans: Tensor, shrinks: Tensor, size: int) -> Tensor:
    """Return crops, float32 (K, 3, size, size) in [0, 1], of ``frame``, uint8 (H, W, 3).

    ``back`` (K, 2, 3) takes crop pixels to frame pixels. ``spans`` (K, 2, 3) says of the columns
    and of the rows which piece of the frame is resized to how many pixels: first, the one after
    the last, count. ``shrinks`` bool (K,) says whether the face is larger than its crop.
    """
    count, (height, width, _) = len(back), frame.shape
    crops = torch.empty(count, 3, size, size, device=frame.device)
    table = torch.cat([back.flatten(1), spans.flatten(1), shrinks[:, None].float()], dim=1)
    _cut[(triton.cdiv(size * size, PIXELS), count)](
        frame.contiguous(), crops, table.contiguous(), height, width, size, table.shape[1], PIXELS
    )
    return crops


@triton.jit
def _weight(apart, shrinks):
    """Return the filters of ``Span.filters`` at a distance in result pixels."""
    triangle = tl.maximum(1 - apart, 0.0)
    near = (1.5 * apart - 2.5) * apart * apart + 1
    far = ((-0.5 * apart + 2.5) * apart - 4) * apart + 2
    cubic = tl.where(apart <= 1, near, tl.where(apart < 2, far, 0.0))
    return tl.where(shrinks, triangle, cubic)


@triton.jit
def _neighbours(place, ratio, first, count):
    """Return the source places of the two resized pixels around ``place``, and the second's share.

    ``place`` is in source pixels.
    """
    at = ratio * place + (ratio - 1) / 2 - ratio * first
    at = tl.minimum(tl.maximum(at, 0.0), count - 1)
    whole = tl.floor(at)
    centre = (whole + 0.5) / ratio - 0.5 + first
    return centre, centre + 1 / ratio, at - whole


@triton.jit
def _sums(start, steps, centre, after, narrow, first, last, shrinks):
    """Return the sums of both neighbours' filters over the pixels that there are."""
    one = tl.zeros_like(centre)
    two = tl.zeros_like(centre)
    for i in range(steps):
        at = start + i
        there = (at >= first) & (at < last)
        one += tl.where(there, _weight(tl.abs(at - centre) * narrow, shrinks), 0.0)
        two += tl.where(there, _weight(tl.abs(at - after) * narrow, shrinks), 0.0)
    return tl.maximum(one, 1e-6), tl.maximum(two, 1e-6)


@triton.jit
def _mixed(at, centre, after, share, one, two, narrow, first, last, shrinks):
    """Return the weight of source pixel ``at`` in what is looked up."""
    a = _weight(tl.abs(at - centre) * narrow, shrinks) / one
    b = _weight(tl.abs(at - after) * narrow, shrinks) / two
    return tl.where((at >= first) & (at < last), a + (b - a) * share, 0.0)


@triton.jit
def _cut(frame, crops, table, height, width, size, columns, PIXELS: tl.constexpr):
    face = tl.program_id(1)
    row = table + face * columns
    index = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    inside = index < size * size
    x = (index % size).to(tl.float32)
    y = (index // size).to(tl.float32)
    across = tl.load(row) * x + tl.load(row + 1) * y + tl.load(row + 2)
    down = tl.load(row + 3) * x + tl.load(row + 4) * y + tl.load(row + 5)
    left, right, wide = tl.load(row + 6), tl.load(row + 7), tl.load(row + 8)
    top, bottom, high = tl.load(row + 9), tl.load(row + 10), tl.load(row + 11)
    shrinks = tl.load(row + 12) > 0
    ratio_x, ratio_y = wide / (right - left), high / (bottom - top)
    narrow_x, narrow_y = tl.minimum(ratio_x, 1.0), tl.minimum(ratio_y, 1.0)
    reach = tl.where(shrinks, 1.0, 2.0)
    x0, x1, share_x = _neighbours(across, ratio_x, left, wide)
    y0, y1, share_y = _neighbours(down, ratio_y, top, high)
    start_x, start_y = tl.floor(x0 - reach / narrow_x), tl.floor(y0 - reach / narrow_y)
    steps_x = tl.ceil(2 * reach / narrow_x + 1 / ratio_x).to(tl.int32) + 2
    steps_y = tl.ceil(2 * reach / narrow_y + 1 / ratio_y).to(tl.int32) + 2
    sum_x0, sum_x1 = _sums(start_x, steps_x, x0, x1, narrow_x, left, right, shrinks)
    sum_y0, sum_y1 = _sums(start_y, steps_y, y0, y1, narrow_y, top, bottom, shrinks)
    red = tl.zeros_like(x)
    green = tl.zeros_like(x)
    blue = tl.zeros_like(x)
    for j in range(steps_y):
        at_y = start_y + j
        by = _mixed(at_y, y0, y1, share_y, sum_y0, sum_y1, narrow_y, top, bottom, shrinks)
        line = tl.minimum(tl.maximum(at_y, 0.0), height - 1.0).to(tl.int32) * width
        for i in range(steps_x):
            at_x = start_x + i
            weight = by * _mixed(
                at_x, x0, x1, share_x, sum_x0, sum_x1, narrow_x, left, right, shrinks
            )
            column = tl.minimum(tl.maximum(at_x, 0.0), width - 1.0).to(tl.int32)
            pixel = frame + (line + column) * 3
            red += weight * tl.load(pixel, mask=inside, other=0).to(tl.float32)
            green += weight * tl.load(pixel + 1, mask=inside, other=0).to(tl.float32)
            blue += weight * tl.load(pixel + 2, mask=inside, other=0).to(tl.float32)
    out = crops + face * 3 * size * size + index
    area = size * size
    tl.store(out, tl.minimum(tl.maximum(red / 255, 0.0), 1.0), mask=inside)
    tl.store(out + area, tl.minimum(tl.maximum(green / 255, 0.0), 1.0), mask=inside)
    tl.store(out + 2 * area, tl.minimum(tl.maximum(blue / 255, 0.0), 1.0), mask=inside)
