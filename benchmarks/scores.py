"""The tables of docs/evaluation.md, from reports that ``mien evaluate`` wrote.

python benchmarks/scores.py cross/report.json same/report.json

The first report is of different people, the second of one person (``--protocol same``). Prints the
table of scores, with the controls, and the table of groups, as Markdown.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

MEASURES = {
    "mobilefacenet_128d.cosine": ("cosine to the source, MobileFaceNet", 3),
    "mobilefacenet_128d.top1": ("source found first, MobileFaceNet", -1),
    "mobilefacenet_128d.leak": ("leak of the target, MobileFaceNet", 3),
    "dlib.cosine": ("cosine to the source, dlib", 3),
    "dlib.top1": ("source found first, dlib", -1),
    "pose": ("head pose error, degrees", 1),
    "expression": ("expression error, %", 1),
    "gaze": ("gaze error, %", 1),
    "sharpness": ("sharpness", 2),
    "colour": ("colour shift", 1),
    "seam": ("gradient across the edge", 2),
    "outside": ("pixels changed outside", 0),
    "kid.dlib": ("KID x 1000, dlib", 0),
}
"""Names of measures in a report: what the table calls them, and decimals (-1: a share in %)."""

COLUMNS = ("mobilefacenet_128d.cosine", "dlib.top1", "pose", "expression", "gaze", "sharpness")


def shown(score: dict[str, Any], decimals: int, *, interval: bool = True) -> str:
    """Return a mean with its interval; a share that is all of the pairs has none worth saying."""
    mean, low, high = (score.get(key) for key in ("mean", "low", "high"))
    if mean is None:
        return ""
    unit, places = (" %", 0) if decimals < 0 else ("", decimals)
    text = f"{mean:.{places}f}{unit}"
    if not interval or low is None or f"{low:.{places}f}" == f"{high:.{places}f}":
        return text
    return f"{text} ({low:.{places}f} to {high:.{places}f})"


def scores(cross: dict[str, Any], same: dict[str, Any]) -> None:
    """Print the network's scores beside the controls'."""
    print("| measure | cross | pasted | itself | same person | pasted |")
    print("|---|---|---|---|---|---|")
    for name, (label, decimals) in MEASURES.items():
        one, other = (report["measures"].get(name, {}) for report in (cross, same))
        cells = [
            shown(one.get("subject", {}), decimals),
            shown(one.get("pasted", {}), decimals, interval=False),
            shown(one.get("itself", {}), decimals, interval=False),
            shown(other.get("subject", {}), decimals),
            shown(other.get("pasted", {}), decimals, interval=False),
        ]
        print(f"| {label} | {' | '.join(cells)} |")


def groups(cross: dict[str, Any]) -> None:
    """Print scores by group of source and target."""
    print("\n| group | pairs | " + " | ".join(MEASURES[name][0] for name in COLUMNS) + " |")
    print("|---" * (2 + len(COLUMNS)) + "|")
    for kind, members in cross["groups"].items():
        if " of both" in kind:
            continue
        for member, values in members.items():
            cells = [shown(values[name], MEASURES[name][1]) for name in COLUMNS]
            print(f"| {kind}: {member} | {values['pose']['count']} | {' | '.join(cells)} |")


def main(paths: list[str]) -> None:
    """Print the tables of two reports."""
    if len(paths) != 2:
        sys.exit(__doc__)
    cross, same = (json.loads(Path(path).read_text()) for path in paths)
    scores(cross, same)
    groups(cross)


if __name__ == "__main__":
    main(sys.argv[1:])
