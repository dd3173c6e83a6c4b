"""Means with intervals: how far a score would move if other pairs had been drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

RESAMPLES = 2000
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over pairs and its bootstrap interval; all NaN if there was nothing to average."""

    mean: float
    low: float
    high: float
    count: int
    """Pairs that had a value."""

    def report(self) -> dict[str, float | int | None]:
        """Return it ready for JSON, with null for NaN."""
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in asdict(self).items()
        }


def resamples(
    count: int, *, clusters: Tensor | None = None, times: int = RESAMPLES, seed: int = 0
) -> Tensor:
    """Return how often each of ``count`` pairs is drawn in each resample, float64 (times, count).

    As many as there are, drawn with replacement (Efron, "Bootstrap methods: another look at the
    jackknife", 1979). ``clusters`` (count,) are numbers of what the pairs have in common, such as
    their source: pairs that share it are not independent, and are drawn together (Davison and
    Hinkley, "Bootstrap methods and their application", 1997, section 3.8).
    """
    groups = torch.arange(count) if clusters is None else clusters.unique(return_inverse=True)[1]
    number = int(groups.max()) + 1 if count else 0
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(max(number, 1), (times, number), generator=generator)
    counts = torch.zeros(times, number, dtype=torch.float64)
    counts.scatter_add_(1, drawn, torch.ones_like(drawn, dtype=torch.float64))
    return counts[:, groups]


def bootstrap(
    values: Mapping[str, Tensor],
    *,
    clusters: Tensor | None = None,
    geometric: frozenset[str] = frozenset(),
    seed: int = 0,
) -> dict[str, Interval]:
    """Return the mean of each of ``values`` (N,), with the percentile interval of LEVEL.

    All are resampled together, by ``clusters`` if there are any: see ``resamples``. NaN is a
    missing value. ``geometric`` names those, positive, whose geometric mean is wanted: ratios.
    """
    if not values:
        return {}
    names = list(values)
    table = torch.stack([values[name].double().cpu() for name in names], dim=1)
    logs = torch.tensor([name in geometric for name in names])
    table = torch.where(logs, table.clamp_min(1e-12).log(), table)
    there = table.isfinite()
    table = torch.where(there, table, 0.0)
    mean = table.sum(dim=0) / there.sum(dim=0)
    counts = resamples(len(table), clusters=clusters, seed=seed)
    means = (counts @ table) / (counts @ there.double())
    edges = means.new_tensor([(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    # a resample without any value of a measure says nothing of it
    low, high = torch.nanquantile(means, edges, dim=0)
    mean, low, high = (torch.where(logs, part.exp(), part) for part in (mean, low, high))
    return {
        name: Interval(float(mean[i]), float(low[i]), float(high[i]), int(there[:, i].sum()))
        for i, name in enumerate(names)
    }


def interval(mean: float, resampled: Tensor, count: int) -> Interval:
    """Return a statistic with the percentile interval of its values ``resampled`` (times,)."""
    edges = resampled.new_tensor([(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    low, high = torch.nanquantile(resampled, edges).tolist()
    return Interval(mean, low, high, count)
