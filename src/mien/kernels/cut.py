"""Cutting faces out of frames of bytes in one pass; the twin is ``mien.replay.warp.cut``.

The twin resizes a piece of the frame by filters, and looks the crop up in it bilinearly. Both steps
work along rows and along columns, so together they are one separable filter of each crop pixel:
the mean of the filters of its two neighbours in the resized piece.

Each thread makes one pixel, and holds the weights of a row's source pixels: all tensors have one
number for each thread, so nothing is exchanged. It reads the bytes of a row as whole words.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from mien.kernels.placing import placed

ACROSS, DOWN = 8, 8
"""Crop pixels of one program: 32 for each of its warps."""

TAPS = 6
"""Source pixels of a row that are read at once: reads wait for memory, not for each other."""


@placed
def cut(frames: Tensor, table: Tensor, rows: int, columns: int) -> Tensor:
    """Return crops, float32 (K, 3, rows, columns) in [0, 1], of ``frames``, uint8 (B, H, W, 3).

    ``table`` float32 (K, 13), K / B rows of each frame, one frame after another, says of each crop:
    the map (2, 3) that takes crop pixels to frame pixels, of the columns and of the rows which
    piece of the frame is resized to how many pixels (first, the one after the last, count), and,
    above 0, that the face is larger than its crop. Its rows may be one and the same, expanded.
    """
    count, (batch, height, width, _) = len(table), frames.shape
    crops = torch.empty(count, 3, rows, columns, device=frames.device)
    _cut[(triton.cdiv(columns, ACROSS), triton.cdiv(rows, DOWN), count)](
        frames.contiguous(), crops, table, table.stride(0), count // batch, height, width,
        rows, columns, ACROSS, DOWN, TAPS, num_warps=max(1, ACROSS * DOWN // 32),
    )  # fmt: skip
    return crops


@triton.jit
def _weight(apart, SHRINKS: tl.constexpr):
    """Return the filters of ``Span.filters`` at a distance, of either sign, in result pixels."""
    apart = tl.abs(apart)
    if SHRINKS:
        return tl.maximum(1 - apart, 0.0)
    near = (1.5 * apart - 2.5) * apart * apart + 1
    far = ((-0.5 * apart + 2.5) * apart - 4) * apart + 2
    return tl.where(apart <= 1, near, tl.where(apart < 2, far, 0.0))


@triton.jit
def _axis(place, span, SHRINKS: tl.constexpr):
    """Return which source pixels make what is looked up at ``place`` of a row or column, and how.

    That is: the first of them and how many; the distance of the first from the centre of the one
    neighbour's filter, how much one source pixel adds to it, and by how much the other neighbour's
    centre lies farther, in the filters' units; and what either filter counts for.
    """
    first, last, count = tl.load(span), tl.load(span + 1), tl.load(span + 2)
    step = (last - first) / count
    narrow = 1 / tl.maximum(step, 1.0)
    # exact where it can be: what lies on a pixel of the resized piece needs no neighbour
    at = tl.math.div_rn((place - first + 0.5) * count, last - first) - 0.5
    at = tl.minimum(tl.maximum(at, 0.0), count - 1)
    whole = tl.floor(at)
    share = at - whole
    centre = (whole + 0.5) * step - 0.5 + first
    reach = (1 if SHRINKS else 2) / narrow
    begin = tl.maximum(tl.floor(centre - reach) + 1, first)
    end = tl.minimum(tl.ceil(centre + tl.where(share > 0, step, 0.0) + reach), last)
    number = tl.where(end > begin, end - begin, 0.0)  # none where a map is no map
    apart, farther = (begin - centre) * narrow, step * narrow
    one, two = tl.zeros_like(place), tl.zeros_like(place)
    for i in range(tl.max(number).to(tl.int32)):
        one += tl.where(i < number, _weight(apart + i * narrow, SHRINKS), 0.0)
        two += tl.where(i < number, _weight(apart + i * narrow - farther, SHRINKS), 0.0)
    one, two = (1 - share) / tl.maximum(one, 1e-6), share / tl.maximum(two, 1e-6)
    return begin, number, apart, narrow, farther, one, two


@triton.jit
def _mixed(i, number, apart, narrow, farther, one, two, SHRINKS: tl.constexpr):
    """Return the weight of the source pixel ``i`` after the first."""
    apart += i * narrow
    mixed = _weight(apart, SHRINKS) * one + _weight(apart - farther, SHRINKS) * two
    return tl.where(i < number, mixed, 0.0)


@triton.jit
def _made(
    frame, out, row, x, y, inside, width, area,
    TAPS: tl.constexpr, SHRINKS: tl.constexpr,
):  # fmt: skip
    """Make the pixels (x, y) of one crop."""
    across = tl.load(row) * x + tl.load(row + 1) * y + tl.load(row + 2)
    down = tl.load(row + 3) * x + tl.load(row + 4) * y + tl.load(row + 5)
    left, wide, apart_x, narrow_x, farther_x, one_x, two_x = _axis(across, row + 6, SHRINKS)
    top, high, apart_y, narrow_y, farther_y, one_y, two_y = _axis(down, row + 9, SHRINKS)
    wide = tl.where(inside & (high > 0), wide, 0.0)
    red, green, blue = tl.zeros_like(across), tl.zeros_like(across), tl.zeros_like(across)
    for begin in range(0, tl.max(wide).to(tl.int32), TAPS):
        by_x = ()
        for i in tl.static_range(TAPS):
            by_x += (  # type: ignore[assignment]
                _mixed(begin + i, wide, apart_x, narrow_x, farther_x, one_x, two_x, SHRINKS),
            )  # fmt: skip
        column = (left.to(tl.int32) + begin) * 3
        many = tl.minimum(wide - begin, TAPS).to(tl.int32) * 3
        for j in range(0, tl.max(high).to(tl.int32)):
            line = (top + tl.minimum(high - 1, j)).to(tl.int32)
            codes = _codes(frame, column + line * (width * 3), many, 3 * TAPS)
            by_y = _mixed(j, high, apart_y, narrow_y, farther_y, one_y, two_y, SHRINKS)
            r, g, b = tl.zeros_like(red), tl.zeros_like(red), tl.zeros_like(red)
            for i in tl.static_range(TAPS):
                r += by_x[i] * codes[3 * i]
                g += by_x[i] * codes[3 * i + 1]
                b += by_x[i] * codes[3 * i + 2]
            red += by_y * r
            green += by_y * g
            blue += by_y * b
    tl.store(out, _share(red), mask=inside)
    tl.store(out + area, _share(green), mask=inside)
    tl.store(out + 2 * area, _share(blue), mask=inside)


# one compiled kernel for frames and crops of all sizes: no number's value is worth another
@triton.jit(do_not_specialize=["stride", "each", "height", "width", "rows", "columns"])
def _cut(
    frames, crops, table, stride, each, height, width, rows, columns,
    ACROSS: tl.constexpr, DOWN: tl.constexpr, TAPS: tl.constexpr,
):  # fmt: skip
    face = tl.program_id(2)
    frame = frames + (face // each).to(tl.int64) * (height * width * 3)
    row = table + face * stride
    index = tl.arange(0, ACROSS * DOWN)
    x = tl.program_id(0) * ACROSS + index % ACROSS
    y = tl.program_id(1) * DOWN + index // ACROSS
    inside = (x < columns) & (y < rows)
    area = rows * columns
    out = crops + face * 3 * area + y * columns + x
    x, y = x.to(tl.float32), y.to(tl.float32)
    if tl.load(row + 12) > 0:
        _made(frame, out, row, x, y, inside, width, area, TAPS, True)
    else:
        _made(frame, out, row, x, y, inside, width, area, TAPS, False)


@triton.jit
def _codes(frame, begin, many, COUNT: tl.constexpr):
    """Return as numbers the COUNT bytes of ``frame`` from ``begin`` on, of which ``many`` count.

    They are read as the words in which they lie, wherever they begin, and no others.
    """
    start = frame.to(tl.int64)
    begin += (start & 3).to(tl.int32)
    word = (start & -4).to(tl.pointer_type(tl.uint32)) + (begin >> 2)
    many += begin & 3
    read = ()
    for i in tl.static_range((COUNT + 6) // 4):
        read += (tl.load(word + i, mask=4 * i < many, other=0).to(tl.uint64),)  # type: ignore[assignment]
    skip = ((begin & 3) * 8).to(tl.uint64)
    codes = ()
    for i in tl.static_range((COUNT + 3) // 4):
        four = ((read[i] | (read[i + 1] << 32)) >> skip).to(tl.uint32)
        for k in tl.static_range(4):
            code = (four >> (8 * k)) & 255
            # as the last bits of a float, which takes less than a conversion
            codes += ((code | 0x4B000000).to(tl.float32, bitcast=True) - 8388608,)  # type: ignore[assignment]
    return codes


@triton.jit
def _share(code):
    """Return a code as a share of 255."""
    return tl.minimum(tl.maximum(code / 255, 0.0), 1.0)
