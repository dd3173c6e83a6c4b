"""Cuts: whether a frame belongs to the same shot as the one before.

Frames are compared as small pictures. A cut changes what is where and which colours there are; a
fast pan only the first, a flash or a fade of the light only the second. Both must change to be a
cut. If one does, the frame is doubtful: whoever is where a face was may be somebody else.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from mien.stages.glimpse import correlation

ROWS, COLUMNS = 36, 64
"""The small picture."""

BINS = 8
"""Steps of red, green and blue of the histogram: 512 colours."""

CUT, DOUBT = 0.4, 0.6
"""Correlations of two frames below which there may be a cut, and below which there is doubt.

Measured: cuts have -0.25 to 0.32; a pan by an eighth of the width in one frame 0.61, by a quarter
0.27; a head thrown about 0.61; flashes and fades 0.98."""

OTHER_COLOURS = 0.2
"""Share of the pixels, 0 to 1, whose colours must have changed in a cut.

Measured: cuts have 0.45 to 0.8, a cut to a part of the same scene 0.22; a pan by a quarter of the
width 0.12, by half 0.17; flashes 0.7."""

BAR = 6.0
"""Codes by which the pixels of a bar may differ."""

Change = Literal["none", "doubt", "cut"]


class CutFinder:
    """Compares each frame with the one before."""

    def __init__(self) -> None:
        self._before: Tensor | None = None

    def __call__(self, pixels: Tensor) -> Change:
        """Return what separates uint8 ``pixels`` (H, W, 3) from those of the call before.

        The first frame is no cut.
        """
        now, before = _small(pixels), self._before
        self._before = now
        if before is None or before.equal(now):
            return "none"
        before, now = _without_bars(before, now)
        alike = correlation(before.mean(dim=0) / 255, now.mean(dim=0) / 255)
        if alike >= DOUBT:
            return "none"
        changed = float((_histogram(before) - _histogram(now)).abs().sum()) / 2
        return "cut" if alike < CUT and changed > OTHER_COLOURS else "doubt"


def _small(pixels: Tensor) -> Tensor:
    """Return the small picture, float32 (3, ROWS, COLUMNS), in codes, on the CPU."""
    planes = pixels.permute(2, 0, 1)[None]
    if planes.is_cuda:
        planes = planes.float()
    small = functional.interpolate(planes, (ROWS, COLUMNS), mode="bilinear", antialias=True)
    return small[0].float().cpu()


def _without_bars(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return two small pictures without the bars at their sides, which no cut changes.

    A bar is rows or columns from the edge that are flat, and the same in both.
    """
    for along in (0, 1):
        low, high = a.aminmax(dim=along + 1)
        flat = ((high - low).amax(dim=0) < BAR).tolist()
        if not (flat[0] or flat[-1]):
            continue
        still = ((a - b).abs() < BAR).all(dim=0).all(dim=along).tolist()
        used = [i for i, same in enumerate(still) if not (same and flat[i])]
        # a column of the small picture may show some of the bar, and some of what is beside it
        if used and used[-1] - used[0] >= 4:
            span = slice(used[0] + (used[0] > 0), used[-1] + 1 - (used[-1] + 1 < len(flat)))
            a, b = (x[:, span] if along else x[:, :, span] for x in (a, b))
    return a, b


def _histogram(small: Tensor) -> Tensor:
    """Return the shares (BINS ** 3,) of the colours, blurred a little so that no edge counts."""
    step = 256 / BINS
    counts = small.new_zeros(BINS**3)
    for shift in (-step / 3, 0.0, step / 3):
        bins = ((small + shift) / step).floor().clamp(0, BINS - 1).long()
        index = (bins[0] * BINS + bins[1]) * BINS + bins[2]
        counts += torch.bincount(index.flatten(), minlength=BINS**3)
    return counts / counts.sum()
