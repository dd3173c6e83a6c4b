"""What is to be done: which target becomes which output, before anything is done."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Formatter

from mien.errors import InvalidOption
from mien.media.clip.containers import CONTAINERS
from mien.media.files import Found
from mien.media.formats import GIF, format_of
from mien.media.kinds import kind_of

OTHERWISE = ".jpg"
"""Suffix of outputs of targets whose own format cannot be written: HEIC."""

OTHERWISE_CLIP = ".mkv"
"""The same for clips: it holds nearly everything."""

FIELDS = ("target", "source", "suffix", "index")
"""What may stand in braces in the name of an output."""


@dataclass(frozen=True, slots=True)
class Job:
    """One picture or clip to make."""

    target: Path
    source: Path | None
    """Whose face is used; None if a map says it."""

    output: Path
    compare: Path | None = None
    """Where before and after go, side by side."""

    debug_view: Path | None = None
    """Where the drawing of what was found goes."""

    preview: Path | None = None
    """Where some frames of a clip go, before and after."""

    clip: bool = False
    """Whether the target is a clip."""

    makes_folder: bool = field(default=True, compare=False)
    """Whether the output's folder is made if it is not there."""

    @property
    def writes(self) -> tuple[Path, ...]:
        """All files the job writes."""
        several = (self.output, self.compare, self.debug_view, self.preview)
        return tuple(path for path in several if path is not None)


def plan(
    sources: Sequence[Found] | None,
    targets: Sequence[Found],
    output: str,
    *,
    inputs: Mapping[str, Path],
    compare: bool = False,
    debug_view: bool = False,
    preview: str | None = None,
) -> list[Job]:
    """Return a job for each target, or for each pair of a source and a target.

    ``output`` is a file, for one job; or a folder, where outputs have the targets' names; or a
    name with fields in braces: {target}, the target's name without its suffix, below the folder
    that was named; {source}, the source's name without its suffix; {suffix}, the target's; {index},
    counted from 1, as in {index:03}. ``inputs`` are further files that must not be written over,
    by what the user calls them. ``debug_view`` is for pictures; ``preview`` is for clips, and a
    name as ``output`` is. Raises InvalidOption for names that collide.
    """
    faces = [None] if sources is None else list(sources)
    pairs = [(source, target) for source in faces for target in targets]
    several = len(faces) > 1
    pattern = _pattern(output, several_sources=several, jobs=len(pairs))
    clips = {each.path for each in targets if kind_of(each.path) == "clip"}
    strip = None
    if preview is not None:
        count = len(clips) * len(faces)
        strip = _pattern(
            preview, several_sources=several, jobs=count, option="preview", suffix=".png"
        )
    jobs = []
    for index, (source, target) in enumerate(pairs, 1):
        clip = target.path in clips
        path = _named(pattern or output, source, target, index, clip=clip)
        shown = None
        if clip and preview is not None:
            shown = Path(preview) if strip is None else _named(strip, source, target, index)
        jobs.append(
            Job(
                target.path,
                None if source is None else source.path,
                path,
                compare=_beside(path, "compare", clip=clip) if compare else None,
                debug_view=_beside(path, "debug") if debug_view and not clip else None,
                preview=shown,
                clip=clip,
                makes_folder=pattern is not None,
            )
        )
    taken = {f"SOURCE {each.path}": each.path for each in sources or ()}
    taken |= {f"TARGET {each.path}": each.path for each in targets}
    _check_apart(jobs, taken | dict(inputs))
    return jobs


def output_folder(output: str) -> Path | None:
    """Return the folder that ``output`` names, or that its fields are in; None for a file."""
    if _is_folder(output):
        return Path(output)
    return Path(output.split("{", maxsplit=1)[0] + "x").parent if "{" in output else None


def _is_folder(output: str) -> bool:
    return output.endswith(("/", os.sep)) or os.path.isdir(output)  # noqa: PTH112 - takes any name


def _pattern(
    output: str,
    *,
    several_sources: bool,
    jobs: int,
    option: str = "output",
    suffix: str = "{suffix}",
) -> str | None:
    """Return the name with fields that ``output`` stands for, or None if it is one file."""
    if _is_folder(output):
        name = ("{target}-{source}" if several_sources else "{target}") + suffix
        return str(Path(output.replace("{", "{{").replace("}", "}}")) / name)
    if not output:
        raise InvalidOption(option, output, "a file, a folder, or a name with fields")
    try:
        fields = [
            (name, spec) for _, name, spec, _ in Formatter().parse(output) if name is not None
        ]
    except ValueError as error:
        raise InvalidOption(option, output, f"braces in pairs ({error})") from None
    for name, spec in fields:
        if name not in FIELDS or "{" in (spec or ""):
            raise InvalidOption(option, output, "{" + "}, {".join(FIELDS) + "} in braces")
    if not fields and jobs <= 1:
        return None
    if not fields:
        what, end = ("pictures", ".jpg") if option == "output" else ("clips", suffix)
        raise InvalidOption(
            option,
            output,
            f"for {jobs} {what}: a folder, or a name like 'out/{{target}}{end}'; the name of a "
            "new folder ends with a slash",
        )
    return output


def _named(
    pattern: str, source: Found | None, target: Found, index: int, *, clip: bool = False
) -> Path:
    suffix = target.path.suffix
    if clip:
        suffix = suffix if suffix.lower() in CONTAINERS else OTHERWISE_CLIP
    elif not format_of(target.path):
        suffix = OTHERWISE
    values = {
        "target": str(target.below.with_suffix("")),
        "source": "" if source is None else source.path.stem,
        "suffix": suffix,
        "index": index,
    }
    try:
        return Path(pattern.format(**values))
    except ValueError as error:
        raise InvalidOption("output", pattern, f"formats that Python knows ({error})") from None


def _beside(path: Path, what: str, *, clip: bool = False) -> Path:
    if not clip and format_of(path) in (GIF, None):  # too few colours to look at
        return path.with_name(f"{path.name}.{what}.png")
    return path.with_name(f"{path.stem}.{what}{path.suffix}")


def _check_apart(jobs: Sequence[Job], inputs: Mapping[str, Path]) -> None:
    """Raise InvalidOption if a job would write over an input, or over what another one writes."""
    files = {os.path.realpath(path): name for name, path in inputs.items()}
    nodes = {node: name for name, path in inputs.items() if (node := _node(path))}
    written: dict[str, str] = {}
    for job in jobs:
        for path in job.writes:
            real = os.path.realpath(path)
            option = "preview" if path is job.preview else "output"
            name = files.get(real) or nodes.get(_node(path) or (-1, -1))
            if name is None and path is job.preview and real == os.path.realpath(job.output):
                name = "the output"
            if name is not None:
                raise InvalidOption(option, str(path), f"a file other than {name}")
            if real in written:
                raise InvalidOption(
                    option,
                    str(path),
                    f"one name for each: {written[real]} and {_told(job)} would both go there; "
                    "use {index}, or {source}",
                )
            written[real] = _told(job)


def _told(job: Job) -> str:
    return f"{job.target}" if job.source is None else f"{job.target} with {job.source}"


def _node(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from others under any name, or None if it is not there."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
