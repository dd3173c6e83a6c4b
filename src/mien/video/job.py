"""Jobs: all that is to be known before a clip is begun, checked."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import get_args
from uuid import uuid4

from mien.choice import is_number
from mien.errors import InvalidOption
from mien.media import check_output
from mien.media.atomic import Seal
from mien.media.clip import (
    Clip,
    ClipInfo,
    ClipSettings,
    Fields,
    Hardware,
    check_clip_output,
    encoder_for,
)
from mien.media.clip.look import Look
from mien.media.clip.segments import digest_of
from mien.pipeline import NONE, Cast, ClipPipeline, Imprint
from mien.types import Identity
from mien.version import __version__
from mien.video.comparing import Comparison
from mien.video.marking import Mark, mark_for
from mien.video.span import Span, Time, span_of

GOOD = 90
"""The quality at which no difference is seen."""

GOOD_SHARE = 18 / 51
"""Where an encoder's own scale, 0 is the best, has it, as a share of its worst: CRF 18 of x264."""

AT_ONCE = 2
"""Frames of a clip that are made at once, unless told otherwise."""


@dataclass(frozen=True, slots=True)
class VideoJob:
    """What is to be made of one clip."""

    clip: Clip
    output: Path
    span: Span
    settings: ClipSettings
    mark: Mark
    recipe: str
    """All that decides what the frames look like; see ClipWriter."""

    sdr: bool = False
    fields: Fields = "deinterlace"
    hardware: Hardware = "none"
    resume: bool = False
    """Keep finished segments beside the output until it is whole, and take up those there are."""

    preview: Path | None = None
    compare: Path | None = None
    """A clip of the frames before and after, to be written as well."""

    threads: int = AT_ONCE
    seal: Seal | None = None
    """What signs all that is written, if there is something synthetic in it."""

    imprint: Imprint = NONE
    """What goes into every frame that is written, if there is something synthetic in one."""


def work_folder(output: Path) -> Path:
    """Return the folder in which finished segments of ``output`` are kept."""
    return output.with_name(f".{output.name}.mien-resume")


def video_job(
    clip: str | PathLike[str],
    output: str | PathLike[str],
    pipeline: ClipPipeline,
    *,
    model: str,
    produced: str | None = None,
    start: Time | None = None,
    end: Time | None = None,
    settings: ClipSettings | None = None,
    quality: int | None = None,
    sdr: bool = False,
    fields: Fields = "deinterlace",
    hardware: Hardware = "none",
    resume: bool = False,
    preview: str | PathLike[str] | None = None,
    compare: str | PathLike[str] | None = None,
    threads: int = AT_ONCE,
    seal: Seal | None = None,
    imprint: Imprint = NONE,
) -> VideoJob:
    """Return the job that these describe; the options are those of Swapper.swap_video.

    ``produced`` is the id that the marks give the clip; a new one, unless it is given.

    Raises ClipUnreadable, ClipUnwritable, InvalidOption, PictureUnwritable.
    """
    if not isinstance(threads, int) or not is_number(threads) or threads < 1:
        raise InvalidOption("threads", threads, "1 or more")
    for name, value, kind in (("fields", fields, Fields), ("hardware", hardware, Hardware)):
        if value not in get_args(kind):
            raise InvalidOption(name, value, get_args(kind))
    source, target = Path(clip), Path(output)
    shown = None if preview is None else Path(preview)
    check_clip_output(target, inputs={"the input": source})
    if shown is not None:
        if shown.absolute() == target.absolute():
            raise InvalidOption("preview", str(shown), "a file other than the output")
        check_output(shown, inputs={"the input": source}, option="preview")
    both = None if compare is None else Path(compare)
    if both is not None:
        for name, taken in (("output", target), ("preview", shown)):
            if taken is not None and both.absolute() == taken.absolute():
                raise InvalidOption("compare", str(both), f"a file other than the {name}")
        try:
            check_clip_output(both, inputs={"the input": source})
        except InvalidOption as error:
            raise InvalidOption("compare", error.value, error.allowed) from None
    opened = Clip(source)
    look = opened.look.in_sdr if sdr and not opened.look.tones.plain else opened.look
    settings = settings or ClipSettings()
    if quality is not None:
        settings = replace(
            settings, quality=_own_scale(quality, opened.info, look, settings, target)
        )
    if both is not None:
        encoder_for(Comparison(look).look, opened.info, settings, both)
    cast = pipeline.cast
    consents = tuple(dict.fromkeys(role.identity.consent for role in cast.roles))
    return VideoJob(
        clip=opened,
        output=target,
        span=span_of(opened.info, start, end),
        settings=settings,
        mark=mark_for(
            source, opened.info.metadata, consents=consents, model=model, produced=produced
        ),
        recipe=_recipe(pipeline, imprint, sdr=sdr, fields=fields),
        sdr=sdr,
        fields=fields,
        hardware=hardware,
        resume=resume,
        preview=shown,
        compare=both,
        threads=threads,
        seal=seal,
        imprint=imprint,
    )


def _own_scale(
    quality: int, info: ClipInfo, look: Look, settings: ClipSettings, output: Path
) -> int:
    """Return what the encoder calls ``quality``, 1 to 100."""
    if not isinstance(quality, int) or isinstance(quality, bool) or not 1 <= quality <= 100:
        raise InvalidOption("quality", quality, "1 to 100")
    worst = encoder_for(look, info, settings, output).worst
    if not worst:
        codec = settings.codec or info.codec
        raise InvalidOption("quality", quality, f"None: {codec} has none to choose")
    if quality >= GOOD:
        share = (100 - quality) / (100 - GOOD) * GOOD_SHARE
    else:
        share = GOOD_SHARE + (GOOD - quality) / (GOOD - 1) * (1 - GOOD_SHARE)
    return round(share * worst)


def resumed_id(
    clip: str | PathLike[str],
    output: str | PathLike[str],
    pipeline: ClipPipeline,
    imprint: Imprint,
    *,
    sdr: bool,
    fields: Fields,
) -> str:
    """Return an id for what is made of a clip that is the same when the work is taken up again.

    Finished segments carry its watermark. It depends on what the clip holds, as they do, on where
    the output is, and on all that decides what the frames look like.
    """
    with suppress(OSError):  # that it cannot be read is told when it is opened
        found = [digest_of(Path(clip)), str(Path(output).absolute())]
        recipe = _recipe(pipeline, imprint, sdr=sdr, fields=fields)
        return hashlib.sha256(json.dumps([found, recipe]).encode()).hexdigest()[:32]
    return uuid4().hex


def _recipe(pipeline: ClipPipeline, imprint: Imprint, *, sdr: bool, fields: Fields) -> str:
    """Return all that decides what the written frames look like, beside the clip."""
    networks, cast = pipeline.pipeline, pipeline.cast
    before = networks.make.occlusion
    engines = (
        networks.finder.detector.engine,
        networks.finder.landmarker.engine,
        networks.embedder.engine,
        networks.swap.engine,
    )
    said = {
        "mien": __version__,
        "networks": [(engine.model, engine.provider) for engine in engines],
        "blend": networks.make.blend,
        "color_match": networks.make.color_match,
        "occlusion": None if before is None else before.engine.model,
        "cast": _cast(cast),
        "limit": networks.limit(cast),
        "strength": pipeline.strength,
        "policy": repr(pipeline.policy),
        "look": str(pipeline.look),
        "smooth": pipeline.smooth,
        "sdr": sdr,
        "fields": fields,
        "label": imprint.report(),
        "watermark": imprint.produced,
    }
    return json.dumps(said, sort_keys=True)


def _cast(cast: Cast) -> list[object]:
    def person(one: Identity | None) -> str | None:
        # the pictures' digest, without outliers: who a person is depends on nothing else
        return None if one is None else f"{one.space}:{one.digest}"

    roles = [(person(role.identity), person(role.instead_of)) for role in cast.roles]
    return [roles, cast.faces, cast.order]
