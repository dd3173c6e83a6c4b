"""``mien faces``: who can be seen in a picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from mien.cli.console import Progress
from mien.cli.exits import Exit
from mien.cli.options import AllowFallback, Detector, Json, Models, Provider, Threads
from mien.errors import NoFace


def faces(
    picture: Annotated[Path, typer.Argument(help="Picture to search.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Draw what was found on a copy.")
    ] = None,
    detector: Detector = "yunet",
    provider: Provider = "cpu",
    allow_fallback: AllowFallback = False,
    threads: Threads = None,
    models: Models = None,
    as_json: Json = False,
) -> int:
    """List the faces in PICTURE, largest first, and draw them."""
    from mien.media import check_output

    if output is not None:
        check_output(output, inputs={"PICTURE": picture})
    with Progress(quiet=as_json) as progress:
        progress("Looking for faces")
        from mien.loader import face_finder
        from mien.media import read_picture
        from mien.media.draw import draw_faces
        from mien.result import describe

        read = read_picture(picture)
        find = face_finder(
            detector=detector,
            provider=provider,
            allow_fallback=allow_fallback,
            threads=threads,
            models=models,
        )
        found = find(read.frame.pixels)
        if not len(found):
            raise NoFace(read.name)
        if output is not None:
            draw_faces(read, found, output)
    rows = describe(found)
    if as_json:
        print(json.dumps({"picture": str(picture), "faces": rows}, indent=2))
        return Exit.SUCCESS
    print(f"{'face':>4}  {'score':>5}  {'roll':>6}  {'size':>11}  {'left, top':>12}")
    for row in rows:
        left, top, right, bottom = row["box"]
        size, corner = f"{right - left:.0f} x {bottom - top:.0f}", f"{left:.0f}, {top:.0f}"
        start = f"{row['index']:>4}  {row['score']:>5.2f}  {row['roll']:>5.0f}°"
        print(f"{start}  {size:>11}  {corner:>12}")
    return Exit.SUCCESS
