"""The report as one HTML page that needs nothing from elsewhere: tables, plots and pictures."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from html import escape

from mien.evaluate.looks import data_uri
from mien.evaluate.measures import Measure
from mien.evaluate.plots import COLOURS, histogram, intervals
from mien.evaluate.report import SIGNS, TITLES, Report, Row, mean_of, range_of, shown
from mien.version import __version__

SHOWN = 6
"""Pairs shown of the best, of the middling and of the worst."""

EACH_WORST = 4
"""Pairs shown of the worst by each measure of WORST_BY."""

WORST_BY = ("pose", "expression", "gaze", "sharpness", "colour", "seam")
PLOTTED = (*WORST_BY, "lips")
GROUPED = (".cosine", ".top1")
"""Ends of the keys of the measures of identity that are shown by group."""

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em;
  color: #222; }
table { border-collapse: collapse; margin: 1em 0; } th, td { padding: 0.2em 0.7em;
  text-align: right; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; }
figure { display: inline-block; margin: 0 1em 1em 0; vertical-align: top; } figure img { display:
  block; max-width: 100%; } figcaption { font-size: 12px; color: #555; max-width: 58em; }
.note { color: #555; } svg { margin: 0 1em 1em 0; font-family: inherit; }
"""
SYNTHETIC = (
    "Every picture on this page but the sources and the untouched targets is synthetic; the JPEG "
    "files in it say so in their metadata."
)


def page(report: Report) -> str:
    """Return the HTML page of ``report``: UTF-8 text, well formed as XML too."""
    order = ranked(report.rows, report.measures)
    sections = [
        _head(report),
        _scores(report),
        _plots(report),
        _groups(report),
        _clips(report),
        _pairs(report, order),
        _foot(report),
    ]
    title = escape(f"mien evaluate: {report.name}")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f'<meta name="generator" content="mien {escape(__version__)}"/>'
        f'<meta name="description" content="{escape(SYNTHETIC)}"/>'
        f"<title>{title}</title><style>{STYLE}</style></head>\n<body><h1>{title}</h1>\n"
        + "\n".join(sections)
        + "\n</body></html>\n"
    )


def ranked(rows: Sequence[Row], measures: Sequence[Measure]) -> list[int]:
    """Return the numbers of ``rows``, the best first: by the mean of their ranks in each measure.

    Counted are the first judge's cosine and the measures of WORST_BY; a missing value ranks in the
    middle.
    """
    first = next(measure.key for measure in measures if measure.key.endswith(".cosine"))
    counted = [m for m in measures if m.key == first or m.key in WORST_BY]
    total = [0.0] * len(rows)
    for measure in counted:
        costs = [cost(row, measure) for row in rows]
        known = sorted(c for c in costs if math.isfinite(c))
        for i, value in enumerate(costs):
            total[i] += bisect_left(known, value) if math.isfinite(value) else len(known) / 2
    return sorted(range(len(rows)), key=total.__getitem__)


def cost(row: Row, measure: Measure) -> float:
    """Return how bad a pair is by a measure: the higher, the worse."""
    value = row.values.get(measure.key, math.nan)
    if measure.best == "high":
        return -value
    if measure.best == "one":
        return abs(math.log(max(value, 1e-9)))
    return value


def _head(report: Report) -> str:
    what = (
        "each face on other people"
        if report.protocol == "cross"
        else ("the neutral face of a person on their smiling one")
    )
    facts = (
        f"{len(report.rows)} pairs ({what}), {report.people} pictures, sources sought among "
        f"{report.gallery} people, seed {report.seed}, {report.seconds:.0f} seconds."
    )
    made = ", ".join(f"{escape(str(k))} {escape(str(v))}" for k, v in report.subject.items())
    return (
        f'<p>{escape(facts)}</p><p class="note">{made}. {escape(SYNTHETIC)} These numbers compare '
        "with each other, on the same people and by the same judges, and not with those of any "
        "publication.</p>"
    )


def _scores(report: Report) -> str:
    variants = [variant for variant in report.scores if variant != "subject"]
    heads = ["measure", TITLES["subject"], "95 % interval", *(TITLES[v] for v in variants), ""]
    rows = ["".join(f"<th>{escape(head)}</th>" for head in heads)]
    for measure in report.measures:
        own = report.scores.get("subject", {}).get(measure.key)
        name = f"{measure.title} ({measure.unit})" if measure.unit else measure.title
        cells = [name, mean_of(own, measure), range_of(own, measure)]
        cells += [mean_of(report.scores[v].get(measure.key), measure) for v in variants]
        cells.append(SIGNS[measure.best])
        rows.append("".join(f"<td>{escape(cell)}</td>" for cell in cells))
    return "<h2>Scores</h2><table>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>"


def _plots(report: Report) -> str:
    keys = [m for m in report.measures if m.key.endswith(".cosine") or m.key in PLOTTED]
    drawn = []
    for measure in keys:
        series = {"subject": [row.values.get(measure.key, math.nan) for row in report.rows]}
        for variant, values in report.controls.items():
            # what is perfect by definition would only be a spike
            if variant != "untouched" or measure.key.endswith(".cosine"):
                series[variant] = list(values.get(measure.key, ()))
        drawn.append(histogram(series, TITLES, measure.title))
    key = ", ".join(
        f'<span style="color:{COLOURS[name]}">{escape(title)}</span>'
        for name, title in TITLES.items()
        if name in report.scores
    )
    return f"<h2>Spread</h2><p>{key}; dashed: the mean.</p><div>{''.join(drawn)}</div>"


def _groups(report: Report) -> str:
    if not report.groups:
        return ""
    counted = [m for m in report.measures if m.key.endswith(GROUPED) or m.key in WORST_BY]
    drawn = []
    for measure in counted:
        rows = [
            (f"{kind}: {group}", scores[measure.key])
            for kind, groups in report.groups.items()
            for group, scores in groups.items()
        ]
        drawn.append(intervals(rows, measure.title, measure.digits))
    note = (
        "Mean with 95 % interval, and in brackets the number of pairs. Skin tone is what the "
        "picture shows of the cheeks, light and all."
    )
    return f'<h2>By group</h2><p class="note">{note}</p><div>{"".join(drawn)}</div>'


def _clips(report: Report) -> str:
    if not report.clips:
        return ""
    items = "".join(
        f"<li>{escape(name)}: "
        + escape(", ".join(f"{key} {value:.3g}" for key, value in values.items()))
        + "</li>"
        for name, values in report.clips.items()
    )
    return f"<h2>Clips</h2><ul>{items}</ul>"


def _pairs(report: Report, order: Sequence[int]) -> str:
    if not order:
        return ""
    count = min(SHOWN, len(order))
    start = (len(order) - count) // 2
    parts = [
        "<h2>Pairs</h2><p>Source, target, result, and the control: source pasted by landmarks.</p>"
    ]
    for title, numbers in (
        ("Worst", order[::-1][:count]),
        ("Middling", order[start : start + count]),
        ("Best", order[:count]),
    ):
        parts.append(f"<h3>{title}, on the whole</h3>{_figures(report, numbers)}")
    for measure in report.measures:
        if measure.key in WORST_BY or measure.key.endswith(".cosine"):
            costs = {i: cost(row, measure) for i, row in enumerate(report.rows)}
            known = [i for i, value in costs.items() if math.isfinite(value)]
            worst = sorted(known, key=costs.__getitem__, reverse=True)[:EACH_WORST]
            parts.append(f"<h3>Worst: {escape(measure.title)}</h3>{_figures(report, worst)}")
    return "".join(parts)


def _figures(report: Report, numbers: Sequence[int]) -> str:
    return "".join(_figure(report, report.rows[i]) for i in numbers)


def _figure(report: Report, row: Row) -> str:
    look = row.look
    uri = data_uri(
        (look.source, look.target, look.result, look.pasted),
        consents=report.consents,
        model=report.name,
    )
    values = ", ".join(
        f"{measure.key} {shown(row.values.get(measure.key), measure)}"
        for measure in report.measures
        if measure.key in WORST_BY or measure.key.endswith(".cosine")
    )
    name = f"{row.source} on {row.target}"
    alt = escape(f"{name}: source, target, synthetic result, synthetic control", quote=True)
    return (
        f'<figure><img src="{uri}" alt="{alt}"/>'
        f"<figcaption>{escape(name)}: {escape(values)}</figcaption></figure>"
    )


def _foot(report: Report) -> str:
    parts = ["<h2>Judges</h2><ul>"]
    parts += [
        f"<li>{escape(str(one['name']))}: {escape(str(one['licence']))}, sha256 "
        f"<code>{escape(str(one['sha256']))}</code></li>"
        for one in report.judges
    ]
    parts.append("</ul>")
    if report.failures:
        parts.append(f"<h2>Without a result: {len(report.failures)}</h2><ul>")
        parts += [f"<li>{escape(f'{a} on {b}: {why}')}</li>" for a, b, why in report.failures]
        parts.append("</ul>")
    if report.faceless:
        parts.append(f"<p>No face was found in {escape(', '.join(report.faceless))}.</p>")
    return "".join(parts)
