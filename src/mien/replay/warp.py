"""The two warps of ``mien.geometry.warp`` without a look at any number: sizes are known beforehand.

There, pictures are cut to what a face needs, and resized to whole pixels: so the processor has to
know where the face is. Here the resize is a product with a matrix of filter weights on either side,
computed where the picture lies, onto a window of fixed size.

Both take several frames at once, (B, H, W, 3), with as many faces of each, one frame after another;
one frame alone may be (H, W, 3).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from mien.geometry import compose
from mien.geometry.spans import FAINT, cut_table, enlarged, finer, pieces, placed
from mien.kernels import fused, usable

SPARE = 10
"""By how many pixels a window is larger than the crop, for the filters' sake."""


def cut(frames: Tensor, matrices: Tensor, size: int) -> Tensor:
    """Return crops, float32 (K, 3, size, size) in [0, 1], of ``frames``, uint8 ([B,] H, W, 3).

    ``matrices`` (K, 2, 3) are similarities from frame pixels to crop pixels, K / B of each frame.
    The filters are those of ``geometry.cut``: a triangle when a face shrinks, a cubic when it
    grows. Beyond a frame its edge pixels are repeated.
    """
    height, width = frames.shape[-3:-1]
    frames = frames.view(-1, height, width, 3)
    if usable(frames):
        from mien.kernels.cut import cut as in_one_pass

        return in_one_pass(frames, _table(matrices, size, height, width), size, size)
    scale, back, across, down = pieces(matrices, size, height, width)
    side = math.ceil(size * math.sqrt(2)) + SPARE
    rows = down.filters(scale, side, height)[:, None]
    columns = across.filters(scale, side, width)[:, None]
    each = len(matrices) // len(frames)
    parts = zip(frames, rows.split(each), columns.split(each), strict=True)
    window = torch.cat(  # frame by frame: a product of all at once would copy a frame for each face
        [r @ frame.permute(2, 0, 1).float() @ c.transpose(-1, -2) for frame, r, c in parts]
    )
    # crop pixel -> frame -> window
    grid = lookup(compose(placed(across, down), back), (size, size), (side, side))
    # what lies beyond the resized piece is not its edge: look no further than there
    last = torch.stack([across.count, down.count], dim=1)[:, None, None] - 1
    grid = grid.clamp_max((2 * last + 1) / side - 1)
    crops = functional.grid_sample(
        window, grid, mode="bilinear", padding_mode="border", align_corners=False
    )
    return (crops / 255).clamp(0, 1)


@fused
def _table(matrices: Tensor, size: int, height: int, width: int) -> Tensor:
    return cut_table(matrices, size, height, width)


@fused
def _enlarged(patches: Tensor, matrices: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    return enlarged(patches, matrices, weights)


def lay(frames: Tensor, patches: Tensor, matrices: Tensor, order: Tensor) -> Tensor:
    """Return ``frames``, uint8 ([B,] H, W, 3), with ``patches`` laid over them.

    ``patches`` is float (B K, 4, S, S): RGB in [0, 1], multiplied by the last channel, the opacity.
    ``matrices`` (B K, 2, 3) take frame pixels to patch pixels, ``order`` (K,) says which of a
    frame's patches lies lowest, which above it and so on.
    """
    fine, grids = _enlarged(patches, matrices, finer(patches.shape[-1], patches.device))
    if usable(frames):
        from mien.kernels.lay import lay as in_place

        made = frames.clone(memory_format=torch.contiguous_format)
        in_place(made.view(-1, *frames.shape[-3:]), fine, grids, order, FAINT)
        return made
    parts = zip(
        frames.view(-1, *frames.shape[-3:]),
        fine.split(len(order)),
        grids.split(len(order)),
        strict=True,
    )
    return torch.stack([_laid(*part, order) for part in parts]).view(frames.shape)


def _laid(frame: Tensor, fine: Tensor, grids: Tensor, order: Tensor) -> Tensor:
    """Return one frame, uint8 (H, W, 3), with what ``enlarged`` returned laid over it."""
    (height, width), side = frame.shape[:2], fine.shape[-1]
    planes = frame.permute(2, 0, 1).float()
    for i in range(len(fine)):
        which = order[i : i + 1]
        laid = functional.grid_sample(
            fine[which],
            lookup(grids[which], (height, width), (side, side)),
            mode="bilinear",
            padding_mode="zeros",
            align_corners=False,
        )[0]
        laid = torch.where(laid[-1:] > FAINT, laid, 0)  # a cubic swings about nothing
        planes = torch.addcmul(laid[:-1] * 255, 1 - laid[-1:], planes)
    return planes.round().clamp(0, 255).to(torch.uint8).permute(1, 2, 0)


def lookup(matrices: Tensor, size: tuple[int, int], source: tuple[int, int]) -> Tensor:
    """Return grids (K, H, W, 2) for ``grid_sample`` from maps (K, 2, 3) of result to source pixels.

    ``size`` is that of the result, (H, W), and ``source`` that of what is looked up in.
    """
    (height, width), (rows, columns) = size, source
    x = torch.arange(width, dtype=torch.float32, device=matrices.device)
    y = torch.arange(height, dtype=torch.float32, device=matrices.device)[:, None]
    (a, b, c), (d, e, f) = (matrices[:, i, :, None, None].unbind(dim=1) for i in range(2))
    across = (a * x + b * y + c + 0.5) * (2 / columns) - 1
    down = (d * x + e * y + f + 0.5) * (2 / rows) - 1
    return torch.stack([across, down], dim=-1)
