"""``mien bench``: how fast mien is on this machine, and whether it was faster before."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

from mien.cli.console import Progress
from mien.cli.exits import Exit
from mien.cli.options import (
    NETWORKS,
    Detector,
    GpuMemory,
    Json,
    Models,
    Provider,
    SwapModel,
    Threads,
)

FRAMES = "Frames"
"""Title of a group of options in --help."""


def bench(
    size: Annotated[
        list[str] | None,
        typer.Option(
            help="Frame size, such as 720p or 640x480; repeatable.",
            show_default="720p, 1080p, 2160p",
            rich_help_panel=FRAMES,
        ),
    ] = None,
    faces: Annotated[
        list[int] | None,
        typer.Option(
            min=1,
            max=16,
            help="Faces in a frame; repeatable.",
            show_default="1, 4, 8",
            rich_help_panel=FRAMES,
        ),
    ] = None,
    by_person: Annotated[
        bool,
        typer.Option(
            "--by-person",
            help="Tell who each face is, as for --only and --map: adds the stage embed.",
            rich_help_panel=FRAMES,
        ),
    ] = False,
    frames: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=10_000,
            help="Frames timed in each row.",
            show_default="what --seconds allow",
            rich_help_panel=FRAMES,
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(help="What a row may take, about.", show_default="6", rich_help_panel=FRAMES),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="720p with 1 and 4 faces, in some ten seconds.")
    ] = False,
    against: Annotated[
        Path | None, typer.Option(help="Compare with a report that --json printed before.")
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            help="Where frames of fixed capacity are measured too: cpu, cuda, cuda:1.",
            show_default="the GPU, if there is one",
            rich_help_panel=NETWORKS,
        ),
    ] = None,
    model: SwapModel = None,
    detector: Detector = None,
    provider: Provider = None,
    threads: Threads = None,
    gpu_memory: GpuMemory = None,
    models: Models = None,
    as_json: Json = False,
) -> int:
    """Measure how fast faces are swapped here: by frame size, number of faces and stage.

    Every frame is another one. docs/performance.md explains the figures.
    """
    from mien.settings import load

    flags = {"model": model, "detector": detector, "provider": provider}
    flags |= {"gpu_memory": gpu_memory}
    settings = load(flags | {"threads": threads, "models": models}).settings
    given = {"by_person": by_person, "frames": frames, "seconds": seconds, "device": device}
    # ONNX Runtime prints some of its troubles, and would print them into the report
    with Progress(quiet=as_json) as progress, redirect_stdout(sys.stderr):
        from mien.bench import QUICK, Plan, Size, compare, read_report
        from mien.bench import bench as run

        old = None if against is None else read_report(against)
        options: dict[str, Any] = dict(QUICK) if quick else {}
        options |= {name: value for name, value in given.items() if value is not None}
        if size:
            options["sizes"] = tuple(dict.fromkeys(map(Size.read, size)))
        if faces:
            options["faces"] = tuple(dict.fromkeys(faces))
        plan = Plan(
            model=settings.model,
            detector=settings.detector,
            provider=settings.provider,
            threads=settings.threads,
            gpu_memory=settings.gpu_memory,
            models=settings.models,
            **options,
        )
        report = run(plan, progress=progress)
        found = None if old is None else compare(report, old)
    if as_json:
        ratios = {} if found is None else {"against": found.as_dict()}
        print(json.dumps(report.as_dict() | ratios, indent=1))
        return Exit.SUCCESS
    from mien.bench.table import comparison_text, report_text

    print(report_text(report))
    if found is not None:
        print(f"\n{comparison_text(found)}")
    return Exit.SUCCESS
