"""Reports and comparisons as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from mien.bench.comparison import Comparison
from mien.bench.measure import Row
from mien.bench.numbers import percentile
from mien.bench.report import Report

Cells = Sequence[str]


def report_text(report: Report) -> str:
    """Return a report as tables, in milliseconds."""
    lines = [*_head(report), "", "time of a frame, ms, one after the other; frames per second"]
    lines += _aligned(
        [
            (
                "path",
                "frame",
                "faces",
                "swapped",
                "n",
                "first",
                "p50",
                "p95",
                "p99",
                "per s",
                "with",
            ),
            *map(_latency, report.rows),
        ]
    )
    rows = [row for row in report.rows if row.stages]
    if rows:
        names = list(dict.fromkeys(stage for row in rows for stage in row.stages))
        names = [*(name for name in names if name != "other"), "other"]
        lines += ["", "where it goes, mean ms of a frame"]
        lines += _aligned(
            [("path", "frame", "faces", *names, "whole"), *(_stages(row, names) for row in rows)]
        )
    lines += [f"\n{note}" for note in report.notes]
    return "\n".join(lines)


def comparison_text(found: Comparison) -> str:
    """Return a comparison as a table of ratios."""
    lines = ["now by before: medians of the ratios frame by frame; below 1.00 is faster"]
    names = list(dict.fromkeys(stage for row in found.rows for stage in row.stages))
    lines += _aligned(
        [
            ("path", "frame", "faces", "n", "whole", *names, "per s"),
            *(
                (
                    *(row.path, row.size, str(row.faces), str(row.n), _ratio(row.whole)),
                    *(_ratio(row.stages.get(name)) for name in names),
                    _ratio(row.per_second),
                )
                for row in found.rows
            ),
        ]
    )
    if found.only:
        lines += ["", "not compared", *(f"  {each}" for each in found.only)]
    if found.changed:
        lines += ["", "what else is not as it was", *(f"  {each}" for each in found.changed)]
    return "\n".join(lines)


def _head(report: Report) -> Iterator[str]:
    setting = report.setting
    gpus = ", ".join(setting["gpus"]) or "no GPU is seen"
    driver = f", driver {setting['driver']}" if setting["driver"] else ""
    machine = f"{setting['processor']}, {setting['cores']} cores"
    yield f"mien {setting['mien']} on {machine}; {gpus}{driver}"
    runtimes = [name for name in setting if name.startswith(("torch", "onnxruntime"))]
    yield ", ".join(f"{name} {setting[name]}" for name in runtimes)
    for path, networks in report.networks.items():
        named = ", ".join(f"{name} ({sha[:8]}) on {on}" for name, (sha, on) in networks.items())
        yield f"{path}: {named}"
    for path, times in report.cold.items():
        first = next((row for row in report.rows if row.path == path), None)
        parts = {**times} | ({"first frame": first.prepare + first.first} if first else {})
        told = ", ".join(f"{what} {time:.0f} ms" for what, time in parts.items())
        yield f"cold, {path}: {told}, together {sum(parts.values()):.0f} ms"


def _latency(row: Row) -> Cells:
    ranks = (percentile(row.samples, rank) for rank in (50, 95, 99))
    own = "its own way" if row.workers is None else f"{row.workers} thread"
    return (
        *(row.path, str(row.size), str(row.faces), f"{row.swapped:g}", str(len(row.samples))),
        *(_time(row.first), *map(_time, ranks), f"{row.per_second:.1f}"),
        own + ("s" if (row.workers or 0) > 1 else ""),
    )


def _stages(row: Row, names: Sequence[str]) -> Cells:
    means = row.means
    times = [_time(means[name]) if name in means else "-" for name in names]
    return row.path, str(row.size), str(row.faces), *times, _time(fmean(row.samples))


def _time(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _aligned(rows: Sequence[Cells]) -> Iterator[str]:
    """Return lines in columns: the first two and the last of words, numbers on the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for cells in rows:
        shown = [
            cell.ljust(wide) if i < 2 else cell.rjust(wide)
            for i, (cell, wide) in enumerate(zip(cells, widths, strict=True))
        ]
        yield "  ".join(shown).rstrip()
