"""Lanes: the way of one track from the input to the output, and what is told of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import av
from av.container import InputContainer
from av.error import FFmpegError

from mien.media.clip.info import TrackKind
from mien.media.clip.opening import open_clip
from mien.media.clip.seams import Seams
from mien.media.clip.sound import Reencoder

Fate = Literal["copied", "encoded", "rewritten", "dropped"]

PATIENCE = 20
"""Read errors in a row after which the rest of a file is given up."""


@dataclass(frozen=True, slots=True)
class TrackReport:
    """What became of one track of the input."""

    index: int
    kind: TrackKind
    codec: str
    language: str
    fate: Fate
    into: str = ""
    """The codec that it was encoded or rewritten to."""

    why: str = ""

    def __str__(self) -> str:
        name = f"Track {self.index} ({self.kind}, {self.codec or 'unknown'}"
        name += f", {self.language})" if self.language else ")"
        into = f" as {self.into}" if self.into else ""
        return f"{name} was {self.fate}{into}{f': {self.why}' if self.why else ''}."


class Lane:
    """The way of one track from the input to the output."""

    def __init__(self, source: Any, stream: Any) -> None:
        self.source, self.stream = source, stream
        self.sound: Reencoder | None = None
        self.text: tuple[str, str] | None = None
        """From which codec to which one words are rewritten."""

        self.last: int | None = None
        """Time of decoding of the last packet, in the input's units."""


def time_of(packet: av.Packet[Any]) -> Fraction | None:
    """Return when a packet is shown or heard, or else decoded; seconds."""
    count = packet.pts if packet.pts is not None else packet.dts
    return None if count is None else count * packet.time_base


def cover_of(path: Path, index: int) -> av.Packet[Any] | None:
    """Return the packet of a still picture, which comes before all others."""
    with suppress(FFmpegError), open_clip(path) as container:
        for packet in container.demux(container.streams[index]):
            return packet if packet.size else None
    return None


def read_tracks(
    container: InputContainer, tracks: list[Any], seams: Seams
) -> Iterator[av.Packet[Any]]:
    """Yield the packets of ``tracks``, past whatever cannot be read."""
    failures, indices = 0, {track.index for track in tracks}
    while tracks and failures <= PATIENCE:
        try:
            for packet in container.demux():
                if packet.size:
                    failures = 0
                    seams.close(packet)  # which must have seen all packets
                    if packet.stream_index in indices:
                        yield packet
            return
        except (FFmpegError, OSError):
            failures += 1
