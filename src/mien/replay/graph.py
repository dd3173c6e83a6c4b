"""Replays: a whole frame as one CUDA graph, and frames that stream through it.

Upload of the next frame, work on this one and download of the last go on at the same time, each on
a stream of its own, through rings of pinned memory. One frame's kernels are small, and leave most
of a GPU idle: several lanes, each a graph with memory of its own, work on several frames at once.
On a CPU the same is done step by step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from fractions import Fraction

import torch
from torch import Tensor

from mien.engines.capturing import captured
from mien.errors import InvalidOption
from mien.replay.frame import Outcome, WholeFrame
from mien.types import Frame

RING = 3
"""Frames on their way in a lane: one uploaded, one worked on, one downloaded."""


class Clock:
    """Tells how much time lies between frames."""

    def __init__(self) -> None:
        self._last: Fraction | None = None

    def restart(self) -> None:
        """Begin another clip."""
        self._last = None

    def __call__(self, frame: Tensor | Frame) -> float:
        """Return the seconds since the frame before, 0 for the first.

        Raises InvalidOption for a frame without a time.
        """
        time = frame.time if isinstance(frame, Frame) else None
        if time is None:
            raise InvalidOption(
                "time", None, "the time of each frame, in a mien.types.Frame, to steady faces"
            )
        last, self._last = self._last, time
        return 0.0 if last is None else float(time - last)


class Replay:
    """Swaps frames of one size, uint8 (H, W, 3), for one cast.

    Where ``whole`` steadies faces, frames are ``mien.types.Frame``, in order, with their time: the
    WholeFrame is then this replay's alone. Raises InvalidOption where a time is missing.
    """

    def __init__(
        self, whole: WholeFrame, people: Tensor, replaced: Tensor | None, *, frame: Tensor
    ) -> None:
        """``frame`` is any frame of the size to come, on the device that is to work.

        ``people`` (R, D) and ``replaced`` may be changed by ``cast``, but not in number.
        """
        self.device = frame.device
        self._whole = whole.to(self.device).eval()
        self._frame = frame
        self._people = people.to(self.device)
        self._replaced = None if replaced is None else replaced.to(self.device)
        self.steady, self._clock = whole.steady, Clock()
        self._lanes = [_Lane(self)] if frame.is_cuda else []
        self.restart()

    def restart(self) -> None:
        """Begin another clip, of which no face is known."""
        self._clock.restart()
        if self.steady is not None:
            self.steady.reset()

    def cast(self, people: Tensor, replaced: Tensor | None = None) -> None:
        """Let other people be received, of the same number, from the next frame on."""
        self._people.copy_(people)
        if replaced is not None and self._replaced is not None:
            self._replaced.copy_(replaced)

    def __call__(self, frame: Tensor | Frame) -> Outcome:
        """Return what becomes of ``frame``, which stays as it is.

        On a GPU the outcome's tensors are the graph's own: the next call writes into them.
        """
        return self.work(*self._read(frame))

    @torch.inference_mode()
    def work(self, pixels: Tensor, elapsed: float = 0.0) -> Outcome:
        """Do as a call does, with ``elapsed`` seconds since the frame before; 0 begins a clip."""
        if not self._lanes:
            return self.run(pixels, torch.tensor(elapsed, dtype=torch.float64))
        made: Outcome = self._lanes[0](pixels, elapsed)
        return made

    def stream(self, frames: Iterable[Tensor | Frame], *, lanes: int = 1) -> Iterator[Outcome]:
        """Yield what becomes of each frame, uint8 (H, W, 3), in order; outcomes are on the CPU.

        An outcome holds until RING * ``lanes`` more were taken. Frames may lie anywhere; pinned
        ones, which must not change until their outcome is there, and those on the device are not
        copied on the way. ``lanes`` frames are worked on at once: 1 gives the least delay, 4 to 8
        the most frames a second, each for the memory of one more graph. Where faces are steadied
        it must be 1. Raises InvalidOption.
        """
        if lanes < 1:
            raise InvalidOption("lanes", lanes, "1 or more")
        if lanes > 1 and self.steady is not None:
            allowed = "1 where faces are steadied: each frame needs to know the one before"
            raise InvalidOption("lanes", lanes, allowed)
        if not self._lanes:
            for frame in frames:
                yield self(frame)
            return
        while len(self._lanes) < lanes:
            self._lanes.append(_Lane(self))
        yield from _through(
            [_Stream(lane) for lane in self._lanes[:lanes]], map(self._read, frames)
        )

    def run(self, pixels: Tensor, elapsed: Tensor | None = None) -> Outcome:
        """Return what becomes of a frame, step by step, without a graph; see WholeFrame."""
        outcome: Outcome = self._whole(pixels, self._people, self._replaced, elapsed)
        return outcome

    def _read(self, frame: Tensor | Frame) -> tuple[Tensor, float]:
        """Return a frame's pixels, and how many seconds came before it, if that matters."""
        elapsed = 0.0 if self.steady is None else self._clock(frame)
        return shown(frame), elapsed

    def blank(self) -> Tensor:
        """Return memory for a frame, with any frame in it."""
        return self._frame.clone()


class _Lane:
    """A graph of a replay, and the memory it reads and writes."""

    @torch.inference_mode()
    def __init__(self, replay: Replay) -> None:
        self.device, self.frame = replay.device, replay.blank()
        self._elapsed = torch.zeros((), dtype=torch.float64, device=self.device)
        self.graph, self.outcome = captured(
            lambda: replay.run(self.frame, self._elapsed), self.device
        )

    def __call__(self, frame: Tensor, elapsed: float) -> Outcome:
        self.frame.copy_(frame, non_blocking=True)
        self._elapsed.fill_(elapsed)
        self.graph.replay()
        return self.outcome


@dataclass(slots=True, eq=False)
class _Place:
    """One frame's memory on its way through."""

    given: Tensor
    """Pinned: what is uploaded."""

    on_device: Tensor
    made: Outcome
    """On the device, until it is downloaded."""

    taken: Outcome
    """Pinned: what is downloaded."""

    uploaded: torch.cuda.Event
    worked: torch.cuda.Event
    downloaded: torch.cuda.Event


class _Stream:
    """Frames through a lane, RING at a time."""

    def __init__(self, lane: _Lane) -> None:
        self._lane = lane
        self._up, self._work, self._down = (torch.cuda.Stream(lane.device) for _ in range(3))
        like, outcome = lane.frame, lane.outcome
        self._places = [
            _Place(
                given=_pinned(like),
                on_device=torch.empty_like(like),
                made=_each(torch.empty_like, outcome),
                taken=_each(_pinned, outcome),
                uploaded=torch.cuda.Event(),
                worked=torch.cuda.Event(),
                downloaded=torch.cuda.Event(),
            )
            for _ in range(RING)
        ]
        self._next = 0

    def start(self, frame: Tensor, elapsed: float) -> _Place:
        """Send a frame on its way; the place's last one was taken."""
        lane, place = self._lane, self._places[self._next]
        self._next = (self._next + 1) % RING
        if not frame.is_cuda and not frame.is_pinned():
            frame = place.given.copy_(frame)
        if frame.is_cuda:  # whoever made it may still be at it
            self._up.wait_stream(torch.cuda.current_stream(lane.device))
        with torch.cuda.stream(self._up):
            self._up.wait_event(place.worked)  # what it held before was read
            place.on_device.copy_(frame, non_blocking=True)
            place.uploaded.record()
        with torch.cuda.stream(self._work):
            self._work.wait_event(place.uploaded)
            self._work.wait_event(place.downloaded)
            outcome = lane(place.on_device, elapsed)
            for name in _NAMES:
                getattr(place.made, name).copy_(getattr(outcome, name))
            place.worked.record()
        with torch.cuda.stream(self._down):
            self._down.wait_event(place.worked)
            for name in _NAMES:
                getattr(place.taken, name).copy_(getattr(place.made, name), non_blocking=True)
            place.downloaded.record()
        return place


@torch.inference_mode()
def _through(streams: list[_Stream], frames: Iterable[tuple[Tensor, float]]) -> Iterator[Outcome]:
    """Yield outcomes in the order of ``frames``, which go to the streams in turn.

    With each frame comes the time since the one before.
    """
    waiting: deque[_Place] = deque()
    for number, (frame, elapsed) in enumerate(frames):
        if len(waiting) == RING * len(streams):
            yield _finished(waiting)
        waiting.append(streams[number % len(streams)].start(frame, elapsed))
    while waiting:
        yield _finished(waiting)


def _finished(waiting: deque[_Place]) -> Outcome:
    place = waiting.popleft()
    place.downloaded.synchronize()
    return place.taken


def shown(frame: Tensor | Frame) -> Tensor:
    """Return a frame's pixels, uint8 (H, W, 3)."""
    return frame.view if isinstance(frame, Frame) else frame


_NAMES = tuple(field.name for field in fields(Outcome))


def _each(make, outcome: Outcome) -> Outcome:  # type: ignore[no-untyped-def]
    return Outcome(**{name: make(getattr(outcome, name)) for name in _NAMES})


def _pinned(like: Tensor) -> Tensor:
    return torch.empty(like.shape, dtype=like.dtype, pin_memory=True)
