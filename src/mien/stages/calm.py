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
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What an occlusion network says of K faces, in one frame and in the few before."""

    now: Tensor
    """float32 (K, s, s): probabilities that the face is seen."""

    before: Tensor
    """float32 (D, K, s, s): those of the frames before, the latest first."""

    there: Tensor
    """float32 (D, K): 1 where there is such a one, and else 0."""

    @classmethod
    def of(cls, now: Tensor, past: Sequence[Sequence[Tensor]]) -> Seen:
        """Return what is seen ``now`` with the ``past`` of each face, the latest (s, s) first."""
        depth = min(DEPTH, max(map(len, past), default=0))
        before, there = now.new_zeros(0, *now.shape), torch.zeros(0, len(now))
        if depth:
            rows = [
                each[d] if d < len(each) else face
                for d in range(depth)
                for face, each in zip(now, past, strict=True)
            ]
            before = torch.stack(rows).unflatten(0, (depth, len(now)))
            there = torch.tensor([[float(d < len(each)) for each in past] for d in range(depth)])
        return cls(now, before, there.to(now.device))


def calmed(now: Tensor, before: Tensor, there: Tensor) -> Tensor:
    """Return ``now``, the probabilities float32 (K, s, s) of faces, with ``before`` averaged in.

    ``before`` (D, K, s, s) are those of the frames before, the latest first; those beyond DEPTH do
    not count, nor do those that are not ``there``, float32 (D, K). Where a frame does not count,
    none before it does.
    """
    total, weights = now.clone(), torch.ones_like(now)
    counts = torch.ones_like(now)
    for old, known in zip(before[:DEPTH], there[:DEPTH, :, None, None], strict=True):
        change = _mean(now - old)
        band = torch.where(change < 0, HIDDEN, SHOWN)
        counts = counts * (1 - (change.abs() / band).clamp_max(1).square()) * known
        total += counts * old
        weights += counts
    return total / weights


def _mean(values: Tensor) -> Tensor:
    """Return the means over REGION x REGION pixels, of those that there are, (K, s, s)."""
    means = _means(values.shape[-1], values.device)
    return means @ values @ means.T  # on a CPU a third of the time of a pooling


@lru_cache(maxsize=16)
def _means(size: int, device: torch.device) -> Tensor:
    """Return the matrix, float32 (size, size), that takes a line to means over REGION pixels."""
    line = torch.arange(size, device=device)
    near = ((line[:, None] - line).abs() <= REGION // 2).float()
    return near / near.sum(dim=1, keepdim=True)
