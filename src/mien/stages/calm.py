"""Calm: what is seen of a face does not flicker from frame to frame, and a hand leaves no trail.

The occlusion network answers the camera's noise with edges that tremble. What it says of a frame is
averaged with what it said of the few frames before, each pixel over those among them that say much
the same about its surroundings: a bilateral filter over time (Tomasi & Manduchi: "Bilateral
filtering for gray and color images", ICCV 1998, with time in the place of space). As soon as a
region changes by more than the noise does, the frames before no longer count there, so nothing that
moves drags its past along; and as the memory ends after DEPTH frames, nothing else does for long.

Faces are held still in their crops by their steadied points, so a pixel is the same place of the
face in all frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

DEPTH = 3
"""Frames before the present one that count."""

REGION = 5
"""Width of the square, in the network's pixels, over which a change must be of one sign."""

HIDDEN, SHOWN = 0.1, 0.2
"""Changes of a region's mean probability from which the frames before do not count: when more of
it is hidden than before, and when more is seen.

A sharp edge that moves by half a pixel changes it by 0.1, a camera's noise of 3 codes by 0.01. With
0.3 and 0.6 flicker of masks is not less, but a hand that moves slowly drags an edge of its past
along, and the clip flickers by 3 % more than with no filter."""


def calmed(now: Tensor, before: Sequence[Tensor]) -> Tensor:
    """Return ``now``, the probabilities float32 (s, s) of a face, with ``before`` averaged in.

    ``before`` are those of the frames before, the latest first; those beyond DEPTH do not count.
    Where a frame does not count, none before it does.
    """
    total, weights = now.clone(), torch.ones_like(now)
    counts = torch.ones_like(now)
    for old in before[:DEPTH]:
        change = _mean(now - old)
        band = torch.where(change < 0, HIDDEN, SHOWN)
        counts = counts * (1 - (change.abs() / band).clamp_max(1).square())
        total += counts * old
        weights += counts
    return total / weights


def _mean(values: Tensor) -> Tensor:
    """Return the means over REGION x REGION pixels, of those of them that there are, (s, s)."""
    means = _means(len(values), values.device)
    return means @ values @ means.T  # on a CPU a third of the time of a pooling


@lru_cache(maxsize=16)
def _means(size: int, device: torch.device) -> Tensor:
    """Return the matrix, float32 (size, size), that takes a line to means over REGION pixels."""
    line = torch.arange(size, device=device)
    near = ((line[:, None] - line).abs() <= REGION // 2).float()
    return near / near.sum(dim=1, keepdim=True)
