"""Plots as SVG text, for a page that needs nothing from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from mien.evaluate.intervals import Interval

WIDTH, HEIGHT, LEFT, BOTTOM = 360, 130, 10, 22
ROW = 22
COLOURS = {
    "subject": "#2a6fb0",
    "untouched": "#888888",
    "pasted": "#d08020",
    "itself": "#3a9a5a",
}
BINS = 24


def histogram(values: Mapping[str, Sequence[float]], titles: Mapping[str, str], title: str) -> str:
    """Return how the values of each series are spread: outlines over one axis, and their means.

    Values that are not finite are left out, and the most extreme hundredths are drawn at the ends.
    Series are named by the keys of COLOURS.
    """
    clean = {name: [v for v in column if math.isfinite(v)] for name, column in values.items()}
    clean = {name: column for name, column in clean.items() if column}
    if not clean:
        return ""
    every = sorted(v for column in clean.values() for v in column)
    edge = len(every) // 100
    low, high = _range(every[edge : len(every) - edge])
    parts = [_text(LEFT, 12, title, "bold")]
    shares = {name: _shares(column, low, high) for name, column in clean.items()}
    most = max(share for column in shares.values() for share in column)
    floor, top = HEIGHT - BOTTOM, 20
    for name, column in clean.items():
        colour = COLOURS.get(name, "#444444")
        step = (WIDTH - 2 * LEFT) / BINS
        points: list[tuple[float, float]] = [(LEFT, floor)]
        for i, share in enumerate(shares[name]):
            y = floor - (floor - top) * share / most
            points += [(LEFT + i * step, y), (LEFT + (i + 1) * step, y)]
        points.append((WIDTH - LEFT, floor))
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(
            f'<polyline points="{line}" fill="{colour}" fill-opacity="0.15" stroke="{colour}"/>'
        )
        mean = min(high, max(low, sum(column) / len(column)))
        at = LEFT + (mean - low) / (high - low) * (WIDTH - 2 * LEFT)
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{top}" y2="{floor}" stroke="{colour}" '
            f'stroke-dasharray="3 2"><title>{escape(titles.get(name, name))}</title></line>'
        )
    parts += [
        f'<line x1="{LEFT}" x2="{WIDTH - LEFT}" y1="{floor}" y2="{floor}" stroke="#333333"/>',
        _text(LEFT, HEIGHT - 6, _number(low)),
        _text(WIDTH - LEFT, HEIGHT - 6, _number(high), anchor="end"),
    ]
    return _svg(WIDTH, HEIGHT, title, parts)


def intervals(rows: Sequence[tuple[str, Interval]], title: str, digits: int = 2) -> str:
    """Return means as dots with their intervals as bars, one row for each name."""
    rows = [(name, value) for name, value in rows if math.isfinite(value.mean)]
    if not rows:
        return ""
    low, high = _range([v for _, value in rows for v in (value.low, value.high)])
    start, end = 220, WIDTH + 110
    parts = [_text(LEFT, 12, title, "bold")]
    for i, (name, value) in enumerate(rows):
        y = 20 + ROW * i + ROW / 2
        x0, x1, x = (
            start + (v - low) / (high - low) * (end - start)
            for v in (value.low, value.high, value.mean)
        )
        parts += [
            _text(LEFT, y + 4, f"{name} ({value.count})"),
            f'<line x1="{x0:.1f}" x2="{x1:.1f}" y1="{y}" y2="{y}" stroke="#2a6fb0" '
            'stroke-width="3"/>',
            f'<circle cx="{x:.1f}" cy="{y}" r="4" fill="#2a6fb0"/>',
            _text(end + 10, y + 4, f"{value.mean:.{digits}f}"),
        ]
    return _svg(end + 60, 26 + ROW * len(rows), title, parts)


def _shares(values: Sequence[float], low: float, high: float) -> list[float]:
    """Return which share of ``values`` lies in each of BINS equal parts of a range."""
    counts = [0] * BINS
    for value in values:
        counts[min(BINS - 1, max(0, int((value - low) / (high - low) * BINS)))] += 1
    return [count / len(values) for count in counts]


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _number(value: float) -> str:
    return f"{value:.3g}"


def _text(x: float, y: float, text: str, weight: str = "normal", anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="11" font-weight="{weight}" '
        f'text-anchor="{anchor}">{escape(text)}</text>'
    )


def _svg(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title, quote=True)}">'
        + "".join(parts)
        + "</svg>"
    )
