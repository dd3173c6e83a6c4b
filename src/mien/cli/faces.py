"""``mien faces``: who can be seen in a picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from mien.cli.console import Progress
from mien.cli.exits import Exit
from mien.cli.options import (
    AllowFallback,
    Detector,
    GpuMemory,
    Json,
    MaxDistance,
    MaxMegapixels,
    Models,
    Order,
    Provider,
    Threads,
)
from mien.errors import NoFace


def faces(
    picture: Annotated[Path, typer.Argument(help="Picture to search.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Draw what was found on a copy.")
    ] = None,
    order: Order = None,
    against: Annotated[
        list[Path] | None,
        typer.Option(help="Picture of a person to look for; repeatable. Adds who is who."),
    ] = None,
    max_distance: MaxDistance = None,
    detector: Detector = None,
    provider: Provider = None,
    allow_fallback: AllowFallback = None,
    threads: Threads = None,
    gpu_memory: GpuMemory = None,
    models: Models = None,
    max_megapixels: MaxMegapixels = None,
    as_json: Json = False,
) -> int:
    """List the faces in PICTURE with their numbers, and draw them.

    The numbers are those that 'mien swap --faces' takes with the same --order. A distance is the
    cosine distance between two faces, 0 to 2; the person is the nearest within the limit that
    'mien swap --only' and '--map' use.
    """
    from mien.settings import load

    settings = load(
        {
            "detector": detector,
            "provider": provider,
            "allow_fallback": allow_fallback,
            "threads": threads,
            "gpu_memory": gpu_memory,
            "models": models,
            "max_distance": max_distance,
            "max_megapixels": max_megapixels,
        }
    ).settings
    from mien.media import check_output

    if output is not None:
        others = {f"--against {path}": path for path in against or ()}
        check_output(output, inputs={"PICTURE": picture} | others)
    with Progress(quiet=as_json) as progress:
        progress("Looking for faces")
        from mien.observer import Observer

        observe = Observer(
            detector=settings.detector,
            provider=settings.provider,
            allow_fallback=settings.allow_fallback,
            threads=settings.threads,
            gpu_memory=settings.gpu_memory,
            models=settings.models,
            max_distance=settings.max_distance,
            max_megapixels=settings.max_megapixels,
        )
        seen = observe(picture, order=order or "large-small", against=against or ())
        if not len(seen.faces):
            raise NoFace(picture.name)
        if output is not None:
            seen.save(output)
    rows = seen.report()
    if as_json:
        print(json.dumps({"picture": str(picture), "faces": rows}, indent=2))
    else:
        _print(rows, [path.name for path in against or ()])
    return Exit.SUCCESS


def _print(rows: list[dict[str, Any]], people: list[str]) -> None:
    wide = max([len(name) for name in people], default=0)
    columns = "".join(f"  {name:>{max(8, len(name))}}" for name in people)
    person = f"  {'person':<{wide}}" if people else ""
    print(
        f"{'face':>4}  {'score':>5}  {'roll':>6}  {'size':>11}  {'left, top':>12}{person}{columns}"
    )
    for row in rows:
        left, top, *_ = row["box"]
        size, corner = "{:.0f} x {:.0f}".format(*row["size"]), f"{left:.0f}, {top:.0f}"
        line = f"{row['index']:>4}  {row['score']:>5.2f}  {row['roll']:>5.0f}°"
        line += f"  {size:>11}  {corner:>12}"
        if people:
            line += f"  {row['person'] or '-':<{wide}}"
        for name, distance in zip(people, row.get("distances", ()), strict=True):
            line += f"  {distance:>{max(8, len(name))}.3f}"
        print(line)
