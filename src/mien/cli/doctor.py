"""``mien doctor``: what this machine makes of mien, for its user and for bug reports."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from typing import Annotated

import typer

from mien.cli.console import Progress
from mien.cli.exits import Exit
from mien.cli.options import Json, Models, Threads


def doctor(
    no_speed: Annotated[
        bool, typer.Option("--no-speed", help="Time nothing, and swap no test picture.")
    ] = False,
    threads: Threads = None,
    models: Models = None,
    as_json: Json = False,
) -> int:
    """Examine this machine: versions, devices, networks, codecs, cameras, speed, and what is wrong.

    What is printed can go into a bug report as it is; it names no person.
    """
    from mien.settings import load

    settings = load({"threads": threads, "models": models}).settings
    # ONNX Runtime prints some of its troubles, and would print them into the report
    with Progress(quiet=as_json) as progress, redirect_stdout(sys.stderr):
        progress("Examining")
        from mien.doctor import examine

        report = examine(models=settings.models, threads=settings.threads, speed=not no_speed)
    print(json.dumps(report.as_dict(), indent=2) if as_json else report.text())
    return Exit.FAILED if report.failed else Exit.SUCCESS
