"""Runs of an encoder: a segment of frames in, packets out, with times that can be joined."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import av
from av.codec.context import Flags
from av.video.codeccontext import VideoCodecContext

from mien.media.clip.encoding import Plan
from mien.media.clip.fitting import Shape
from mien.media.clip.info import ClipInfo

FASTEST = Fraction(240)
"""Frames per second that all encoders believe. It is only a hint: frames keep their times."""


@dataclass(frozen=True, slots=True)
class Clockwork:
    """How the output counts time."""

    unit: Fraction
    """Seconds."""

    rate: Fraction
    """Frames per second on average, which encoders want to know beside the times."""

    origin: Fraction
    """The input's time, in seconds, that is zero in the output."""

    def count(self, time: Fraction) -> int:
        """Return the output's count for a time of the input."""
        return round((time - self.origin) / self.unit)


def rate_of(info: ClipInfo) -> Fraction:
    """Return what encoders are told of how many frames a second there are."""
    return min(info.rate or Fraction(25), FASTEST)


def attributes(pixel_format: str, shape: Shape, clockwork: Clockwork) -> dict[str, Any]:
    """Return what a context is to be told of frames, by the names of PyAV's attributes."""
    colour = shape.colour
    return {
        "width": shape.width,
        "height": shape.height,
        "pix_fmt": pixel_format,
        "time_base": clockwork.unit,
        "framerate": clockwork.rate,
        "sample_aspect_ratio": shape.aspect,
        "color_range": (2 if colour.full else 1) if colour.ranged else 0,
        "color_primaries": colour.primaries,
        "color_trc": colour.transfer,
        "colorspace": colour.matrix,
    }


def siting_option(siting: str) -> dict[str, str]:
    """Return what tells an encoder where chroma samples lie."""
    return {} if siting == "left" else {"chroma_sample_location": siting}


def set_up(
    context: VideoCodecContext,
    plan: Plan,
    pixel_format: str,
    shape: Shape,
    clockwork: Clockwork,
    *,
    threads: int | None,
    headers_apart: bool,
) -> VideoCodecContext:
    """Tell ``context``, which is not open yet, all that ``plan`` and ``shape`` say."""
    if plan.encoder.name == "libsvtav1":
        # it writes its banner to the terminal unless told by the environment, and with 1 still
        # that it was ended early, as an error
        os.environ.setdefault("SVT_LOG", "0")
    for name, value in attributes(pixel_format, shape, clockwork).items():
        setattr(context, name, value)
    context.options = {**plan.options, **siting_option(shape.siting)}
    if threads is not None:
        context.thread_count = threads
    if headers_apart:
        context.flags |= Flags.global_header
    return context


def new_context(name: str) -> VideoCodecContext:
    """Return a context for the encoder ``name``."""
    context = av.CodecContext.create(name, "w")
    assert isinstance(context, VideoCodecContext)
    return context


class Decoding:
    """Gives packets their times of decoding: those of showing, in order, some frames back.

    An encoder does the same within one run. Done over all runs, what several of them made goes
    together without a seam. ``depth`` is how many frames an encoder reorders at most.
    """

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._shown: deque[int] = deque()
        self._first: tuple[int, int] | None = None
        self._step = 1
        self._given = 0
        self._last: int | None = None

    def shown(self, count: int) -> None:
        """Note when a frame is shown, in the order of showing."""
        if self._first is None:
            self._first = (count, count)
        elif self._first[0] == self._first[1]:
            self._step = count - self._first[0]
            self._first = (self._first[0], count)
        self._shown.append(count)

    def next(self, shown: int) -> int:
        """Return when the next packet, of a frame ``shown`` then, is decoded."""
        assert self._first is not None
        before = self._depth - self._given
        self._given += 1
        time = self._first[0] - before * self._step if before > 0 else self._shown.popleft()
        time = min(time, shown)
        if self._last is not None and time <= self._last:
            time = self._last + 1
        self._last = time
        return time
