"""Progress: how far a clip is, how fast it goes, and what takes the time."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from time import perf_counter

WINDOW = 5.0
"""Seconds over which the speed is taken."""


@dataclass(frozen=True, slots=True)
class VideoProgress:
    """How far a clip is."""

    frames: int
    """Frames dealt with."""

    share: float | None
    """How much of the clip's time, 0 to 1; None if the file does not say how long it is."""

    speed: float
    """Frames per second, of late."""

    seconds_left: float | None
    """None if that is unknown."""

    shares: Mapping[str, float]
    """What part of the work goes into 'decode', 'find', 'make' and 'encode'."""

    again: bool = False
    """Whether nobody was found, and the clip is encoded a second time, without a mark. Frames and
    shares then start from the beginning."""

    def __str__(self) -> str:
        percent = "" if self.share is None else f"{100 * self.share:.0f} %, "
        left = "" if self.seconds_left is None else f", {clock(self.seconds_left)} left"
        parts = " ".join(f"{name} {100 * part:.0f}" for name, part in self.shares.items())
        again = "again, " if self.again else ""
        return f"{again}{percent}{self.frames} frames, {self.speed:.1f}/s{left} ({parts} %)"


class Pace:
    """Reckons speed and time left from the times of the frames that were dealt with."""

    def __init__(self, start: Fraction, end: Fraction | None, *, again: bool = False) -> None:
        self._start, self._end, self._again = start, end, again
        self._marks: deque[tuple[float, int, float]] = deque()
        """When, how many frames, and how far, over WINDOW seconds."""

    def __call__(self, frames: int, time: Fraction, shares: Mapping[str, float]) -> VideoProgress:
        """Return the progress after ``frames``, of which the last is shown at ``time``."""
        share = None
        if self._end is not None and self._end > self._start:
            share = min(max(float((time - self._start) / (self._end - self._start)), 0.0), 1.0)
        now = perf_counter()
        self._marks.append((now, frames, share or 0.0))
        while len(self._marks) > 2 and now - self._marks[1][0] > WINDOW:
            self._marks.popleft()
        then, before, far = self._marks[0]
        gone = now - then
        speed = (frames - before) / gone if gone else 0.0
        left = None
        if share is not None and gone and share > far:
            left = (1 - share) * gone / (share - far)
        return VideoProgress(frames, share, speed, left, shares, self._again)


def clock(seconds: float) -> str:
    """Return ``seconds`` as people read them: 1:02:03, or 2:03."""
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
