"""What ``mien swap`` says of what it did, and of what it would do."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from mien.cli.clips import say_clip
from mien.cli.exits import Exit, exit_code

if TYPE_CHECKING:
    from mien.batch import Outcome
    from mien.cli.casting import Casting
    from mien.plan import Job


def announce(jobs: list[Job], *, skip_existing: bool, as_json: bool) -> int:
    """Say what would be done."""
    rows: list[dict[str, Any]] = []
    for job in jobs:
        there = os.path.exists(job.output)  # noqa: PTH110 - takes any name
        action = ("skip" if skip_existing else "replace") if there else "write"
        row: dict[str, Any] = {
            "action": action,
            "target": str(job.target),
            "source": str(job.source) if job.source else None,
            "output": str(job.output),
        }
        if job.clip:
            row["kind"] = "clip"
        if len(job.writes) > 1:
            row["beside"] = [str(path) for path in job.writes[1:]]
        rows.append(row)
    if as_json:
        print(json.dumps({"dry_run": True, "pictures": rows}, indent=2))
        return Exit.SUCCESS
    for row in rows:
        source = f" with {row['source']}" if row["source"] else ""
        print(f"{row['action']:<7} {row['output']}  from {row['target']}{source}")
        for path in row.get("beside", ()):
            print(f"{row['action']:<7} {path}  beside it")
    return Exit.SUCCESS


def say(outcome: Outcome, casting: Casting, *, quiet: bool) -> None:
    """Say what became of one picture or clip."""
    output = outcome.job.output
    if outcome.error is not None:
        print(f"mien: {output} was not written: {outcome.error}", file=sys.stderr)
    elif outcome.report is None:
        if not quiet:
            print(f"{output}: skipped; it is there already")
    elif outcome.job.clip:
        say_clip(outcome.job, outcome.report, casting, quiet=quiet)
    else:
        report = outcome.report
        if not quiet:
            done, found = len(report["swapped"]), len(report["faces"])
            total = sum(report["milliseconds"].values())
            of = "1 face" if casting.largest else f"{done} of {found} faces"
            frames = f" in {len(report['frames'])} frames" if "frames" in report else ""
            consents = ", ".join(report["consents"])
            print(f"{output}: {of} swapped{frames} in {total:.0f} ms; consent {consents}")
            if report.get("manifest_beside"):
                print(f"{report['manifest_beside']}: its manifest, as the format holds none")
        for fault in report["faults"]:
            reason = fault["reason"]
            print(f"mien: face {fault['face']} was left as it is: {reason}", file=sys.stderr)
        for number in report["missing"]:
            print(f"mien: {casting.absent(number)} is not in {outcome.job.target}", file=sys.stderr)


def summarize(outcomes: list[Outcome], *, quiet: bool) -> None:
    """Say what became of all pictures and clips, and why some failed."""
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    skipped = sum(outcome.skipped for outcome in outcomes)
    partial = sum(outcome.partial for outcome in outcomes)
    if not quiet:
        written = len(outcomes) - len(failed) - skipped
        of = f" ({partial} in part)" if partial else ""
        print(f"{written} written{of}, {skipped} skipped, {len(failed)} failed")
    for outcome in failed:
        print(f"mien: failed: {outcome.job.target}: {outcome.error}", file=sys.stderr)


def row_of(outcome: Outcome) -> dict[str, object]:
    """Return what became of one picture or clip, ready for JSON."""
    row: dict[str, object] = {
        "target": str(outcome.job.target),
        "source": str(outcome.job.source) if outcome.job.source else None,
        "output": str(outcome.job.output),
    }
    if outcome.error is not None:
        kind, message = type(outcome.error).__name__, str(outcome.error)
        return row | {
            "error": {"kind": kind, "message": message, "exit": int(exit_code(outcome.error))}
        }
    return row | (outcome.report or {"skipped": True})


def code_of(outcomes: list[Outcome]) -> Exit:
    """Return the exit code of several: if nothing went well, that of what all had in common."""
    codes = {exit_code(outcome.error) for outcome in outcomes if outcome.error is not None}
    if not codes:
        done = [outcome for outcome in outcomes if not outcome.skipped]
        if done and all(outcome.untouched for outcome in done):
            return Exit.NO_FACE  # a copy is there, and the swap that was asked for is not
        short = any(outcome.partial or outcome.untouched for outcome in outcomes)
        return Exit.PARTIAL if short else Exit.SUCCESS
    if any(outcome.error is None for outcome in outcomes):
        return Exit.PARTIAL
    return codes.pop() if len(codes) == 1 else Exit.FAILED
