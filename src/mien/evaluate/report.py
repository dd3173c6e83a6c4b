"""What an evaluation found: for JSON, and as a table for the terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mien.evaluate.intervals import Interval
from mien.evaluate.looks import Look
from mien.evaluate.measures import Measure
from mien.version import __version__

TITLES = {
    "subject": "result",
    "untouched": "target untouched",
    "pasted": "source pasted",
    "itself": "face on itself",
}
"""What is evaluated, and the controls."""

SIGNS = {
    "high": "higher is better",
    "low": "lower is better",
    "one": "1 is best",
    "zero": "must be 0",
}


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One pair and its scores."""

    source: str
    target: str
    groups: Mapping[str, str]
    """Which groups the pair counts for, by kind."""

    values: Mapping[str, float]
    """By measure; NaN where there is none."""

    look: Look
    """The pictures."""


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """The scores of one subject under one protocol."""

    subject: Mapping[str, Any]
    name: str
    protocol: str
    seed: int
    people: int
    gallery: int
    """How many people a source is looked for among."""

    judges: Sequence[Mapping[str, Any]]
    measures: tuple[Measure, ...]
    scores: Mapping[str, Mapping[str, Interval]]
    """By 'subject' or control, then by measure."""

    groups: Mapping[str, Mapping[str, Mapping[str, Interval]]]
    """Of the subject: by kind of group, group, and measure."""

    rows: tuple[Row, ...]
    controls: Mapping[str, Mapping[str, Sequence[float]]]
    """The values of the controls' pairs, by control and measure."""

    failures: tuple[tuple[str, str, str], ...] = ()
    """Source, target and reason of pairs without a result."""

    faceless: tuple[str, ...] = ()
    """Pictures of people in which no face was found."""

    clips: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    consents: tuple[str, ...] = ()
    seconds: float = 0.0

    def report(self) -> dict[str, Any]:
        """Return everything but the pictures, ready for JSON."""
        return {
            "mien": __version__,
            "subject": dict(self.subject),
            "protocol": self.protocol,
            "seed": self.seed,
            "people": self.people,
            "gallery": self.gallery,
            "judges": [dict(judge) for judge in self.judges],
            "measures": {
                measure.key: {
                    "title": measure.title,
                    "unit": measure.unit,
                    "best": measure.best,
                    **{
                        variant: scores[measure.key].report()
                        for variant, scores in self.scores.items()
                        if measure.key in scores
                    },
                }
                for measure in self.measures
            },
            "groups": {
                kind: {
                    group: {key: value.report() for key, value in scores.items()}
                    for group, scores in groups.items()
                }
                for kind, groups in self.groups.items()
            },
            "clips": {name: dict(values) for name, values in self.clips.items()},
            "pairs": [
                {
                    "source": row.source,
                    "target": row.target,
                    **{key: _number(value) for key, value in row.values.items()},
                }
                for row in self.rows
            ],
            "failures": [
                {"source": source, "target": target, "reason": reason}
                for source, target, reason in self.failures
            ],
            "faceless": list(self.faceless),
            "consents": list(self.consents),
            "seconds": round(self.seconds, 1),
        }

    def table(self) -> str:
        """Return the scores with their intervals, and the controls, as lines of text."""
        heads = ["measure", TITLES["subject"], "95 % interval"]
        heads += [TITLES[variant] for variant in self.scores if variant != "subject"]
        lines = [heads]
        for measure in self.measures:
            cells = [f"{measure.title} ({measure.unit})" if measure.unit else measure.title]
            for variant, scores in self.scores.items():
                value = scores.get(measure.key)
                cells.append(mean_of(value, measure))
                if variant == "subject":
                    cells.append(range_of(value, measure))
            lines.append(cells)
        wide = [max(len(line[i]) for line in lines) for i in range(len(heads))]
        text = [
            "  ".join(
                f"{cell:<{w}}" if i == 0 else f"{cell:>{w}}"
                for i, (cell, w) in enumerate(zip(line, wide, strict=True))
            ).rstrip()
            for line in lines
        ]
        return "\n".join([text[0], "-" * len(text[0]), *text[1:]])


def shown(value: float | None, measure: Measure) -> str:
    """Return a number as a reader wants it."""
    if value is None or not math.isfinite(value):
        return "-"
    if measure.geometric or abs(value) < 10_000:
        return f"{value:.{measure.digits}f}"
    return f"{value:.3g}"


def mean_of(value: Interval | None, measure: Measure) -> str:
    """Return the mean as a reader wants it."""
    return shown(value.mean if value else None, measure)


def range_of(value: Interval | None, measure: Measure) -> str:
    """Return the interval as a reader wants it."""
    if value is None or not math.isfinite(value.low):
        return "-"
    return f"{shown(value.low, measure)} to {shown(value.high, measure)}"


def _number(value: float) -> float | None:
    return round(value, 5) if math.isfinite(value) else None
