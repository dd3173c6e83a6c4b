"""Spans: from when to when a clip is wanted, as people count and as the file counts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from mien.choice import is_number
from mien.errors import InvalidOption
from mien.media.clip import ClipInfo

CLOCK = re.compile(r"(?:(?:(\d{1,9}):)?(\d{1,9}):)?(\d{1,9}(?:\.\d{0,20})?|\.\d{1,20})", re.ASCII)
"""As many digits as mean something: Python reads no number of thousands, and FFmpeg counts in 64
bits."""

LATEST = 10**9
"""Seconds; some 30 years."""

TIMES = "seconds from the beginning, as 75.5, 1:15.5 or 0:01:15.5, at most a billion"

Time = Fraction | float | int | str


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a clip. All times are the file's."""

    start: Fraction | None
    """None for the beginning."""

    end: Fraction | None
    """None for the end."""

    origin: Fraction
    """What the file's clock shows when the clip begins."""

    first: Fraction
    """When the first frame is shown, about."""

    last: Fraction | None
    """When the span ends, about; None if the file does not say how long it is."""


def span_of(info: ClipInfo, start: Time | None, end: Time | None) -> Span:
    """Return the part from ``start`` to ``end``, times counted from the beginning of the clip.

    Times are seconds or texts like 1:15.5. Raises InvalidOption.
    """
    begin, stop = parse_time("start", start), parse_time("end", end)
    if begin is not None and stop is not None and stop <= begin:
        raise InvalidOption("end", str(end), f"a time after the start, {start}")
    if stop == 0:
        raise InvalidOption("end", str(end), "a time after the beginning")
    starts = [t.start for t in info.tracks if t.kind in ("video", "audio") and t.start is not None]
    # sound that starts a little early, as encoders need it to, does not move the beginning
    origin = max(min(starts, default=Fraction(0)), Fraction(0))
    if begin is not None and info.duration is not None and begin >= info.duration:
        raise InvalidOption("start", str(start), f"less than {float(info.duration):g} seconds")
    first = origin + (begin or 0)
    ends = [origin + t for t in (info.duration, stop) if t is not None]
    return Span(
        start=None if begin is None else origin + begin,
        end=None if stop is None else origin + stop,
        origin=origin,
        first=first,
        last=min(ends, default=None),
    )


def parse_time(option: str, time: Time | None) -> Fraction | None:
    """Return ``time`` in seconds, exact for texts. Raises InvalidOption, with ``option``."""
    if time is None:
        return None
    if isinstance(time, str):
        match = CLOCK.fullmatch(time.strip())
        if match is None:
            raise InvalidOption(option, time, TIMES)
        hours, minutes, seconds = match.groups(default="0")
        parts = Fraction(seconds.rstrip(".") or 0), int(minutes), int(hours)
        if (":" in time and parts[0] >= 60) or (match[1] is not None and parts[1] >= 60):
            raise InvalidOption(option, time, TIMES)
        total = parts[0] + 60 * parts[1] + 3600 * parts[2]
        if total > LATEST:
            raise InvalidOption(option, time, TIMES)
        return total
    if not is_number(time) or not 0 <= time <= LATEST:
        raise InvalidOption(option, time, TIMES)
    return Fraction(time).limit_denominator(1_000_000)
