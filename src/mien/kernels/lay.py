"""Laying faces over frames of bytes, touching what they cover and nothing else.

The twin is ``mien.replay.warp.lay``, which goes over a whole frame for each face.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

ROWS, COLUMNS = 8, 64
"""Pixels of one program."""


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
    y = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    x = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    inside = (y < height) & (x < width)
    number = tl.program_id(2)
    pixel = frames + number.to(tl.int64) * (height * width * 3) + (y * width + x) * 3
    red = tl.load(pixel, mask=inside, other=0).to(tl.float32)
    green = tl.load(pixel + 1, mask=inside, other=0).to(tl.float32)
    blue = tl.load(pixel + 2, mask=inside, other=0).to(tl.float32)
    changed = inside & (y < 0)
    for i in range(count):
        which = number * count + tl.load(order + i)
        grid = grids + which * 6
        u = tl.load(grid) * x + tl.load(grid + 1) * y + tl.load(grid + 2)
        v = tl.load(grid + 3) * x + tl.load(grid + 4) * y + tl.load(grid + 5)
        near = inside & (u > -1) & (u < size) & (v > -1) & (v < size)
        if tl.max(near.to(tl.int32)) > 0:
            patch = patches + which * 4 * size * size
            left, top = tl.floor(u), tl.floor(v)
            a, b = u - left, v - top
            r00, g00, b00, o00 = _corner(patch, left, top, size, near)
            r01, g01, b01, o01 = _corner(patch, left + 1, top, size, near)
            r10, g10, b10, o10 = _corner(patch, left, top + 1, size, near)
            r11, g11, b11, o11 = _corner(patch, left + 1, top + 1, size, near)
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
