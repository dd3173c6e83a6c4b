"""``mien protect``: people who must not be swapped."""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Annotated

import typer

from mien.cli.console import Progress
from mien.cli.exits import Exit
from mien.cli.options import (
    AllowFallback,
    Detector,
    Json,
    MaxMegapixels,
    Models,
    Provider,
    Threads,
)
from mien.errors import MienError

app = typer.Typer(
    help="Add, list and remove people who must not be swapped, neither onto others nor from them.",
    no_args_is_help=True,
)


@app.command()
def add(
    pictures: Annotated[
        list[str],
        typer.Argument(metavar="PICTURES...", help="Pictures, folders, patterns or @lists."),
    ],
    *,
    name: Annotated[
        str,
        typer.Option(help="What messages call them.", show_default="each file's name"),
    ] = "",
    detector: Detector = None,
    provider: Provider = None,
    allow_fallback: AllowFallback = None,
    threads: Threads = None,
    models: Models = None,
    max_megapixels: MaxMegapixels = None,
    as_json: Json = False,
) -> int:
    """Protect the person with the largest face in each of PICTURES.

    The face's embedding is kept with its label, and no picture: it is biometric data. Several
    pictures of a person make it surer that they are known.
    """
    from mien.settings import load

    settings = load(
        {
            "detector": detector,
            "provider": provider,
            "allow_fallback": allow_fallback,
            "threads": threads,
            "models": models,
            "max_megapixels": max_megapixels,
        }
    ).settings
    from mien.media.files import distinct, expand
    from mien.safety import Gallery, Protected
    from mien.safety.protected import SPACE

    gallery = Gallery()
    gallery.all()  # raises what is wrong with it before networks are loaded
    files = distinct(each for one in pictures for each in expand(one, option="PICTURES"))
    people, failed = [], {}
    with Progress(quiet=as_json) as progress:
        progress("Loading networks")
        from mien.observer import Observer

        observe = Observer(
            detector=settings.detector,
            embedder=SPACE,
            provider=settings.provider,
            allow_fallback=settings.allow_fallback,
            threads=settings.threads,
            models=settings.models,
            max_megapixels=settings.max_megapixels,
        )
        for each in files:
            progress(f"Reading {each.path.name}")
            try:
                face = observe.person(each.path).embedding.tolist()
            except MienError as error:
                if len(files) == 1:
                    raise
                failed[str(each.path)] = str(error)
                continue
            people.append(Protected(" ".join((name or each.path.stem).split()), tuple(face)))
    added = gallery.add(people)
    if as_json:
        print(
            json.dumps({"added": added, "known": len(people) - added, "failed": failed}, indent=2)
        )
    else:
        for reason in failed.values():
            print(f"mien: {reason}", file=sys.stderr)
        known = f"; {len(people) - added} were there before" if added < len(people) else ""
        print(f"{added} picture(s) are in the gallery of protected people now{known}")
    if failed:
        return Exit.PARTIAL if people else Exit.NO_FACE
    return Exit.SUCCESS


@app.command("list")
def listing(as_json: Json = False) -> None:
    """List who is protected, and by how many pictures."""
    from mien.safety import Gallery

    count = Counter(one.label for one in Gallery().all())
    if as_json:
        rows = [{"label": label, "pictures": number} for label, number in count.items()]
        print(json.dumps(rows, indent=2))
        return
    print(f"{'pictures':>8}  label")
    for label, number in count.items():
        print(f"{number:>8}  {label}")


@app.command()
def remove(
    labels: Annotated[
        list[str], typer.Argument(metavar="LABEL...", help="Labels, as 'mien protect list' shows.")
    ],
    as_json: Json = False,
) -> None:
    """Protect people no longer: their embeddings are deleted."""
    from mien.safety import Gallery

    gallery = Gallery()
    gone = {label: gallery.remove(label) for label in dict.fromkeys(labels)}
    if as_json:
        print(json.dumps({"removed": gone}, indent=2))
        return
    for label, number in gone.items():
        print(f"{label}: {number} picture(s) removed")
