"""Damage: what of a clip could not be read, counted and timed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import av

LossKind = Literal["missing", "damaged", "gap", "cut"]

HOLE = 4096
"""Bytes between two packets of a Matroska file that belong to neither, and mean that one is lost:
what stands there otherwise, the heads of clusters, takes some dozens."""

ZEROS = bytes(32)
"""A run that no slice of H.264 and H.265 can hold: they break up runs of three (7.4.1)."""

NO_ZEROS = frozenset({"h264", "hevc", "vvc"})

SHORT = Fraction(1, 2)
"""Seconds by which a file may end before it says it does, and not count as cut short."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Frames that were lost, or came out damaged."""

    kind: LossKind
    """missing: in the file, and did not decode. damaged: delivered, but not as it was recorded.
    gap: bytes in the middle of the file are unreadable. cut: the file ends before it says."""

    start: Fraction | None
    """Seconds, as the clip counts them."""

    end: Fraction | None
    """Seconds; the same as ``start`` for one frame; None if unknown."""

    frames: int | None
    """How many; None where that cannot be known."""

    why: str

    def __str__(self) -> str:
        when = "" if self.start is None else f" at {float(self.start):.3f} s"
        if self.end is not None and self.start is not None and self.end > self.start:
            when = f" from {float(self.start):.3f} to {float(self.end):.3f} s"
        count = "some frames" if self.frames is None else f"{self.frames} frame(s)"
        return f"{count} {self.kind}{when}: {self.why}"


class Ledger:
    """Keeps account of packets that went into a decoder and of frames that came out."""

    def __init__(self, codec: str, *, holes: bool, fields: bool) -> None:
        self.codec = codec
        self._fields = fields  # two packets may make one frame
        self.losses: list[Lost] = []
        self.last_end = Fraction(0)
        """When the last packet of any track ended."""

        self._waiting: dict[Fraction, str] = {}
        self._holes = holes
        self._block = -1
        self._next_byte: int | None = None
        self._last_time: Fraction | None = None
        self._gaps = 0

    def packet(self, packet: av.Packet[Any], *, pictures: bool) -> None:
        """Note a packet; ``pictures`` says whether it is one of the track that is decoded."""
        base = packet.time_base
        start = None if packet.pts is None else packet.pts * base
        if start is not None:
            self.last_end = max(self.last_end, start + (packet.duration or 0) * base)
        if self._holes and packet.pos is not None:
            self._place(packet, packet.pos)
        if not pictures or start is None or packet.is_discard:
            return
        if self._gaps:
            why = "bytes in the file are unreadable"
            self.losses.append(Lost("gap", self._last_time, start, None, why))
            self._gaps = 0
        self._last_time = max(start, self._last_time or start)
        if _shows_nothing(packet, self.codec):
            return
        why = ""
        if packet.is_corrupt:
            why = "its data are incomplete"
        elif self.codec in NO_ZEROS and ZEROS in bytes(packet).rstrip(b"\0"):
            why = "some of its data are blank"
        self._waiting[start] = why

    def _place(self, packet: av.Packet[Any], place: int) -> None:
        """Note where in a Matroska file a packet lies: ``place`` is that of its block."""
        if self._next_byte is not None and place > self._next_byte + HOLE:
            self._gaps += 1
        if place != self._block or self._next_byte is None:
            self._block = self._next_byte = place
        self._next_byte += packet.size  # a block may hold several packets, and more beside each
        if packet.has_sidedata("matroska_block_additional"):
            self._next_byte += packet.get_sidedata("matroska_block_additional").data_size

    def frame(self, time: Fraction, *, corrupt: bool) -> bool:
        """Note a frame that was delivered; return whether it is damaged."""
        why = self._waiting.pop(time, "")
        if corrupt and not why:
            why = "it refers to frames that are lost"
        if why:
            self.losses.append(Lost("damaged", time, time, 1, why))
        return bool(why)

    def undecodable(self, packet: av.Packet[Any]) -> None:
        """Note that the decoder refused a packet."""
        if packet.pts is not None and (start := packet.pts * packet.time_base) in self._waiting:
            self._waiting[start] = "the decoder refused its data"

    def unreadable(self, why: str) -> None:
        """Note that the file could not be read from here."""
        self.losses.append(Lost("cut", self._last_time, None, None, why))

    def close(
        self,
        *,
        start: Fraction,
        end: Fraction | None,
        told: Fraction | None,
        indexed: list[Fraction],
    ) -> None:
        """Note what is missing from ``start`` to ``end`` once all was read.

        ``told`` is when the file says that it ends, and ``indexed`` the times of decoding of
        frames that its index has and no packet came for.
        """
        times = sorted(
            time
            for time, why in self._waiting.items()
            if time >= start and (end is None or time < end) and (why or not self._fields)
        )
        self.losses += [
            Lost("missing", first, last, count, "the data did not decode")
            for first, last, count in _runs(times)
        ]
        if indexed:
            why = "the file has an index of them, and not their data"
            self.losses.append(Lost("cut", indexed[0], indexed[-1], len(indexed), why))
        elif end is None and told is not None and told - self.last_end > SHORT:
            why = "the file ends before it says"
            self.losses.append(Lost("cut", self.last_end, told, None, why))
        self.losses.sort(key=lambda lost: (lost.start is None, lost.start or 0))


def _runs(times: list[Fraction]) -> Iterator[tuple[Fraction, Fraction, int]]:
    """Yield first, last and number of times that are within a second of each other."""
    first = 0
    for place in range(1, len(times) + 1):
        if place == len(times) or times[place] - times[place - 1] > 1:
            yield times[first], times[place - 1], place - first
            first = place


def _shows_nothing(packet: av.Packet[Any], codec: str) -> bool:
    """Return whether a packet only makes a picture that later ones refer to (RFC 6386, 9.1)."""
    return codec == "vp8" and packet.size > 0 and not bytes(packet)[0] & 0x10
