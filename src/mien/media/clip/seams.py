"""Seams: recordings whose clock jumps in the middle, such as broadcasts that were put together."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import av

JUMP = 10
"""Seconds between two packets that follow each other in the file, beyond which the clock is taken
to have been set anew and not the time to have passed (as FFmpeg's own program does)."""

CLOCKED = ("mpegts", "mpeg")
"""Formats that allow it."""


class Seams:
    """Moves the times of packets, read in the order of the file, so that none jumps.

    All tracks are moved alike; whoever reads the same file from its start gets the same times.
    """

    def __init__(self, format_name: str) -> None:
        self.possible = format_name in CLOCKED
        self.jumps = 0
        self._offset = Fraction(0)
        self._last: Fraction | None = None

    def close(self, packet: av.Packet[Any]) -> None:
        """Move the times of ``packet``, in place."""
        count = packet.dts if packet.dts is not None else packet.pts
        if not self.possible or count is None:
            return
        base = packet.time_base
        time = count * base + self._offset
        if self._last is not None and abs(time - self._last) > JUMP:
            self._offset -= time - self._last
            self.jumps += 1
            time = self._last
        self._last = time
        if self._offset:
            moved = round(self._offset / base)
            packet.pts = None if packet.pts is None else packet.pts + moved
            packet.dts = None if packet.dts is None else packet.dts + moved
