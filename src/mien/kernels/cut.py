"""Cutting faces out of frames of bytes in one pass; the twin is ``mien.replay.warp.cut``.

The twin resizes a piece of the frame by filters, and looks the crop up in it bilinearly. Both steps
work along rows and along columns, so together they are one separable filter of each crop pixel:
the mean of the filters of its two neighbours in the resized piece.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

PIXELS = 64
"""Crop pixels of one program."""

TAPS = 8
"""Source pixels of a row that are read at once: reads wait for memory, not for each other."""


def cut(frames: Tensor, table: Tensor, rows: int, columns: int) -> Tensor:
    """Return crops, float32 (K, 3, rows, columns) in [0, 1], of ``frames``, uint8 (B, H, W, 3).

    ``table`` float32 (K, 13), K / B rows of each frame, one frame after another, says of each crop:
    the map (2, 3) that takes crop pixels to frame pixels, of the columns and of the rows which
    piece of the frame is resized to how many pixels (first, the one after the last, count), and,
    above 0, that the face is larger than its crop. Its rows may be one and the same, expanded.
    """
    count, (batch, height, width, _) = len(table), frames.shape
    crops = torch.empty(count, 3, rows, columns, device=frames.device)
    _cut[(triton.cdiv(rows * columns, PIXELS), count)](
        frames.contiguous(), crops, table, table.stride(0), count // batch, height, width,
        rows, columns, PIXELS, TAPS,
    )  # fmt: skip
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
def _sums(start, steps, taps, centre, after, narrow, first, last, shrinks, TAPS: tl.constexpr):
    """Return one over the sums of both neighbours' filters over the pixels that there are."""
    one = tl.zeros_like(centre)
    two = tl.zeros_like(centre)
    for i in range(steps):
        at = start[:, None] + i * TAPS + taps[None, :]
        there = (at >= first) & (at < last)
        a = tl.where(there, _weight(tl.abs(at - centre[:, None]) * narrow, shrinks), 0.0)
        b = tl.where(there, _weight(tl.abs(at - after[:, None]) * narrow, shrinks), 0.0)
        one += tl.sum(a, axis=1)
        two += tl.sum(b, axis=1)
    return 1 / tl.maximum(one, 1e-6), 1 / tl.maximum(two, 1e-6)


@triton.jit
def _mixed(at, centre, after, share, one, two, narrow, first, last, shrinks):
    """Return the weight of source pixel ``at`` in what is looked up."""
    a = _weight(tl.abs(at - centre) * narrow, shrinks) * one
    b = _weight(tl.abs(at - after) * narrow, shrinks) * two
    return tl.where((at >= first) & (at < last), a + (b - a) * share, 0.0)


@triton.jit
def _cut(
    frames, crops, table, stride, each, height, width, rows, columns,
    PIXELS: tl.constexpr, TAPS: tl.constexpr,
):  # fmt: skip
    face = tl.program_id(1)
    frame = frames + (face // each).to(tl.int64) * (height * width * 3)
    row = table + face * stride
    index = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    area = rows * columns
    inside = index < area
    x = (index % columns).to(tl.float32)
    y = (index // columns).to(tl.float32)
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
    chunks_x, chunks_y = (steps_x + TAPS - 1) // TAPS, (steps_y + TAPS - 1) // TAPS
    taps = tl.arange(0, TAPS)
    one_x, two_x = _sums(start_x, chunks_x, taps, x0, x1, narrow_x, left, right, shrinks, TAPS)
    one_y, two_y = _sums(start_y, chunks_y, taps, y0, y1, narrow_y, top, bottom, shrinks, TAPS)
    red = tl.zeros([PIXELS, TAPS], dtype=tl.float32)
    green = tl.zeros([PIXELS, TAPS], dtype=tl.float32)
    blue = tl.zeros([PIXELS, TAPS], dtype=tl.float32)
    for i in range(chunks_x):
        at_x = start_x[:, None] + i * TAPS + taps[None, :]
        by_x = _mixed(
            at_x, x0[:, None], x1[:, None], share_x[:, None], one_x[:, None], two_x[:, None],
            narrow_x, left, right, shrinks,
        )  # fmt: skip
        read = inside[:, None] & (by_x != 0)
        column = tl.minimum(tl.maximum(at_x, 0.0), width - 1.0).to(tl.int32) * 3
        for j in range(steps_y):
            at_y = start_y + j
            by_y = _mixed(at_y, y0, y1, share_y, one_y, two_y, narrow_y, top, bottom, shrinks)
            line = tl.minimum(tl.maximum(at_y, 0.0), height - 1.0).to(tl.int32) * (width * 3)
            weight = by_y[:, None] * by_x
            pixel = frame + line[:, None] + column
            red += weight * tl.load(pixel, mask=read, other=0).to(tl.float32)
            green += weight * tl.load(pixel + 1, mask=read, other=0).to(tl.float32)
            blue += weight * tl.load(pixel + 2, mask=read, other=0).to(tl.float32)
    out = crops + face * 3 * area + index
    tl.store(out, _share(red), mask=inside)
    tl.store(out + area, _share(green), mask=inside)
    tl.store(out + 2 * area, _share(blue), mask=inside)


@triton.jit
def _share(codes):
    """Return the sums over taps of codes as shares of 255."""
    return tl.minimum(tl.maximum(tl.sum(codes, axis=1) / 255, 0.0), 1.0)
