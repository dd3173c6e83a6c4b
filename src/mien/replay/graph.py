"""Replays: a whole frame as one CUDA graph, and frames that stream through it.

Upload of the next frame, work on this one and download of the last go on at the same time, each on
a stream of its own, through rings of pinned memory. One frame's kernels are small, and leave most
of a GPU idle: with two lanes, each a graph with memory of its own, two frames are worked on at
once; and a graph may hold a batch of frames, whose kernels are hardly more than those of one. On a
CPU the same is done step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from itertools import islice

import torch
from torch import Tensor

from mien.engines.streams import streams_of
from mien.errors import InvalidOption
from mien.replay.foresight import Foresight
from mien.replay.frame import IN_ORDER, Outcome, WholeFrame
from mien.replay.lane import Graph, Lane
from mien.replay.streaming import Stream, Timed, through
from mien.replay.tracks import State
from mien.types import Frame


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

    Where ``whole`` steadies faces, frames are ``mien.types.Frame``, one by one in order, with their
    time: the WholeFrame is then this replay's alone. Raises InvalidOption where a time is missing.
    While nothing new is in sight faces are followed, in half the time; see Foresight. For that each
    call waits until it is known that nothing was. With ``follow=False`` none waits.
    """

    def __init__(
        self,
        whole: WholeFrame,
        people: Tensor,
        replaced: Tensor | None,
        *,
        frame: Tensor,
        batch: int = 1,
        follow: bool = True,
    ) -> None:
        """``frame`` is any frame of the size to come, on the device that is to work.

        ``people`` (R, D) and ``replaced`` may be changed by ``cast``, but not in number. ``batch``
        frames go through the graph at once. Raises InvalidOption.
        """
        if batch < 1:
            raise InvalidOption("batch", batch, "1 or more")
        self.steady, self._clock = whole.steady, Clock()
        if batch > 1 and self.steady is not None:
            raise InvalidOption("batch", batch, IN_ORDER)
        self.device, self.batch = frame.device, batch
        self._whole = whole.to(self.device).eval()
        self.foresight: Foresight | None = None
        self.known: State | None = None
        """What was known before the last frame that was not streamed, where faces are steadied."""

        if self.steady is not None:
            self.known = self.steady.state()
            self.foresight = Foresight() if follow else None
        self._frame = frame
        self._people = people.to(self.device)
        self._replaced = None if replaced is None else replaced.to(self.device)
        self._lanes = [self._lane()] if frame.is_cuda else []
        self.restart()

    def restart(self) -> None:
        """Begin another clip, of which no face is known."""
        self._clock.restart()
        if self.steady is not None:
            self.steady.reset()
        if self.foresight is not None:
            self.foresight.restart()

    def cast(self, people: Tensor, replaced: Tensor | None = None) -> None:
        """Let other people be received, of the same number, from the next frame on."""
        self._people.copy_(people)
        if replaced is not None and self._replaced is not None:
            self._replaced.copy_(replaced)

    def __call__(self, frames: Tensor | Frame) -> Outcome:
        """Return what becomes of ``frames``, uint8 (``batch``, H, W, 3), which stay as they are.

        With a batch of 1 a frame may be (H, W, 3), and its outcome has no leading dimension either.
        On a GPU the outcome's tensors are the graph's own: the next call writes into them. Raises
        InvalidOption for another number of frames.
        """
        return self.work(*self._read(frames))

    @torch.inference_mode()
    def work(self, frames: Tensor, elapsed: float = 0.0) -> Outcome:
        """Do as a call does, with ``elapsed`` seconds since the frame before; 0 begins a clip."""
        alone = frames.dim() == 3
        count = 1 if alone else len(frames)
        if count != self.batch:
            raise InvalidOption("frames", count, [self.batch])
        if not self._lanes:
            return self._step(frames, elapsed)
        lane, current = self._lanes[0], torch.cuda.current_stream(self.device)
        work = streams_of(self.device).next_work()
        work.wait_stream(current)
        with torch.cuda.stream(work), lane.used_on(work):

            def make(follow: bool) -> Outcome:
                used: Graph = lane(frames, elapsed, follow=follow)
                return used.alone if alone else used.outcome

            made = self._foreseen(elapsed, make)
        current.wait_stream(work)
        return made

    def _foreseen(self, elapsed: float, make: Callable[[bool], Outcome]) -> Outcome:
        """Return the frame that ``make`` makes, followed or not, as it should be."""
        if self.steady is None or self.known is None:
            return make(False)
        self.steady.keep(self.known)
        foresight = self.foresight
        if foresight is None:
            return make(False)
        follow = foresight.follow(elapsed)
        made = make(follow)
        if foresight.told(bool(made.quiet), followed=follow):
            self.steady.take(self.known)
            made = make(False)
            foresight.told(bool(made.quiet), followed=False)
        return made

    def stream(self, frames: Iterable[Tensor | Frame], *, lanes: int = 1) -> Iterator[Outcome]:
        """Yield what becomes of each frame, uint8 (H, W, 3), in order; outcomes are on the CPU.

        An outcome holds until the next one is taken. Frames may lie anywhere; pinned ones, which
        must not change until their outcome is there, and those on the device are not copied on
        the way. ``batch`` frames that follow each other are worked on as one, and uploaded as they
        come; where the last are fewer, the last one fills their batch up. With 1 of ``lanes`` the
        delay is least; 2 give more frames a second for the memory of one more graph. No more than
        2 graphs run at once, so more lanes, and clips in other threads, take turns. Where faces are
        steadied, ``lanes`` must be 1. Raises InvalidOption.
        """
        if lanes < 1:
            raise InvalidOption("lanes", lanes, "1 or more")
        if lanes > 1 and self.steady is not None:
            raise InvalidOption("lanes", lanes, IN_ORDER)
        timed = map(self._read, frames)
        if not self._lanes:
            yield from self._by_steps(timed)
            return
        while len(self._lanes) < lanes:
            self._lanes.append(self._lane())
        yield from through([Stream(lane) for lane in self._lanes[:lanes]], timed)

    def run(
        self, frames: Tensor, elapsed: Tensor | None = None, *, follow: bool = False
    ) -> Outcome:
        """Return what becomes of ``frames`` step by step, with no graph; see WholeFrame."""
        whole = self._whole
        outcome: Outcome = whole(frames, self._people, self._replaced, elapsed, follow=follow)
        return outcome

    def _step(self, frames: Tensor, elapsed: float) -> Outcome:
        gap = torch.full((), elapsed, dtype=torch.float64, device=self.device)
        return self._foreseen(elapsed, lambda follow: self.run(frames, gap, follow=follow))

    @torch.inference_mode()
    def _by_steps(self, frames: Iterator[Timed]) -> Iterator[Outcome]:
        while batch := list(islice(frames, self.batch)):
            _, elapsed = batch[-1]
            outcome = self._step(torch.stack([pixels for pixels, _ in batch]), elapsed)
            yield from map(outcome.frame, range(len(batch)))

    def _read(self, frame: Tensor | Frame) -> Timed:
        elapsed = 0.0 if self.steady is None else self._clock(frame)
        return shown(frame), elapsed

    def blank(self) -> Tensor:
        """Return memory for a batch of frames, uint8 (B, H, W, 3), with any frame in it."""
        batch = self._frame.expand(self.batch, *self._frame.shape)
        return batch.clone(memory_format=torch.contiguous_format)

    def _lane(self) -> Lane:
        return Lane(self.blank(), self.run, self.steady, self.foresight)


def shown(frame: Tensor | Frame) -> Tensor:
    """Return a frame's pixels, uint8 (H, W, 3)."""
    return frame.view if isinstance(frame, Frame) else frame
