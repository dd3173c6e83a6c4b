"""Medians and percentiles that say only what their samples can bear."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

ENOUGH = {50: 1, 95: 20, 99: 100}
"""Samples from which on a percentile is told: of fewer it would be the maximum by another name."""


def percentile(samples: Sequence[float], rank: int) -> float | None:
    """Return a percentile, interpolated between neighbours as numpy does; None of too few."""
    if len(samples) < ENOUGH[rank]:
        return None
    ordered = sorted(samples)
    at = (len(ordered) - 1) * rank / 100
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def median_ratio(new: Sequence[float], old: Sequence[float]) -> float | None:
    """Return the median of the ratios sample by sample, as far as both go; None if there is none.

    The samples of a row belong to the same frames, so what a frame makes slow drops out.
    """
    ratios = [a / b for a, b in zip(new, old, strict=False) if b > 0]
    return median(ratios) if ratios else None
