"""Copying: a clip in which nothing is to change, without decoding a picture."""

from __future__ import annotations

from contextlib import ExitStack
from fractions import Fraction
from os import PathLike
from pathlib import Path

import av

from mien.errors import ClipUnwritable, PictureUnwritable
from mien.media.atomic import whole_file
from mien.media.claim import claim
from mien.media.clip.containers import container_of
from mien.media.clip.labels import BITEXACT, label, mux_options
from mien.media.clip.order import Written
from mien.media.clip.reading import Clip
from mien.media.clip.settings import ClipSettings
from mien.media.clip.tracks import Tracks
from mien.media.clip.writer import check_clip_output, check_space, explained_writing


def why_not_copied(
    path: str | PathLike[str],
    clip: Clip,
    *,
    settings: ClipSettings | None = None,
    start: Fraction | None = None,
) -> str:
    """Return why ``clip`` cannot be copied to ``path`` as it is, or an empty text if it can.

    Raises ClipUnwritable for a file of a kind that cannot be written.
    """
    container, info = container_of(Path(path)), clip.info
    settings = settings or ClipSettings()
    if info.codec not in container.videos:
        return f"{container.name} cannot hold {info.codec}"
    if not (info.orientation.plain or container.turns):
        return f"{container.name} cannot say which way up the pictures are"
    if settings.codec not in (None, info.codec) or settings.quality is not None:
        return "another codec or quality is asked for"
    if settings.pixel_format not in (None, info.pixel_format):
        return "another pixel format is asked for"
    if start is not None and not container.edits:
        return f"{container.name} cannot begin between two key frames"
    return ""


def copy_clip(
    path: str | PathLike[str],
    clip: Clip,
    *,
    settings: ClipSettings | None = None,
    start: Fraction | None = None,
    end: Fraction | None = None,
) -> Written:
    """Write ``clip`` to ``path`` without encoding its pictures, and return what was written.

    From ``start`` on and before ``end``, seconds as the clip counts them. The file appears whole
    or not at all. Raises ClipUnwritable, DiskFull, InvalidOption; see also ``why_not_copied``.
    """
    path, settings = Path(path), settings or ClipSettings()
    container = check_clip_output(path, inputs={"the input": clip.path})
    if why := why_not_copied(path, clip, settings=settings, start=start):
        raise ClipUnwritable(f"{path} cannot be a copy of {clip.path}: {why}.", path=path)
    origin = start or Fraction(0)
    with explained_writing(path), ExitStack() as stack:
        check_space(path, clip.info)
        try:
            stack.enter_context(claim(path))
        except PictureUnwritable as error:
            raise ClipUnwritable(str(error), path=path) from None
        with whole_file(path) as file:
            output = av.open(
                file,
                "w",
                format=container.name,
                options=mux_options(clip.info, container, path, settings.tags),
            )
            output.flags |= BITEXACT
            tracks = Tracks(
                clip.path,
                output,
                container,
                sound=settings.sound,
                covers=settings.covers,
                start=start,
                end=end,
                origin=origin,
                pictures=True,
            )
            stack.callback(tracks.release)
            label(
                output,
                clip.info,
                container,
                tags=settings.tags,
                start=start,
                end=end,
                origin=origin,
            )
            output.start_encoding()
            tracks.close()
            output.close()
    duration, refused = tracks.pictures_span, []
    if tracks.refused:
        refused.append(f"{tracks.refused} packet(s) were too damaged to be written.")
    return Written(
        path=path,
        frames=tracks.pictures,
        duration=duration,
        size=path.stat().st_size,
        codec=clip.info.codec,
        tracks=tuple(tracks.reports),
        notes=("The pictures were copied without encoding them.", *refused),
    )
