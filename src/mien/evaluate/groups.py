"""Scores by group: whether a swapper serves everybody alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mien.evaluate.intervals import Interval, bootstrap
from mien.evaluate.people import Portrait

TURNED = 20.0
"""Degrees of yaw from which a head counts as turned."""

FEWEST = 5
"""Pairs that a group must have: fewer say nothing."""


def groups_of_pair(source: Portrait, target: Portrait) -> dict[str, str]:
    """Return the groups a pair counts for, by kind: of the source, the target, and of both."""
    groups = {}
    for kind in sorted({*source.groups, *target.groups}):
        a, b = source.groups.get(kind), target.groups.get(kind)
        if a:
            groups[f"{kind} of the source"] = a
        if b:
            groups[f"{kind} of the target"] = b
        if a and b:
            groups[f"{kind} of both"] = "the same" if a == b else "different"
    yaw = abs(float(target.reading.pose[0, 0]))
    groups["head of the target"] = "turned" if yaw >= TURNED else "to the front"
    return groups


def by_group(
    groups: Sequence[Mapping[str, str]],
    values: Mapping[str, Tensor],
    *,
    clusters: Tensor,
    geometric: frozenset[str],
    seed: int = 0,
) -> dict[str, dict[str, dict[str, Interval]]]:
    """Return the means of ``values`` (N,) in each group, by kind, group and measure.

    ``groups`` are those of the N pairs, ``clusters`` (N,) as for ``bootstrap``. A kind with one
    group only is left out, for it has nothing to compare, and so is a group with less than FEWEST
    pairs.
    """
    found: dict[str, dict[str, dict[str, Interval]]] = {}
    for kind in sorted({kind for one in groups for kind in one}):
        members: dict[str, list[int]] = {}
        for i, one in enumerate(groups):
            if kind in one:
                members.setdefault(one[kind], []).append(i)
        if len(members) < 2:
            continue
        found[kind] = {
            group: bootstrap(
                {key: value[torch.tensor(rows)] for key, value in values.items()},
                clusters=clusters[torch.tensor(rows)],
                geometric=geometric,
                seed=seed,
            )
            for group, rows in sorted(members.items())
            if len(rows) >= FEWEST
        }
    return found
