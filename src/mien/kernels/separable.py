"""Depthwise separable convolutions in one pass; their twins are in ``mien.nets.separable``.

Small networks are chains of such pairs: 3 x 3 within each channel, and 1 x 1 across all of them.
One by one they are four or five kernels, each of which waits longer for its start than it works.
Here each program makes some pixels of the result, and what lies between the two convolutions
never leaves it.

Pictures are float16 or bfloat16 (B, C, H, W), channels last in memory. Products are summed in
float32.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from mien.kernels.placing import placed

ENOUGH = 100
"""Programs that keep a GPU busy: with fewer, each makes fewer pixels."""

MOST = 2048
"""Numbers of one tap of a program: registers hold all nine."""

WHOLE = 1 << 31
"""Numbers of a tensor that can be counted in 32 bits."""


@torch.library.custom_op("mien::depth_point", mutates_args=())
@placed
def depth_point(
    x: Tensor,
    depth: Tensor,
    depth_bias: Tensor,
    point: Tensor,
    point_bias: Tensor,
    beside: Tensor,
    slope: Tensor,
    stride: int,
    before: int,
    pooled: bool,
) -> Tensor:
    """Return the 1 x 1 convolution of a depthwise 3 x 3 one, with ``beside`` added, after a PReLU.

    ``depth`` is (9, IN), ``point`` (OUT, IN, 1, 1), biases and ``slope`` have a number for each
    channel; ``beside`` is like the result, (B, OUT, H', W'). With ``pooled`` it is ``x``, of which
    the greatest of each 2 x 2 pixels are added to the first channels. ``x``, (B, IN, H, W), is
    padded by ``before`` zeros above and to the left, and below and to the right by what the result
    needs.
    """
    given = (depth, depth_bias, point, point_bias, beside, slope, stride, before, pooled)
    out: Tensor = _like_depth_point(x, *given)
    x, beside = _last(x), _last(beside)
    into, (batch, of, rows, columns) = x.shape[1], out.shape
    total = batch * rows * columns
    pixels, wide = _tile(total, into, of)
    _depth_point[(triton.cdiv(total, pixels), of // wide)](
        x, depth, depth_bias, point, point_bias, beside, slope, out,
        total, *x.shape[2:], rows, columns, into, of, wide, stride, before, pooled, pixels,
    )  # fmt: skip
    return out


@depth_point.register_fake
def _like_depth_point(
    x: Tensor,
    _depth: Tensor,
    _depth_bias: Tensor,
    point: Tensor,
    _point_bias: Tensor,
    beside: Tensor,
    _slope: Tensor,
    _stride: int,
    _before: int,
    pooled: bool,
) -> Tensor:
    batch, _, height, width = beside.shape
    rows, columns = (height // 2, width // 2) if pooled else (height, width)
    return _empty(x, (batch, len(point), rows, columns), x.dtype)


@torch.library.custom_op("mien::point_depth", mutates_args=())
@placed
def point_depth(
    x: Tensor, point: Tensor, point_bias: Tensor, depth: Tensor, depth_bias: Tensor, relu: bool
) -> Tensor:
    """Return the depthwise 3 x 3 convolution, padded by 1, of a 1 x 1 one, after a ReLU or not.

    ``point`` is (OUT, IN, 1, 1), ``depth`` (9, OUT); the result, (B, OUT, H, W), is of the type of
    ``depth``.
    """
    out: Tensor = _like_point_depth(x, point, point_bias, depth, depth_bias, relu)
    x, of = _last(x), len(point)
    batch, into, height, width = x.shape
    total = batch * height * width
    pixels, wide = _tile(total, into, of)
    _point_depth[(triton.cdiv(total, pixels), of // wide)](
        x, point, point_bias, depth, depth_bias, out,
        total, height, width, into, of, wide, relu, pixels,
    )  # fmt: skip
    return out


@point_depth.register_fake
def _like_point_depth(
    x: Tensor, point: Tensor, _point_bias: Tensor, depth: Tensor, _depth_bias: Tensor, _relu: bool
) -> Tensor:
    return _empty(x, (x.shape[0], len(point), *x.shape[2:]), depth.dtype)


def takes(x: Tensor, point: Tensor) -> bool:
    """Return whether the kernels are made for ``x`` and as many channels as ``point`` has."""
    channels = point.shape[:2]
    fit = all(16 <= count <= 256 and count & (count - 1) == 0 for count in channels)
    return fit and x.numel() // x.shape[1] * max(channels) < WHOLE


def _last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)


def _empty(x: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    return torch.empty(shape, dtype=dtype, device=x.device, memory_format=torch.channels_last)


def _tile(total: int, into: int, of: int) -> tuple[int, int]:
    """Return how many pixels and how many channels of the result one program makes."""
    wide = min(of, 64)
    for pixels in (64, 32, 16):
        enough = triton.cdiv(total, pixels) * (of // wide) >= ENOUGH
        if pixels * into <= MOST and enough:
            return pixels, wide
    return 16, wide if into < 128 else min(of, 32)


@triton.jit
def _places(total, rows, columns, PIXELS: tl.constexpr):
    """Return the program's pixels of the result, where they are, and whether there are so many."""
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    inside = pixel < total
    column, row = pixel % columns, (pixel // columns) % rows
    return pixel, pixel // (columns * rows), row, column, inside


@triton.jit
def _tap(x, picture, row, column, inside, height, width, channel, IN: tl.constexpr):
    """Return the pixels (P, IN) at places of pictures, and whether they are there; else 0."""
    inside = inside & (row >= 0) & (row < height) & (column >= 0) & (column < width)
    start = ((picture * height + row) * width + column) * IN
    there = inside[:, None]
    return tl.load(x + start[:, None] + channel[None, :], mask=there, other=0.0), there


@triton.jit
def _greatest(x, picture, row, column, inside, height, width, channel, IN: tl.constexpr):
    """Return the greatest of 2 x 2 pixels, float32 (P, C); 0 for channels that ``x`` has not."""
    first = ((picture * height + row) * width + column) * IN
    start = x + first[:, None] + channel[None, :]
    there = inside[:, None] & (channel < IN)[None, :]
    above = tl.maximum(
        tl.load(start, mask=there, other=0.0), tl.load(start + IN, mask=there, other=0.0)
    )
    start += width * IN
    below = tl.maximum(
        tl.load(start, mask=there, other=0.0), tl.load(start + IN, mask=there, other=0.0)
    )
    return tl.maximum(above, below).to(tl.float32)


@triton.jit
def _depth_point(
    x, depth, depth_bias, point, point_bias, beside, slope, out,
    total, height, width, rows, columns,
    IN: tl.constexpr, OUT: tl.constexpr, WIDE: tl.constexpr,
    STRIDE: tl.constexpr, BEFORE: tl.constexpr, POOLED: tl.constexpr, PIXELS: tl.constexpr,
):  # fmt: skip
    pixel, picture, row, column, inside = _places(total, rows, columns, PIXELS)
    c, o = tl.arange(0, IN), tl.program_id(1) * WIDE + tl.arange(0, WIDE)
    weights = tl.load(point + o[None, :] * IN + c[:, None])
    alike = tl.zeros_like(pixel)  # weights are read for each pixel, as its numbers lie
    sums = tl.load(depth_bias + c[None, :] + alike[:, None]).to(tl.float32)
    others = tl.zeros((PIXELS, IN), tl.float32)
    for i in tl.static_range(9):
        down, across = row * STRIDE + (i // 3 - BEFORE), column * STRIDE + (i % 3 - BEFORE)
        value, _ = _tap(x, picture, down, across, inside, height, width, c, IN)
        weight = tl.load(depth + i * IN + c[None, :] + alike[:, None])
        product = value.to(tl.float32) * weight.to(tl.float32)
        if i % 2 == 0:
            sums += product
        else:
            others += product
    # as a reduction, or the compiler would arrange each of the nine for the product, not their sum
    sums = tl.sum(tl.join(sums, others), axis=2)
    made = tl.dot(sums.to(weights.dtype), weights)
    place = pixel[:, None] * OUT + o[None, :]
    made += tl.load(point_bias + o).to(tl.float32)[None, :]
    if POOLED:
        made += _greatest(x, picture, 2 * row, 2 * column, inside, height, width, o, IN)
    else:
        made += tl.load(beside + place, mask=inside[:, None], other=0.0).to(tl.float32)
    made = tl.where(made > 0, made, made * tl.load(slope + o).to(tl.float32)[None, :])
    tl.store(out + place, made.to(out.dtype.element_ty), mask=inside[:, None])


@triton.jit
def _point_depth(
    x, point, point_bias, depth, depth_bias, out,
    total, height, width,
    IN: tl.constexpr, OUT: tl.constexpr, WIDE: tl.constexpr,
    RELU: tl.constexpr, PIXELS: tl.constexpr,
):  # fmt: skip
    pixel, picture, row, column, inside = _places(total, height, width, PIXELS)
    c, o = tl.arange(0, IN), tl.program_id(1) * WIDE + tl.arange(0, WIDE)
    weights = tl.load(point + o[None, :] * IN + c[:, None]).to(x.dtype.element_ty)
    bias = tl.load(point_bias + o).to(tl.float32)[None, :]
    sums = tl.zeros((PIXELS, WIDE), tl.float32) + tl.load(depth_bias + o).to(tl.float32)[None, :]
    taps = ()
    for i in tl.static_range(9):  # all are on their way before the first is worked on
        down, across = row + (i // 3 - 1), column + (i % 3 - 1)
        tap = _tap(x, picture, down, across, inside, height, width, c, IN)
        taps += (tap,)  # type: ignore[assignment]
    for i in tl.static_range(9):
        # beyond the border the second convolution meets zeros, not the first one's bias
        between = tl.where(taps[i][1], tl.dot(taps[i][0], weights) + bias, 0.0)
        sums += between * tl.load(depth + i * OUT + o).to(tl.float32)[None, :]
    if RELU:
        sums = tl.maximum(sums, 0.0)
    place = pixel[:, None] * OUT + o[None, :]
    tl.store(out + place, sums.to(out.dtype.element_ty), mask=inside[:, None])
