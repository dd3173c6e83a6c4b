"""``mien evaluate``: how good a swapper is, on people that it was never trained on."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mien.cli.console import Progress
from mien.cli.exits import Exit
from mien.cli.loading import load_swapper
from mien.cli.options import (
    FILES,
    NETWORKS,
    PEOPLE,
    AllowFallback,
    Blend,
    ColorMatch,
    Detector,
    GpuMemory,
    Json,
    Models,
    Occlusion,
    Provider,
    SwapModel,
    Threads,
)
from mien.errors import InvalidOption, OptionsConflict

if TYPE_CHECKING:
    from mien.evaluate.report import Report
    from mien.evaluate.variants import Model
    from mien.settings import Settings

PORTRAITS = Path("examples/portraits")


def evaluate(
    *,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="Folder for report.json and report.html; made if it is not there.",
            rich_help_panel=FILES,
        ),
    ],
    people: Annotated[
        Path,
        typer.Option(
            help="Folder of portraits, one person each; NAME_neutral and NAME_smiling are one "
            "person. None may have been used in training.",
            rich_help_panel=PEOPLE,
        ),
    ] = PORTRAITS,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="CSV file with a column 'name' and one for each kind of group, such as sex.",
            rich_help_panel=PEOPLE,
        ),
    ] = None,
    protocol: Annotated[
        Literal["cross", "same"] | None,
        typer.Option(
            help="Faces on other people, or neutral faces on the same person smiling.",
            show_default="what the names suggest",
            rich_help_panel=PEOPLE,
        ),
    ] = None,
    pairs: Annotated[
        int, typer.Option(min=1, help="How many pairs, about.", rich_help_panel=PEOPLE)
    ] = 100,
    pair_list: Annotated[
        Path | None,
        typer.Option(
            help="CSV file with columns source, target and, with --results, result: these pairs "
            "and no others.",
            rich_help_panel=PEOPLE,
        ),
    ] = None,
    clip: Annotated[
        list[Path] | None,
        typer.Option(
            help="Folder of frames, or an animation, in which flicker is measured; repeatable.",
            rich_help_panel=PEOPLE,
        ),
    ] = None,
    consent: Annotated[
        str | None,
        typer.Option(
            help="Whose faces the people's pictures show, and that their use is agreed to: it "
            "covers all of them, for each is a source.",
            rich_help_panel=PEOPLE,
        ),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(
            help="Judge the pictures in this folder, named SOURCE__TARGET or in --pair-list, "
            "instead of a network.",
            rich_help_panel=FILES,
        ),
    ] = None,
    judge: Annotated[
        list[Path] | None,
        typer.Option(
            help="Further judge of identity: a card (.toml), or the ONNX file of an embedder in "
            "ArcFace's manner; repeatable. The first one ranks the pairs.",
            rich_help_panel=NETWORKS,
        ),
    ] = None,
    age: Annotated[
        Path | None,
        typer.Option(help="ONNX file of the age network, for groups.", rich_help_panel=NETWORKS),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A few pairs of a few people, in seconds.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Another seed chooses other pairs.")] = 0,
    model: SwapModel = None,
    blend: Blend = None,
    color_match: ColorMatch = None,
    occlusion: Occlusion = None,
    detector: Detector = None,
    provider: Provider = None,
    allow_fallback: AllowFallback = None,
    threads: Threads = None,
    gpu_memory: GpuMemory = None,
    models: Models = None,
    as_json: Json = False,
) -> int:
    """Measure a swap network, or a folder of results, on held-out people.

    Scores come with 95 % intervals and beside three controls: the target untouched, the source
    pasted by its landmarks, and faces put on themselves. docs/evaluation.md explains each.
    """
    if results is not None and model is not None:
        raise OptionsConflict("results", "model", "either pictures or a network are judged")
    if results is not None and clip:
        raise OptionsConflict("results", "clip", "only a network can swap a clip")
    if not people.is_dir():
        raise InvalidOption("people", str(people), "a folder of portraits")
    from mien.settings import load

    settings = load(
        {
            "model": model,
            "detector": detector,
            "provider": provider,
            "allow_fallback": allow_fallback,
            "threads": threads,
            "gpu_memory": gpu_memory,
            "models": models,
            "blend": blend,
            "color_match": color_match,
            "occlusion": occlusion,
        }
    ).settings
    _make(output)
    with Progress(quiet=as_json) as progress:
        progress("Loading networks")
        from mien.evaluate import Judges, Task
        from mien.evaluate import evaluate as measure
        from mien.evaluate.people import read_labels
        from mien.evaluate.protocol import read_list
        from mien.evaluate.variants import Results
        from mien.loader import Loader
        from mien.media.files import expand
        from mien.models import Catalogue

        found = expand(str(people), option="people", leave_out=output)
        named = None if pair_list is None else read_list(pair_list)
        if results is not None and named is None:
            named = Results(results).listed()
        task = Task(
            pictures=[one.path for one in found],
            protocol=protocol,
            pairs=pairs,
            named=named,
            labels={} if labels is None else read_labels(labels),
            clips=clip or (),
            quick=quick,
            seed=seed,
        )
        loader = Loader(
            Catalogue(settings.models),
            settings.provider,
            settings.allow_fallback,
            settings.threads,
            settings.gpu_memory,
        )
        report = measure(
            _model(settings, consent) if results is None else Results(results),
            task,
            loader.finder(settings.detector),
            Judges.load(judge or (), age=age, threads=settings.threads),
            progress=progress,
        )
        _write(report, output)
    if as_json:
        print(json.dumps(report.report(), indent=2))
    else:
        _print(report, output)
    return Exit.PARTIAL if report.failures else Exit.SUCCESS


def _model(settings: Settings, consent: str | None) -> Model:
    """Return the network to judge, loaded."""
    from mien.evaluate.variants import Model
    from mien.models import Catalogue

    swapper = load_swapper(settings)
    return Model(swapper, consent, Catalogue(settings.models))


def _write(report: Report, folder: Path) -> None:
    """Write the report for machines and for people."""
    from mien.evaluate.page import page
    from mien.media.atomic import whole_file

    text = json.dumps(report.report(), indent=2) + "\n"
    for name, content in (("report.json", text), ("report.html", page(report))):
        try:
            with whole_file(folder / name) as file:
                file.write(content.encode())
        except OSError as error:
            raise _unwritable(folder, error) from None


def _make(folder: Path) -> None:
    """Make the output folder, before any work is done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from None


def _unwritable(folder: Path, error: OSError) -> InvalidOption:
    return InvalidOption("output", str(folder), f"a folder to write in ({error.strerror})")


def _print(report: Report, folder: Path) -> None:
    print(report.table())
    print()
    for name, values in report.clips.items():
        said = ", ".join(f"{key} {value:.3g}" for key, value in values.items())
        print(f"clip {name}: {said}")
    print(
        f"{len(report.rows)} pairs of {report.people} pictures, sources sought among "
        f"{report.gallery} people, in {report.seconds:.0f} s; see {folder / 'report.html'}"
    )
    for source, target, reason in report.failures:
        print(f"mien: {source} on {target} has no result: {reason}", file=sys.stderr)
    if report.faceless:
        print(f"mien: no face was found in {', '.join(report.faceless)}", file=sys.stderr)
