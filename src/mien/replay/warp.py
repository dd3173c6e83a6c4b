"""The two warps of ``mien.geometry.warp`` without a look at any number: sizes are known beforehand.

There, pictures are cut to what a face needs, and resized to whole pixels: so the processor has to
know where the face is. Here the resize is a product with a matrix of filter weights on either side,
computed where the picture lies, onto a window of fixed size.

Both take several frames at once, (B, H, W, 3), with as many faces of each, one frame after another;
one frame alone may be (H, W, 3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from mien.geometry import apply, compose, invert, scales
from mien.kernels import fused, usable

MARGIN, SPARE = 2, 10
"""Pixels beyond the crop that filters reach, and by how much a window is larger for their sake."""

UP = 2
"""A patch is looked up at this many times its own size: a bilinear look-up alone shows blocks."""

FAINT = 1 / 512
"""Opacity that changes no code."""


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
    scale, back, across, down = _pieces(matrices, size, height, width)
    side = math.ceil(size * math.sqrt(2)) + SPARE
    rows = down.filters(scale, side, height)[:, None]
    columns = across.filters(scale, side, width)[:, None]
    each = len(matrices) // len(frames)
    parts = zip(frames, rows.split(each), columns.split(each), strict=True)
    window = torch.cat(  # frame by frame: a product of all at once would copy a frame for each face
        [r @ frame.permute(2, 0, 1).float() @ c.transpose(-1, -2) for frame, r, c in parts]
    )
    # crop pixel -> frame -> window
    grid = lookup(compose(_placed(across, down), back), (size, size), (side, side))
    # what lies beyond the resized piece is not its edge: look no further than there
    last = torch.stack([across.count, down.count], dim=1)[:, None, None] - 1
    grid = grid.clamp_max((2 * last + 1) / side - 1)
    crops = functional.grid_sample(
        window, grid, mode="bilinear", padding_mode="border", align_corners=False
    )
    return (crops / 255).clamp(0, 1)


def _pieces(
    matrices: Tensor, size: int, height: int, width: int
) -> tuple[Tensor, Tensor, Span, Span]:
    """Return scales (K,), maps from crop to frame, and which columns and rows are resized."""
    scale, back = scales(matrices), invert(matrices)
    margin = MARGIN * (1 / scale).clamp_min(1)[:, None]
    edges = torch.arange(2, device=matrices.device) * float(size) - 0.5
    corners = apply(back, torch.cartesian_prod(edges, edges))
    low, high = corners.amin(dim=1), corners.amax(dim=1)
    (left, top), (right, bottom) = ((low - margin).unbind(dim=1), (high + margin).unbind(dim=1))
    across, down = (
        Span.around(left, right, scale, width),
        Span.around(top, bottom, scale, height),
    )
    return scale, back, across, down


@fused
def _table(matrices: Tensor, size: int, height: int, width: int) -> Tensor:
    """Return what the kernel is told of each crop, float32 (K, 13)."""
    scale, back, across, down = _pieces(matrices, size, height, width)
    shrinks = (scale < 1)[:, None].float()
    return torch.cat([back.flatten(1), across.numbers, down.numbers, shrinks], dim=1)


def whole_table(size: tuple[int, int], frame: tuple[int, int]) -> Tensor:
    """Return that of a frame (H, W) resized to ``size`` (H, W) with a triangle, float32 (1, 13)."""
    (rows, columns), (height, width) = size, frame
    x, y = width / columns, height / rows
    back = [x, 0, (x - 1) / 2, 0, y, (y - 1) / 2]
    return torch.tensor([[*back, 0, width, columns, 0, height, rows, 1]], dtype=torch.float32)


def lay(frames: Tensor, patches: Tensor, matrices: Tensor, order: Tensor) -> Tensor:
    """Return ``frames``, uint8 ([B,] H, W, 3), with ``patches`` laid over them.

    ``patches`` is float (B K, 4, S, S): RGB in [0, 1], multiplied by the last channel, the opacity.
    ``matrices`` (B K, 2, 3) take frame pixels to patch pixels, ``order`` (K,) says which of a
    frame's patches lies lowest, which above it and so on.
    """
    fine, grids = _enlarged(patches, matrices, _finer(patches.shape[-1], patches.device))
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
    """Return one frame, uint8 (H, W, 3), with what ``_enlarged`` returned laid over it."""
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


@fused
def _enlarged(patches: Tensor, matrices: Tensor, finer: Tensor) -> tuple[Tensor, Tensor]:
    """Return patches (K, 4, s, s) fit to be looked up bilinearly, and how: maps (K, 2, 3).

    Patches of faces smaller than they are shrunk first, by the filters of ``geometry.paste``.
    ``finer`` is what ``_finer`` returns.
    """
    size = patches.shape[-1]
    shrink = (1 / scales(matrices)).clamp_max(1)
    nothing = torch.zeros_like(shrink)
    whole = Span(nothing, nothing + size, (shrink * size).round().clamp_min(1))
    filters = whole.filters(shrink, size, size)
    # beyond its last pixel nothing is looked up
    inside = torch.arange(size, device=patches.device) < whole.count[:, None]
    filters = torch.where(inside[:, :, None], filters, 0)
    filters = (finer @ filters)[:, None]
    fine = filters @ patches @ filters.transpose(-1, -2)
    grids = UP * compose(_placed(whole, whole), matrices)
    return fine, torch.cat([grids[..., :2], grids[..., 2:] + (UP - 1) / 2], dim=-1)


@lru_cache(maxsize=8)
def _finer(size: int, device: torch.device) -> Tensor:
    """Return the weights (UP * size, size) that enlarge a line UP times by a cubic."""
    one = torch.eye(size)[:, None, None]
    lines = functional.interpolate(one, (1, UP * size), mode="bicubic", antialias=True)
    return lines[:, 0, 0].T.contiguous().to(device)


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """Pieces of K lines of pixels, each resized to whole pixels; all fields are float32 (K,)."""

    first: Tensor
    """First source pixel."""

    last: Tensor
    """The one after the last."""

    count: Tensor
    """Pixels that it is resized to."""

    @classmethod
    def around(cls, low: Tensor, high: Tensor, scale: Tensor, length: int) -> Span:
        """Return the whole pixels around ``low`` to ``high`` of a line of ``length``."""
        first = low.floor().clamp(0, length - 1)
        last = torch.maximum(high.ceil() + 1, first + 1).clamp_max(length)
        return cls(first, last, ((last - first) * scale).round().clamp_min(1))

    @property
    def numbers(self) -> Tensor:
        """All three, float32 (K, 3)."""
        return torch.stack([self.first, self.last, self.count], dim=1)

    @property
    def ratio(self) -> Tensor:
        """By how much it is resized."""
        return self.count / (self.last - self.first)

    def filters(self, scale: Tensor, count: int, length: int) -> Tensor:
        """Return the weights of source pixels in ``count`` result pixels, (K, count, length).

        As ``functional.interpolate`` has them with ``antialias``: a triangle as wide as a result
        pixel where ``scale`` shrinks, the cubic of Keys ("Cubic convolution interpolation", 1981;
        a = -0.5) where it grows.
        """
        ratio, first, last = (x[:, None, None] for x in (self.ratio, self.first, self.last))
        steps = torch.arange(count, device=scale.device, dtype=torch.float32)[:, None]
        line = torch.arange(length, device=scale.device, dtype=torch.float32)
        apart = (line - first + 0.5 - (steps + 0.5) / ratio).abs() * ratio.clamp_max(1)
        found = torch.where(scale[:, None, None] < 1, (1 - apart).clamp_min(0), _cubic(apart))
        found = torch.where((line >= first) & (line < last), found, 0)
        return found / found.sum(dim=-1, keepdim=True).clamp_min(1e-6)


def _placed(across: Span, down: Span) -> Tensor:
    """Return maps (K, 2, 3) from source pixels to those of the resized piece."""
    zero = torch.zeros_like(across.count)
    rows = [
        torch.stack(
            [zero] * axis
            + [span.ratio]
            + [zero] * (1 - axis)
            + [(span.ratio - 1) / 2 - span.ratio * span.first],
            dim=1,
        )
        for axis, span in enumerate((across, down))
    ]
    return torch.stack(rows, dim=1)


def _cubic(x: Tensor) -> Tensor:
    near = (1.5 * x - 2.5) * x * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return torch.where(x <= 1, near, torch.where(x < 2, far, 0))


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
