"""Two reports beside each other, row by row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from mien.bench.measure import Row
from mien.bench.numbers import median_ratio
from mien.bench.report import Report


@dataclass(frozen=True, slots=True)
class Ratios:
    """New by old of one row: below 1 is faster, but for ``per_second``."""

    path: str
    size: str
    faces: int
    n: int
    """Frames that both have; each ratio is the median of as many."""

    whole: float | None
    stages: Mapping[str, float | None]
    """Of the stages that both have."""

    per_second: float
    """New by old: above 1 is faster."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is faster and slower, and what else is not as it was."""

    rows: tuple[Ratios, ...]
    only: tuple[str, ...]
    """Rows that one report has and the other has not."""

    changed: tuple[str, ...]
    """What differs in machine, versions, options and networks, each with old and new."""

    def as_dict(self) -> dict[str, Any]:
        """Return all of it, ready for JSON."""
        return asdict(self)


def compare(new: Report, old: Report) -> Comparison:
    """Return ``new`` beside ``old``."""
    before, after = ({row.key: row for row in each.rows} for each in (old, new))
    return Comparison(
        rows=tuple(_ratios(row, before[key]) for key, row in after.items() if key in before),
        only=tuple(
            f"{path}, {size}, faces {faces}: only in the {'old' if key in before else 'new'} report"
            for key in {**after, **before}
            if (key in before) != (key in after)
            for path, size, faces in [key]
        ),
        changed=tuple(_changes(new, old)),
    )


def _ratios(new: Row, old: Row) -> Ratios:
    path, size, faces = new.key
    return Ratios(
        path=path,
        size=size,
        faces=faces,
        n=min(len(new.samples), len(old.samples)),
        whole=_rounded(median_ratio(new.samples, old.samples)),
        stages={
            stage: _rounded(median_ratio(times, old.stages[stage]))
            for stage, times in new.stages.items()
            if stage in old.stages
        },
        per_second=round(new.per_second / old.per_second, 3),
    )


def _changes(new: Report, old: Report) -> Iterator[str]:
    for key in {**old.setting, **new.setting}:
        before, now = old.setting.get(key), new.setting.get(key)
        if before != now:
            yield f"{key}: {before} before, {now} now"
    networks = [
        {(path, name): f"{digest[:12]} on {on}" for path, all_of in each.networks.items()
         for name, (digest, on) in all_of.items()}
        for each in (old, new)
    ]  # fmt: skip
    both = old.networks.keys() & new.networks.keys()
    for path, name in {**networks[0], **networks[1]}:
        if path not in both:
            continue
        before, now = (each.get((path, name)) for each in networks)
        if before != now:
            yield f"{name} ({path}): {before} before, {now} now"


def _rounded(ratio: float | None) -> float | None:
    return None if ratio is None else round(ratio, 3)
