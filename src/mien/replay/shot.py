"""Cuts as in ``stages.cut``, without a look at any number.

Of doubts nothing is told: no embedding could settle them.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from mien.kernels import fused
from mien.stages.cut import BAR, BINS, COLUMNS, CUT, OTHER_COLOURS, ROWS
from mien.stages.glimpse import FLAT


class Shots(nn.Module):
    """Compares each frame with the one before."""

    down: Tensor
    across: Tensor

    def __init__(self, size: tuple[int, int]) -> None:
        """``size`` (H, W) is that of the pictures that are compared."""
        super().__init__()
        height, width = size
        self.register_buffer("down", _filters(height, ROWS))
        self.register_buffer("across", _filters(width, COLUMNS).T.contiguous())

    def forward(self, pixels: Tensor, before: Tensor) -> Tensor:
        """Return whether a cut is before ``pixels``, float32 (3, H, W) in [0, 255], as bool ().

        ``before`` is what was written there for the frame before: see ``none``.
        """
        now = self.down @ pixels @ self.across
        cut = _cut(now, before)
        before.copy_(now)
        return cut

    @staticmethod
    def none() -> Tensor:
        """Return a frame that is black, float32 (3, ROWS, COLUMNS)."""
        return torch.zeros(3, ROWS, COLUMNS)


def _filters(count: int, size: int) -> Tensor:
    """Return the weights (size, count) that resize a line: products are faster than a resize."""
    one = torch.eye(count)[:, None, None]
    lines = functional.interpolate(one, (1, size), mode="bilinear", antialias=True)
    return lines[:, 0, 0].T.contiguous()


@fused
def _cut(now: Tensor, before: Tensor) -> Tensor:
    """Return whether two small pictures, float32 (3, ROWS, COLUMNS) in codes, are of two shots."""
    shown = _without_bars(before, now)
    changed = (_histogram(before, shown) - _histogram(now, shown)).abs().sum() / 2
    return (_correlation(before, now, shown) < CUT) & (changed > OTHER_COLOURS)


def _without_bars(a: Tensor, b: Tensor) -> Tensor:
    """Return 1 where two pictures show no bar at their sides, and 0 elsewhere, (ROWS, COLUMNS)."""
    still = ((a - b).abs() < BAR).all(dim=0)
    columns = _span(~(_flat(a, 1) & still.all(dim=0)))
    # what a bar at the side covers says nothing of a row
    low, high = (torch.where(columns, a, end) for end in (torch.inf, -torch.inf))
    flat = (high.amax(dim=2) - low.amin(dim=2)).amax(dim=0) < BAR
    rows = _span(~(flat & (still | ~columns).all(dim=1)))
    return (rows[:, None] & columns).to(a)


def _flat(a: Tensor, dim: int) -> Tensor:
    return (a.amax(dim=dim) - a.amin(dim=dim)).amax(dim=0) < BAR


def _span(used: Tensor) -> Tensor:
    """Return which lines are not of a bar, bool (N,), if those that are ``used`` are four."""
    count = len(used)
    line = torch.arange(count, device=used.device)
    first, last = torch.where(used, line, count).amin(), torch.where(used, line, -1).amax()
    # the outermost may show some of the bar, and some of what is beside it
    low, high = first + (first > 0), last - (last + 1 < count).int()
    return (last - first < 4) | ((line >= low) & (line <= high))


def _correlation(a: Tensor, b: Tensor, shown: Tensor) -> Tensor:
    """Return how alike two pictures are where they are ``shown``, -1 to 1, whatever their light."""
    count = shown.sum().clamp_min(1)
    planes = torch.stack([a.mean(dim=0), b.mean(dim=0)]) / 255
    off = (planes - (planes * shown).sum(dim=(1, 2), keepdim=True) / count) * shown
    power = off.square().sum(dim=(1, 2))
    flat = power.amin() / count < FLAT**2
    alike = (off[0] * off[1]).sum() / power.prod().clamp_min(1e-12).sqrt()
    return torch.where(flat, 0, alike)


def _histogram(small: Tensor, shown: Tensor) -> Tensor:
    """Return the shares (BINS ** 3,) of the colours, blurred a little so that no edge counts."""
    step = 256 / BINS
    counts = small.new_zeros(BINS**3)
    for shift in (-step / 3, 0.0, step / 3):
        bins = ((small + shift) / step).floor().clamp(0, BINS - 1).long()
        index = (bins[0] * BINS + bins[1]) * BINS + bins[2]
        counts = counts.index_add(0, index.flatten(), shown.flatten())
    return counts / counts.sum().clamp_min(1)
