"""Spans: which lines of pixels a crop is cut from, and by which filters, as tensors.

``warp`` cuts and pastes one face after another and may look at every number; what is here never
does, so a CUDA graph can hold it, and a kernel needs no more than a row of numbers for a crop.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from mien.geometry.similarity import apply, compose, invert, scales

MARGIN = 2 + 1 / 256
"""Pixels beyond the crop that filters reach; and a little, so that no rounding decides where a
piece ends whose places are whole numbers."""

UP = 2
"""A patch is looked up at this many times its own size: a bilinear look-up alone shows blocks."""

FAINT = 1 / 512
"""Opacity that changes no code."""


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


def placed(across: Span, down: Span) -> Tensor:
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


def pieces(
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


def cut_table(matrices: Tensor, size: int, height: int, width: int) -> Tensor:
    """Return what a kernel is told of each crop, float32 (K, 13); see ``mien.kernels.cut``.

    ``matrices`` (K, 2, 3) are similarities from pixels of a frame (height, width) to crop pixels.
    """
    scale, back, across, down = pieces(matrices, size, height, width)
    shrinks = (scale < 1)[:, None].float()
    return torch.cat([back.flatten(1), across.numbers, down.numbers, shrinks], dim=1)


def whole_table(size: tuple[int, int], frame: tuple[int, int]) -> Tensor:
    """Return that of a frame (H, W) resized to ``size`` (H, W) with a triangle, float32 (1, 13)."""
    (rows, columns), (height, width) = size, frame
    x, y = width / columns, height / rows
    back = [x, 0, (x - 1) / 2, 0, y, (y - 1) / 2]
    return torch.tensor([[*back, 0, width, columns, 0, height, rows, 1]], dtype=torch.float32)


def enlarged(patches: Tensor, matrices: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return patches (K, 4, s, s) fit to be looked up bilinearly, and how: maps (K, 2, 3).

    Patches of faces smaller than they are shrunk first, by the filters of ``geometry.paste``.
    ``weights`` are those of ``finer``.
    """
    size = patches.shape[-1]
    shrink = (1 / scales(matrices)).clamp_max(1)
    nothing = torch.zeros_like(shrink)
    whole = Span(nothing, nothing + size, (shrink * size).round().clamp_min(1))
    filters = whole.filters(shrink, size, size)
    # beyond its last pixel nothing is looked up
    inside = torch.arange(size, device=patches.device) < whole.count[:, None]
    filters = torch.where(inside[:, :, None], filters, 0)
    filters = (weights @ filters)[:, None]
    fine = filters @ patches @ filters.transpose(-1, -2)
    grids = UP * compose(placed(whole, whole), matrices)
    return fine, torch.cat([grids[..., :2], grids[..., 2:] + (UP - 1) / 2], dim=-1)


@lru_cache(maxsize=8)
def finer(size: int, device: torch.device) -> Tensor:
    """Return the weights (UP * size, size) that enlarge a line UP times by a cubic."""
    one = torch.eye(size)[:, None, None]
    lines = functional.interpolate(one, (1, UP * size), mode="bicubic", antialias=True)
    return lines[:, 0, 0].T.contiguous().to(device)
