"""Replays: a whole frame as one CUDA graph, and frames that stream through it.

Upload of the next frame, work on this one and download of the last go on at the same time, each on
a stream of its own, through rings of pinned memory. One frame's kernels are small, and leave most
of a GPU idle: with two lanes, each a graph with memory of its own, two frames are worked on at
once; and a graph may hold a batch of frames, whose kernels are hardly more than those of one. On a
CPU the same is done step by step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from fractions import Fraction
from itertools import cycle, islice

import torch
from torch import Tensor

from mien.engines.capturing import captured
from mien.engines.streams import streams_of
from mien.errors import InvalidOption
from mien.replay.foresight import Foresight
from mien.replay.frame import IN_ORDER, Outcome, WholeFrame
from mien.replay.packing import Packing
from mien.replay.steady import State
from mien.types import Frame

RING = 3
"""Batches on their way in a lane: one uploaded, one worked on, one downloaded."""

Timed = tuple[Tensor, float]
"""Pixels, and how many seconds came before them, where that matters."""


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
        self.known: State = ()
        """What was known before the last frame that was not streamed, where faces are steadied."""

        if self.steady is not None:
            self.known = self.steady.state()
            self.foresight = Foresight() if follow else None
        self._frame = frame
        self._people = people.to(self.device)
        self._replaced = None if replaced is None else replaced.to(self.device)
        self._lanes = [_Lane(self)] if frame.is_cuda else []
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
                used: _Graph = lane(frames, elapsed, follow=follow)
                return used.alone if alone else used.outcome

            made = self._foreseen(elapsed, make)
        current.wait_stream(work)
        return made

    def _foreseen(self, elapsed: float, make: Callable[[bool], Outcome]) -> Outcome:
        """Return the frame that ``make`` makes, followed or not, as it should be."""
        if self.steady is None:
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
            self._lanes.append(_Lane(self))
        yield from _through([_Stream(lane) for lane in self._lanes[:lanes]], timed)

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


@dataclass(frozen=True, slots=True, eq=False)
class _Graph:
    """A graph, and the memory it writes."""

    graph: torch.cuda.CUDAGraph
    outcome: Outcome
    alone: Outcome
    """That of the first frame."""

    packing: Packing


class _Lane:
    """The graphs of a replay, and the memory they read and write."""

    @torch.inference_mode()
    def __init__(self, replay: Replay) -> None:
        self.device, self.frames = replay.device, replay.blank()
        self.steady, self.foresight = replay.steady, replay.foresight
        self._elapsed: Tensor | None = None
        if replay.steady is not None:
            self._elapsed = torch.zeros((), dtype=torch.float64, device=self.device)
        streams = streams_of(self.device)
        self.up, self.down = streams.fresh(), streams.fresh()
        self._read = torch.cuda.Event()
        self.whole = self._captured(replay, follow=False)
        self._follow = None
        if self.foresight is not None:
            self._follow = self._captured(replay, follow=True)

    def _captured(self, replay: Replay, *, follow: bool) -> _Graph:
        def run() -> Outcome:
            made = replay.run(self.frames, self._elapsed, follow=follow)
            return _each(Tensor.contiguous, made)

        pool = self.whole.graph.pool() if follow else None
        graph, outcome = captured(run, self.device, pool=pool)
        return _Graph(graph, outcome, outcome.frame(0), Packing(outcome))

    @contextmanager
    def used_on(self, stream: torch.cuda.Stream) -> Iterator[None]:
        """Let ``stream`` wait until the last outcome was read, and the next until this one is."""
        stream.wait_event(self._read)
        yield
        self._read.record(stream)

    def __call__(self, frames: Tensor, elapsed: float, *, follow: bool) -> _Graph:
        """Return the graph that has worked on ``frames``."""
        self.frames.copy_(frames, non_blocking=True)
        if self._elapsed is not None:
            self._elapsed.fill_(elapsed)
        used = self._follow if follow and self._follow is not None else self.whole
        used.graph.replay()
        return used


@dataclass(slots=True, eq=False)
class _Place:
    """One batch's memory on its way through."""

    on_device: Tensor
    made: Tensor
    """Pictures on the device, until they are downloaded."""

    found: Tensor
    """What else an outcome says, packed; on the device, too."""

    taken: Tensor
    """Pinned: the pictures that are downloaded."""

    told: Tensor
    """Pinned: what is downloaded besides, packed."""

    outcomes: tuple[Outcome, ...]
    """One of each frame, in pinned memory."""

    uploaded: torch.cuda.Event
    worked: torch.cuda.Event
    downloaded: torch.cuda.Event
    count: int = 0
    """Frames of the batch that was started; the rest is padding."""

    given: Tensor | None = None
    """Pinned: what is uploaded, where frames are not pinned themselves."""

    known: State = ()
    """What was known before this frame, if it was followed."""

    elapsed: float = 0.0
    followed: bool = False


class _Stream:
    """Batches through a lane, RING at a time; memory of its own keeps outcomes from other runs."""

    def __init__(self, lane: _Lane) -> None:
        self._lane = lane
        self._places = [_place(lane) for _ in range(RING)]
        # memory that others gave back may still be in use there
        lane.up.wait_stream(torch.cuda.current_stream(lane.device))
        self._turns = cycle(self._places)
        self._place = next(self._turns)
        self.added, self._elapsed = 0, 0.0

    @property
    def full(self) -> bool:
        """Whether a whole batch waits to be started."""
        return self.added == len(self._place.on_device)

    def add(self, frame: Tensor, elapsed: float) -> None:
        """Send a frame on its way, into a batch that is not full.

        ``elapsed`` is the time since the one before; it is heeded where a batch is one frame.
        """
        lane, place = self._lane, self._place
        self._elapsed = elapsed
        if not frame.is_cuda and not frame.is_pinned():
            if place.given is None:
                place.given = _pinned(place.on_device)
            frame = place.given[self.added].copy_(frame)
        if frame.is_cuda:  # whoever made it may still be at it, and may give it back too early
            lane.up.wait_stream(torch.cuda.current_stream(lane.device))
            frame.record_stream(lane.up)
        with torch.cuda.stream(lane.up):
            if not self.added:
                lane.up.wait_event(place.worked)  # what it held before was read
            place.on_device[self.added].copy_(frame, non_blocking=True)
        self.added += 1

    def start(self) -> _Place:
        """Work on the frames that were added, and download what becomes of them."""
        lane, place, count = self._lane, self._place, self.added
        place.count, place.elapsed = count, self._elapsed
        self._place, self.added = next(self._turns), 0
        with torch.cuda.stream(lane.up):
            if count < len(place.on_device):
                place.on_device[count:].copy_(place.on_device[count - 1 : count])
            place.uploaded.record(lane.up)
        foresight = lane.foresight
        self._work(place, follow=foresight is not None and foresight.follow(place.elapsed))
        return place

    def _work(self, place: _Place, *, follow: bool) -> None:
        lane, count = self._lane, place.count
        place.followed = follow
        work = streams_of(lane.device).next_work()
        with torch.cuda.stream(work), lane.used_on(work):
            work.wait_event(place.uploaded)
            work.wait_event(place.downloaded)
            if follow and lane.steady is not None:
                lane.steady.keep(place.known)
            used = lane(place.on_device, place.elapsed, follow=follow)
            place.made.copy_(used.outcome.pixels)
            used.packing.pack(place.found)
            place.worked.record(work)
        with torch.cuda.stream(lane.down):
            lane.down.wait_event(place.worked)
            place.told.copy_(place.found, non_blocking=True)
            place.taken[:count].copy_(place.made[:count], non_blocking=True)
            place.downloaded.record(lane.down)

    def finish(self, place: _Place, later: Sequence[_Place]) -> None:
        """Wait for a batch; ``later`` are those that were started since.

        A frame that was followed in vain is made again, and all that came after it.
        """
        place.downloaded.synchronize()
        steady, foresight = self._lane.steady, self._lane.foresight
        if steady is None or foresight is None:
            return
        if foresight.told(bool(place.outcomes[0].quiet), followed=place.followed):
            work = streams_of(self._lane.device).next_work()
            with torch.cuda.stream(work), self._lane.used_on(work):
                steady.take(place.known)
            for each in (place, *later):
                self._work(each, follow=False)
            place.downloaded.synchronize()
            foresight.told(bool(place.outcomes[0].quiet), followed=False)

    def settle(self) -> None:
        """Wait until nothing is on its way any more."""
        self._lane.up.synchronize()
        self._lane.down.synchronize()


def _place(lane: _Lane) -> _Place:
    frames, packing = lane.frames, lane.whole.packing
    found = torch.empty(packing.size, dtype=torch.uint8, device=lane.device)
    taken, told = _pinned(lane.whole.outcome.pixels), _pinned(found)
    outcome = packing.unpacked(taken, told)
    return _Place(
        on_device=torch.empty_like(frames),
        made=torch.empty_like(lane.whole.outcome.pixels),
        found=found,
        taken=taken,
        told=told,
        outcomes=tuple(map(outcome.frame, range(len(frames)))),
        uploaded=torch.cuda.Event(),
        worked=torch.cuda.Event(),
        downloaded=torch.cuda.Event(),
        known=() if lane.steady is None or lane.foresight is None else lane.steady.state(),
    )


@torch.inference_mode()
def _through(streams: list[_Stream], frames: Iterable[Timed]) -> Iterator[Outcome]:
    """Yield outcomes in the order of ``frames``, batches of which go to the streams in turn."""
    waiting: deque[tuple[_Stream, _Place]] = deque()
    turns = cycle(streams)
    stream = next(turns)
    try:
        for frame, elapsed in frames:
            if not stream.added and len(waiting) == RING * len(streams):
                yield from _finished(waiting)
            stream.add(frame, elapsed)
            if stream.full:
                waiting.append((stream, stream.start()))
                stream = next(turns)
        if stream.added:
            waiting.append((stream, stream.start()))
        while waiting:
            yield from _finished(waiting)
    finally:  # whoever stops early gives back memory that is still written to
        for each in streams:
            each.settle()


def _finished(waiting: deque[tuple[_Stream, _Place]]) -> Iterator[Outcome]:
    """Yield the outcomes of the batch that has been on its way longest."""
    stream, place = waiting.popleft()
    stream.finish(place, [later for _, later in waiting])
    yield from place.outcomes[: place.count]


def shown(frame: Tensor | Frame) -> Tensor:
    """Return a frame's pixels, uint8 (H, W, 3)."""
    return frame.view if isinstance(frame, Frame) else frame


_NAMES = tuple(field.name for field in fields(Outcome))


def _each(make, outcome: Outcome) -> Outcome:  # type: ignore[no-untyped-def]
    return Outcome(**{name: make(getattr(outcome, name)) for name in _NAMES})


def _pinned(like: Tensor) -> Tensor:
    return torch.empty(like.shape, dtype=like.dtype, pin_memory=True)
