"""``mien swap``: one face onto another."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mien.cli.console import Progress
from mien.cli.exits import Exit
from mien.cli.options import AllowFallback, Detector, Json, Models, Provider, Threads
from mien.errors import ConsentMissing

if TYPE_CHECKING:
    from mien.swapper import Swapper
    from mien.types import Identity


def swap(
    source: Annotated[Path, typer.Argument(help="Picture of the person whose face is used.")],
    target: Annotated[Path, typer.Argument(help="Picture in which a face is replaced.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where the result goes: .jpg, .png or .webp.")
    ],
    also: Annotated[
        list[Path] | None,
        typer.Option(help="Another picture of the person in SOURCE; repeatable."),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Swap every face, not only the largest.")
    ] = False,
    consent: Annotated[
        str | None,
        typer.Option(help="Whose face SOURCE shows, and that its use is agreed to. Asked once."),
    ] = None,
    strength: Annotated[
        float,
        typer.Option(help="From the target's own identity (0, still redrawn) to the source's (1)."),
    ] = 1.0,
    blend: Annotated[
        Literal["alpha", "poisson"],
        typer.Option(help="Soft edge, or colours that also meet at the edge."),
    ] = "alpha",
    color_match: Annotated[
        bool, typer.Option(help="Give the swapped face the target's light.")
    ] = True,
    model: Annotated[str, typer.Option(help="Swap network; see 'mien models'.")] = "starter",
    detector: Detector = "yunet",
    provider: Provider = "cpu",
    allow_fallback: AllowFallback = False,
    threads: Threads = None,
    models: Models = None,
    as_json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors.")] = False,
) -> int:
    """Put the face in SOURCE on the largest face in TARGET, or on all of them."""
    from mien.media import check_output

    others = {f"--also {path}": path for path in also or ()}
    check_output(output, inputs={"SOURCE": source, "TARGET": target} | others)
    with Progress(quiet=quiet or as_json) as progress:
        progress("Loading networks")
        from mien.pipeline import Stopwatch
        from mien.swapper import Swapper

        watch = Stopwatch()
        with watch("load"):
            swapper = Swapper(
                model=model,
                detector=detector,
                blend=blend,
                color_match=color_match,
                provider=provider,
                allow_fallback=allow_fallback,
                threads=threads,
                models=models,
            )
        progress("Reading the source")
        with watch("identity"):
            identity = identify(swapper, [source, *(also or ())], consent, progress)
        progress("Swapping")
        with watch("swap"):
            result = swapper.swap(
                target, identity, faces="all" if every else "largest", strength=strength
            )
        with watch("write"):
            result.save(output)
    report = result.report() | {"output": str(output), "outliers": list(identity.outliers)}
    report["milliseconds"] = {
        **{k: round(v * 1e3, 2) for k, v in watch.seconds.items()},
        "stages": report["milliseconds"],
    }
    if as_json:
        print(json.dumps(report, indent=2))
    elif not quiet:
        done, found = len(report["swapped"]), len(report["faces"])
        total = sum(result.timings.values()) * 1e3
        of = f"{done} of {found} faces" if every else "1 face"
        print(f"{output}: {of} swapped in {total:.0f} ms; consent {identity.consent}")
    for fault in result.swapped.faults:
        print(f"mien: face {fault.face} was left as it is: {fault.reason}", file=sys.stderr)
    return Exit.PARTIAL if result.partial else Exit.SUCCESS


def identify(
    swapper: Swapper, pictures: list[Path], consent: str | None, progress: Progress
) -> Identity:
    """Make the identity; ask for a statement of consent if none is known and a person is there."""
    try:
        return swapper.identity(pictures, consent=consent)
    except ConsentMissing:
        if consent is not None or not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise
    with progress.paused():
        names = ", ".join(path.name for path in pictures)
        print(
            f"mien works only with consent. Whose face is in {names}, and do they agree to its "
            "use?\nState it in a sentence; it is recorded and remembered for this picture. "
            "Leave it empty to stop.\nConsent: ",
            end="",
            file=sys.stderr,
            flush=True,
        )
        statement = sys.stdin.readline()
    return swapper.identity(pictures, consent=statement)
