"""``mien swap``: faces onto others, in pictures and clips, one or many."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mien.choice import check_choice
from mien.cli.casting import Casting, parse_faces
from mien.cli.clips import (
    ClipOptions,
    Codec,
    Decoder,
    Encoder,
    From,
    NoSmooth,
    OnBadFrame,
    Preset,
    PreviewTo,
    Resume,
    Sdr,
    To,
)
from mien.cli.console import Progress, heard
from mien.cli.loading import load_swapper
from mien.cli.options import (
    FACE,
    FILES,
    PEOPLE,
    AllowFallback,
    Blend,
    ColorMatch,
    Detector,
    GpuMemory,
    Json,
    Label,
    LabelPlace,
    LabelText,
    MaxDistance,
    MaxMegapixels,
    Models,
    Occlusion,
    Order,
    Provider,
    SwapModel,
    Threads,
)
from mien.cli.outcomes import announce, code_of, row_of, say, summarize
from mien.errors import ClipUnwritable, InvalidOption, OptionsConflict

if TYPE_CHECKING:
    from mien.plan import Job
    from mien.settings import Settings


def swap(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="Picture of the person whose face is used. With --map there is none: then this "
            "is a target like the others.",
        ),
    ],
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TARGET",
            help="Pictures and clips in which faces are replaced. Each may be a file, a folder, "
            "a pattern like '*.jpg', or @list.txt with a name in each line.",
        ),
    ] = None,
    *,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help="Where the result goes: a file, a folder, or a name with {target}, {source}, "
            "{suffix} or {index}. The suffix decides the format.",
            rich_help_panel=FILES,
        ),
    ],
    also: Annotated[
        list[str] | None,
        typer.Option(
            help="Another picture of the person in SOURCE; repeatable.", rich_help_panel=PEOPLE
        ),
    ] = None,
    faces: Annotated[
        str | None,
        typer.Option(
            help="Which faces are replaced: largest, all, or numbers as in 0,2.",
            show_default="largest",
            rich_help_panel=PEOPLE,
        ),
    ] = None,
    order: Order = None,
    only: Annotated[
        Path | None,
        typer.Option(help="Replace only the person in this picture.", rich_help_panel=PEOPLE),
    ] = None,
    map_: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="SOURCE=PERSON",
            help="Put the face in picture SOURCE on the person in picture PERSON; repeatable. Or "
            "a .toml or .yaml file with many.",
            rich_help_panel=PEOPLE,
        ),
    ] = None,
    max_distance: MaxDistance = None,
    consent: Annotated[
        str | None,
        typer.Option(
            help="Whose face SOURCE shows, and that its use is agreed to. Asked once.",
            rich_help_panel=PEOPLE,
        ),
    ] = None,
    consent_record: Annotated[
        str | None,
        typer.Option(
            metavar="RECORD",
            help="Id of the record to go by, as 'mien consent list' shows it.",
            show_default="the newest for SOURCE",
            rich_help_panel=PEOPLE,
        ),
    ] = None,
    strength: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="From the target's own identity (0, still redrawn) to the source's (1).",
            show_default="1",
            rich_help_panel=FACE,
        ),
    ] = None,
    blend: Blend = None,
    color_match: ColorMatch = None,
    occlusion: Occlusion = None,
    quality: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=100,
            help="Quality of JPEG, WebP and AVIF, and of clips (90: no difference is seen).",
            show_default="the picture's, else 95; of clips 90",
            rich_help_panel=FILES,
        ),
    ] = None,
    subsampling: Annotated[
        Literal["4:4:4", "4:2:2", "4:2:0"] | None,
        typer.Option(
            help="Colour resolution of JPEG and AVIF.",
            show_default="the target's; 4:4:4 if it has none",
            rich_help_panel=FILES,
        ),
    ] = None,
    label: Label = None,
    label_text: LabelText = None,
    label_place: LabelPlace = None,
    skip_existing: Annotated[
        bool,
        typer.Option(
            "--skip-existing", help="Leave out what has its output already.", rich_help_panel=FILES
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Say what would be written, and write nothing.", rich_help_panel=FILES
        ),
    ] = False,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare",
            help="Also write pictures and clips before and after, side by side (.compare).",
            rich_help_panel=FILES,
        ),
    ] = False,
    debug_view: Annotated[
        bool,
        typer.Option(
            "--debug-view",
            help="Also write pictures with boxes, points, meshes and masks drawn (.debug).",
            rich_help_panel=FILES,
        ),
    ] = False,
    start: From = None,
    end: To = None,
    codec: Codec = None,
    preset: Preset = None,
    on_bad_frame: OnBadFrame = None,
    no_smooth: NoSmooth = False,
    sdr: Sdr = False,
    decoder: Decoder = None,
    encoder: Encoder = None,
    resume: Resume = False,
    preview: PreviewTo = None,
    model: SwapModel = None,
    detector: Detector = None,
    provider: Provider = None,
    allow_fallback: AllowFallback = None,
    threads: Threads = None,
    gpu_memory: GpuMemory = None,
    models: Models = None,
    max_megapixels: MaxMegapixels = None,
    as_json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors.")] = False,
) -> int:
    """Put the face in SOURCE on the largest face in each TARGET, or on others, or on many people.

    Everybody else's face, and every pixel outside of the swapped faces, stays as it is.
    """
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
            "strength": strength,
            "max_distance": max_distance,
            "quality": quality,
            "subsampling": subsampling,
            "max_megapixels": max_megapixels,
            "label": label,
            "label_text": label_text,
            "label_place": label_place,
        }
    ).settings
    from mien.media.files import distinct, expand
    from mien.pairs import read_pairs
    from mien.plan import output_folder, plan

    pairs = [pair for text in map_ or () for pair in read_pairs(text)]
    if consent is not None and consent_record is not None:
        raise OptionsConflict("consent", "consent-record", "a record has its statement")
    if pairs and also:
        raise OptionsConflict("also", "map", "a map names all pictures of a person")
    names = [source, *(targets or ())] if pairs else targets
    if not names:
        raise InvalidOption("TARGET", None, "at least one picture or clip after SOURCE")
    folder = output_folder(output)
    sources = None if pairs else expand(source, option="SOURCE", leave_out=folder)
    found = distinct(
        each
        for name in names
        for each in expand(name, option="TARGET", leave_out=folder, clips=True)
    )
    chosen = parse_faces(faces)
    person: Literal["only", "map"] | None = "map" if pairs else "only" if only else None
    if pairs and only:
        raise OptionsConflict("only", "map", "a map says it all")
    check_choice(chosen, order, max_distance, person=person)
    casting = Casting(
        pairs=pairs,
        also=[each.path for name in also or () for each in expand(name, option="also")],
        consent=consent,
        consent_record=consent_record,
        faces=chosen,
        order=order,
        only=only,
        max_distance=max_distance,
        settings=settings,
    )
    jobs = plan(
        sources,
        found,
        output,
        inputs=casting.inputs,
        compare=compare,
        debug_view=debug_view,
        preview=preview,
    )
    clips = ClipOptions(
        start=start,
        end=end,
        codec=codec,
        preset=preset,
        on_bad_frame=on_bad_frame,
        no_smooth=no_smooth,
        sdr=sdr,
        decoder=decoder,
        encoder=encoder,
        resume=resume,
        preview=preview,
        quality=quality,
    )
    clips.check(
        jobs,
        {"subsampling": subsampling, "debug-view": debug_view},
    )
    alone = (found[0].path == Path(names[0])) and (not sources or sources[0].path == Path(source))
    single = len(jobs) == 1 and alone
    if dry_run:
        return announce(jobs, skip_existing=skip_existing, as_json=as_json)
    if single and not jobs[0].makes_folder:
        _check_output(jobs[0])
    return _run(
        jobs, casting, clips, settings, single=single, skip_existing=skip_existing, as_json=as_json,
        quiet=quiet,
    )  # fmt: skip


def _check_output(job: Job) -> None:
    """Refuse a name that cannot be written, before networks are loaded."""
    from mien.media import check_output
    from mien.media.clip import check_clip_output

    if not job.clip:
        check_output(job.output)
        return
    try:
        check_clip_output(job.output, inputs={})
    except ClipUnwritable as error:
        raise ClipUnwritable(f"{job.target} is a clip. {error}", path=job.output) from None


def _run(
    jobs: list[Job],
    casting: Casting,
    clips: ClipOptions,
    settings: Settings,
    *,
    single: bool,
    skip_existing: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    outcomes = []
    with Progress(quiet=quiet or as_json) as progress:
        progress("Loading networks")
        from mien.batch import swap_files

        clip_among = any(job.clip for job in jobs)
        if clip_among:
            from mien.video import one_heap, share_cores

            one_heap()
        swapper = load_swapper(settings)
        if clip_among:
            share_cores(swapper.home)
        casting.begin(swapper, progress)
        if single and not (skip_existing and os.path.exists(jobs[0].output)):  # noqa: PTH110
            casting(jobs[0])  # so that what is wrong with the people is said first, and at once
        progress("Swapping")
        for outcome in swap_files(
            swapper,
            jobs,
            casting,
            strength=settings.strength,
            quality=settings.quality,
            subsampling=settings.subsampling,
            skip_existing=skip_existing,
            swap_clip=lambda job, cast: clips(
                swapper, job, cast, strength=settings.strength, progress=progress
            ),
        ):
            if single and outcome.error is not None:
                raise outcome.error
            outcomes.append(outcome if as_json else replace(outcome, report=None))
            progress(f"{len(outcomes)} of {len(jobs)} done")
            if not as_json:
                with progress.paused(), heard():
                    say(outcome, casting, quiet=quiet)
    code = code_of(outcomes)
    if as_json:
        rows = [row_of(outcome) for outcome in outcomes]
        report = rows[0] if single else {"pictures": rows, "exit": int(code)}
        print(json.dumps(report, indent=2))
    elif not single:
        summarize(outcomes, quiet=quiet)
    return code
