"""Labels: what a file says about itself: metadata and chapters."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

from av.container import OutputContainer

from mien.media.clip.containers import Container
from mien.media.clip.info import ClipInfo

OWN_TAGS = frozenset({"major_brand", "minor_version", "compatible_brands", "encoder"})
"""Metadata of a file that say how it was made, and not what it holds."""

BITEXACT = 0x400
"""FFmpeg's flag (AVFMT_FLAG_BITEXACT) for nothing random in a file: same input, same file."""

NANOSECOND = Fraction(1, 1_000_000_000)


STATISTICS = ("BPS", "DURATION", "NUMBER_OF_FRAMES", "NUMBER_OF_BYTES", "_STATISTICS")
"""Starts of tags that count what a track held; they are wrong in any other file."""


def track_tags(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return what of a track's metadata holds for it in another file too."""
    return {
        key: value
        for key, value in metadata.items()
        if key.lower() not in ("encoder", "rotate") and not key.upper().startswith(STATISTICS)
    }


KEYED = frozenset({"AIGC"})
"""Metadata for which MP4 and MOV have no place but a list of keys: the label of GB 45438-2025."""


LISTED = ("movflags", "use_metadata_tags")
"""The option that makes FFmpeg write metadata of MP4 and MOV as a list of keys. Then it leaves out
covers, which belong to its other way of writing them."""


def mux_options(
    info: ClipInfo, container: Container, path: Path, tags: Mapping[str, str]
) -> dict[str, str]:
    """Return what the writer of a container must be told: to keep all metadata of ``info``.

    And to write ``tags``, those of its own.

    Also, by the suffix of ``path``, which of two kinds of transport stream it is.
    """
    if path.suffix.lower() in (".m2ts", ".mts"):
        return {"mpegts_m2ts_mode": "1"}
    keys = {*info.metadata, *tags}
    if container.name in ("mp4", "mov") and any("." in key or key in KEYED for key in keys):
        return dict([LISTED])  # else keys such as a phone's are left out
    return {}


def said(info: ClipInfo, tags: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata of a file with those of ``info``, and ``tags`` beside them."""
    return {key: value for key, value in info.metadata.items() if key not in OWN_TAGS} | dict(tags)


def label(
    output: OutputContainer,
    info: ClipInfo,
    container: Container,
    *,
    tags: Mapping[str, str],
    start: Fraction | None,
    end: Fraction | None,
    origin: Fraction,
) -> None:
    """Write metadata, with ``tags`` beside them, and chapters, cut and moved as the tracks are."""
    output.metadata.update(said(info, tags))
    chapters = []
    for number, chapter in enumerate(info.chapters):
        first = chapter.start if start is None else max(chapter.start, start)
        last = chapter.end if end is None else min(chapter.end, end)
        if last > first and container.chapters:
            chapters.append(
                {
                    "id": number + 1,
                    "start": round((first - origin) / NANOSECOND),
                    "end": round((last - origin) / NANOSECOND),
                    "time_base": NANOSECOND,
                    "metadata": dict(chapter.metadata),
                }
            )
    if chapters:
        output.set_chapters(chapters)  # type: ignore[arg-type]
