"""Laying faces over frames of bytes, touching what they cover and nothing else.

The twin is ``mien.replay.warp.lay``, which goes over a whole frame for each face.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from mien.kernels.placing import placed

ROWS, COLUMNS = 8, 64
"""Pixels of one program."""


@placed
def lay(frames: Tensor, patches: Tensor, grids: Tensor, order: Tensor, faint: float) -> None:
    """Lay ``patches`` over ``frames``, uint8 (B, H, W, 3), in place.

    ``patches`` is float (B K, 4, S, S), one frame after another: RGB in [0, 1], multiplied by the
    last channel, the opacity; ``grids`` (B K, 2, 3) take frame pixels to patch pixels. ``order``
    int64 (K,) says which of a frame's lies lowest. Opacities up to ``faint`` count for nothing.
    ``frames`` is contiguous.
    """
    batch, height, width, _ = frames.shape
    programs = (triton.cdiv(height, ROWS), triton.cdiv(width, COLUMNS), batch)
    _lay[programs](
        frames, patches.contiguous(), grids.contiguous(), order, len(order), height, width,
        patches.shape[-1], faint, ROWS, COLUMNS,
    )  # fmt: skip


@triton.jit
def _corner(patch, x, y, size, inside):
    """Return the four channels at whole places (x, y), 0 beyond the patch."""
    there = inside & (x >= 0) & (x < size) & (y >= 0) & (y < size)
    at = patch + y.to(tl.int32) * size + x.to(tl.int32)
    area = size * size
    return (
        tl.load(at, mask=there, other=0.0),
        tl.load(at + area, mask=there, other=0.0),
        tl.load(at + 2 * area, mask=there, other=0.0),
        tl.load(at + 3 * area, mask=there, other=0.0),
    )


@triton.jit
def _lay(
    frames, patches, grids, order, count, height, width, size, faint,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    top, left, number = tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS, tl.program_id(2)
    touching = 0
    for i in range(count):
        grid = grids + (number * count + i) * 6
        touching += _touches(grid, left, top, size, ROWS, COLUMNS).to(tl.int32)
    if touching > 0:
        _lay_here(
            frames, patches, grids, order, count, height, width, size, faint, top, left, number,
            ROWS, COLUMNS,
        )  # fmt: skip


@triton.jit
def _touches(grid, left, top, size, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Return whether a patch may show in the program's pixels."""
    return _meets(grid, left, top, size, ROWS, COLUMNS) & _meets(
        grid + 3, left, top, size, ROWS, COLUMNS
    )


@triton.jit
def _meets(line, left, top, size, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Return whether one coordinate of the program's pixels is anywhere one of the patch's."""
    a, b = tl.load(line), tl.load(line + 1)
    low = a * left + b * top + tl.load(line + 2)
    across, down = a * (COLUMNS - 1), b * (ROWS - 1)
    high = low + tl.maximum(across, 0.0) + tl.maximum(down, 0.0)
    low += tl.minimum(across, 0.0) + tl.minimum(down, 0.0)
    return (high > -1) & (low < size)


@triton.jit
def _lay_here(
    frames, patches, grids, order, count, height, width, size, faint, top, left, number,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Lay the patches over the pixels of one program."""
    # columns first: along them Triton lines up its threads, and so they read bytes side by side
    x = left + tl.arange(0, COLUMNS)[:, None]
    y = top + tl.arange(0, ROWS)[None, :]
    inside = (y < height) & (x < width)
    pixel = frames + number.to(tl.int64) * (height * width * 3) + (y * width + x) * 3
    red = tl.load(pixel, mask=inside, other=0).to(tl.float32)
    green = tl.load(pixel + 1, mask=inside, other=0).to(tl.float32)
    blue = tl.load(pixel + 2, mask=inside, other=0).to(tl.float32)
    changed = inside & (y < 0)
    for i in range(count):
        which = number * count + tl.load(order + i)
        grid = grids + which * 6
        if _touches(grid, left, top, size, ROWS, COLUMNS):
            u = tl.load(grid) * x + tl.load(grid + 1) * y + tl.load(grid + 2)
            v = tl.load(grid + 3) * x + tl.load(grid + 4) * y + tl.load(grid + 5)
            near = inside & (u > -1) & (u < size) & (v > -1) & (v < size)
            patch = patches + which * 4 * size * size
            column, line = tl.floor(u), tl.floor(v)
            a, b = u - column, v - line
            r00, g00, b00, o00 = _corner(patch, column, line, size, near)
            r01, g01, b01, o01 = _corner(patch, column + 1, line, size, near)
            r10, g10, b10, o10 = _corner(patch, column, line + 1, size, near)
            r11, g11, b11, o11 = _corner(patch, column + 1, line + 1, size, near)
            w00, w01, w10, w11 = (1 - a) * (1 - b), a * (1 - b), (1 - a) * b, a * b
            opacity = w00 * o00 + w01 * o01 + w10 * o10 + w11 * o11
            seen = near & (opacity > faint)
            under = 1 - opacity
            red = tl.where(
                seen, red * under + 255 * (w00 * r00 + w01 * r01 + w10 * r10 + w11 * r11), red
            )
            green = tl.where(
                seen, green * under + 255 * (w00 * g00 + w01 * g01 + w10 * g10 + w11 * g11), green
            )
            blue = tl.where(
                seen, blue * under + 255 * (w00 * b00 + w01 * b01 + w10 * b10 + w11 * b11), blue
            )
            changed = changed | seen
    tl.store(pixel, _byte(red), mask=changed)
    tl.store(pixel + 1, _byte(green), mask=changed)
    tl.store(pixel + 2, _byte(blue), mask=changed)


@triton.jit
def _byte(value):
    """Return the nearest byte; halves go up, where PyTorch takes the even one."""
    return tl.floor(tl.minimum(tl.maximum(value, 0.0), 255.0) + 0.5).to(tl.uint8)
