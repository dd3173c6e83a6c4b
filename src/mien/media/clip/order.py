"""Orders: what is to be written, how, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from mien.media.clip.containers import Container
from mien.media.clip.encoding import Plan, plan
from mien.media.clip.info import ClipInfo
from mien.media.clip.lanes import TrackReport
from mien.media.clip.look import Look
from mien.media.clip.offload import offloaded
from mien.media.clip.reading import Clip
from mien.media.clip.settings import ClipSettings


@dataclass(frozen=True, slots=True)
class Order:
    """What was asked for."""

    path: Path
    clip: Clip
    container: Container
    settings: ClipSettings
    start: Fraction | None
    end: Fraction | None


@dataclass(frozen=True, slots=True)
class Written:
    """What was written."""

    path: Path
    frames: int
    duration: Fraction
    """From the first frame to the end of the last one, in seconds."""

    size: int
    """Bytes of the file."""

    codec: str
    tracks: tuple[TrackReport, ...]
    """What became of every other track of the input."""

    notes: tuple[str, ...]
    """What is not as in the input, in sentences."""


def plan_for(
    look: Look, info: ClipInfo, container: Container, settings: ClipSettings, path: Path
) -> Plan:
    """Return how frames of ``look`` are written. Raises ClipUnwritable, InvalidOption.

    Hardware that ``settings`` name is tried the first time, which takes a second.
    """
    soft = plan(
        codec=info.codec,
        profile=info.profile,
        layout=look.layout,
        colour=look.colour,
        hdr=look.hdr,
        size=(look.width, look.height),
        container=container,
        settings=settings,
        path=path,
    )
    if settings.encoder == "none":
        return soft
    return offloaded(soft, look, info, container, settings)
