"""Means and deviations of channels in one pass; the twin is in ``mien.nets.operators``.

Each program adds up a few channels of one picture, and reads each number once. Squares are of what
a number is apart from its channel's first, so a channel that is nearly flat loses no digits.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from mien.kernels.placing import placed

CHANNELS = 16
"""Of one program: 32 bytes of each pixel in half precision, which is what memory gives at once."""

PIXELS = 1024
"""Read at a time at most: reads wait for memory, not for each other."""


@torch.library.custom_op("mien::moments", mutates_args=())
@placed
def moments(x: Tensor) -> Tensor:
    """Return means and variances of each channel, float32 (2, B, C, 1, 1), of ``x`` (B, C, H, W).

    C is a multiple of CHANNELS.
    """
    x = x.contiguous(memory_format=torch.channels_last)
    batch, channels, height, width = x.shape
    found = torch.empty((2, batch, channels, 1, 1), device=x.device)
    pixels = min(PIXELS, triton.next_power_of_2(height * width))
    _moments[(channels // CHANNELS, batch)](
        x, found, height * width, channels, batch, pixels, CHANNELS, num_warps=8
    )
    return found


@moments.register_fake
def _like_moments(x: Tensor) -> Tensor:
    return x.new_empty((2, *x.shape[:2], 1, 1), dtype=torch.float32)


# one compiled kernel for pictures of all sizes but for how many pixels are read at a time
@triton.jit(do_not_specialize=["batch"])
def _moments(x, found, count, channels, batch, PIXELS: tl.constexpr, CHANNELS: tl.constexpr):
    picture = tl.program_id(1)
    c = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    start = x + picture.to(tl.int64) * count * channels + c
    first = tl.load(start).to(tl.float32)
    sums = tl.zeros((PIXELS, CHANNELS), tl.float32)
    squares = tl.zeros((PIXELS, CHANNELS), tl.float32)
    for begin in range(0, count, PIXELS):
        pixel = begin + tl.arange(0, PIXELS)[:, None]
        there = pixel < count
        value = tl.load(start[None, :] + pixel * channels, mask=there, other=0.0).to(tl.float32)
        apart = tl.where(there, value - first[None, :], 0.0)
        sums += apart
        squares += apart * apart
    shift = tl.sum(sums, axis=0) / count
    variance = tl.maximum(tl.sum(squares, axis=0) / count - shift * shift, 0.0)
    place = found + picture * channels + c
    tl.store(place, first + shift)
    tl.store(place + batch * channels, variance)
