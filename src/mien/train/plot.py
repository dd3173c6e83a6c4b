"""A run's log as a picture: ``python -m mien.train.plot log.jsonl plot.svg``.

Plain SVG, so that no plotting package is needed: one small chart for each number of the log.
"""

from __future__ import annotations

import json
import sys
from html import escape
from pathlib import Path

WIDTH, HEIGHT, PAD, COLUMNS = 300, 170, 34, 4
"""A chart's size and margin in pixels, and charts in a row."""

HIDDEN = {"kind", "seconds", "step", "progress"}

Series = dict[str, list[tuple[float, float]]]


def read_log(path: Path) -> Series:
    """Return the numbers of a log by name, as pairs of progress and value."""
    series: Series = {}
    for line in path.read_text().splitlines():
        entry = json.loads(line)
        if entry["kind"] == "pulls":
            continue
        prefix = "score: " if entry["kind"] == "scores" else ""
        for name, value in entry.items():
            if name not in HIDDEN:
                series.setdefault(prefix + name, []).append((entry["progress"], value))
    return series


def chart(name: str, points: list[tuple[float, float]]) -> str:
    """Return one chart as SVG elements, its top left corner at 0, 0."""
    xs, ys = zip(*points, strict=True)
    left, right, low, high = min(xs), max(xs), min(ys), max(ys)
    across = (WIDTH - 2 * PAD) / ((right - left) or 1)
    up = (HEIGHT - 2 * PAD) / ((high - low) or 1)
    line = " ".join(
        f"{PAD + (x - left) * across:.1f},{HEIGHT - PAD - (y - low) * up:.1f}" for x, y in points
    )
    texts = [
        (PAD, 20, f"{name}: {ys[-1]:.4g}"),
        (2, PAD + 4, f"{high:.3g}"),
        (2, HEIGHT - PAD + 4, f"{low:.3g}"),
        (PAD, HEIGHT - 12, f"{left:.2f}"),
        (WIDTH - PAD - 20, HEIGHT - 12, f"{right:.2f}"),
    ]
    labels = "".join(f'<text x="{x}" y="{y}">{escape(text)}</text>' for x, y, text in texts)
    frame = (
        f'<rect x="{PAD}" y="{PAD}" width="{WIDTH - 2 * PAD}" height="{HEIGHT - 2 * PAD}" '
        'fill="none" stroke="#ccc"/>'
    )
    return f'{frame}{labels}<polyline points="{line}" fill="none" stroke="#06c"/>'


def plot(series: Series) -> str:
    """Return all charts as an SVG file."""
    charts = [
        f'<g transform="translate({i % COLUMNS * WIDTH} {i // COLUMNS * HEIGHT})">'
        f"{chart(name, points)}</g>"
        for i, (name, points) in enumerate(series.items())
    ]
    height = -(-len(charts) // COLUMNS) * HEIGHT
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{COLUMNS * WIDTH}" height="{height}" '
        f'font-family="sans-serif" font-size="11">{"".join(charts)}</svg>\n'
    )


def main(arguments: list[str]) -> None:
    """Read a log and write its charts."""
    log, out = map(Path, arguments)
    out.write_text(plot(read_log(log)))


if __name__ == "__main__":
    main(sys.argv[1:])
