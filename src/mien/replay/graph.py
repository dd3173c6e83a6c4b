"""Replays: a whole frame as one CUDA graph, and frames that stream through it.

Upload of the next frame, work on this one and download of the last go on at the same time, each on
a stream of its own, through rings of pinned memory. One frame's kernels are small, and leave most
of a GPU idle: with two lanes, each a graph with memory of its own, two frames are worked on at
once; and a graph may hold a batch of frames, whose kernels are hardly more than those of one. On a
CPU the same is done step by step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import cycle, islice
from threading import Lock

import torch
from torch import Tensor

from mien.errors import InvalidOption
from mien.replay.frame import Outcome, WholeFrame
from mien.replay.packing import Packing
from mien.replay.streams import streams_of

WARM = 3
"""Runs before a graph is captured: libraries choose their kernels and set up their memory."""

CAPTURING = Lock()
"""One lane at a time is made: to begin a capture, PyTorch waits for the whole device, which ends
other captures; they share a stream; and the choice of convolutions is one for all threads."""

RING = 3
"""Batches on their way in a lane: one uploaded, one worked on, one downloaded."""


class Replay:
    """Swaps frames of one size, uint8 (H, W, 3), for one cast."""

    def __init__(
        self,
        whole: WholeFrame,
        people: Tensor,
        replaced: Tensor | None,
        *,
        frame: Tensor,
        batch: int = 1,
    ) -> None:
        """``frame`` is any frame of the size to come, on the device that is to work.

        ``people`` (R, D) and ``replaced`` may be changed by ``cast``, but not in number. ``batch``
        frames go through the graph at once. Raises InvalidOption.
        """
        if batch < 1:
            raise InvalidOption("batch", batch, "1 or more")
        self.device, self.batch = frame.device, batch
        self._whole = whole.to(self.device).eval()
        self._frame = frame
        self._people = people.to(self.device)
        self._replaced = None if replaced is None else replaced.to(self.device)
        self._lanes = [_Lane(self)] if frame.is_cuda else []

    def cast(self, people: Tensor, replaced: Tensor | None = None) -> None:
        """Let other people be received, of the same number, from the next frame on."""
        self._people.copy_(people)
        if replaced is not None and self._replaced is not None:
            self._replaced.copy_(replaced)

    @torch.inference_mode()
    def __call__(self, frames: Tensor) -> Outcome:
        """Return what becomes of ``frames``, uint8 (``batch``, H, W, 3), which stay as they are.

        With a batch of 1 a frame may be (H, W, 3), and its outcome has no leading dimension either.
        On a GPU the outcome's tensors are the graph's own: the next call writes into them. Raises
        InvalidOption for another number of frames.
        """
        alone = frames.dim() == 3
        count = 1 if alone else len(frames)
        if count != self.batch:
            raise InvalidOption("frames", count, [self.batch])
        if not self._lanes:
            return self.run(frames)
        lane, current = self._lanes[0], torch.cuda.current_stream(self.device)
        work = streams_of(self.device).next_work()
        work.wait_stream(current)
        with torch.cuda.stream(work), lane.used_on(work):
            made: Outcome = lane(frames)
        current.wait_stream(work)
        return lane.alone if alone else made

    def stream(self, frames: Iterable[Tensor], *, lanes: int = 1) -> Iterator[Outcome]:
        """Yield what becomes of each frame, uint8 (H, W, 3), in order; outcomes are on the CPU.

        An outcome holds until the next one is taken. Frames may lie anywhere; pinned ones, which
        must not change until their outcome is there, and those on the device are not copied on
        the way. ``batch`` frames that follow each other are worked on as one, and uploaded as they
        come; where the last are fewer, the last one fills their batch up. With 1 of ``lanes`` the
        delay is least; 2 give more frames a second for the memory of one more graph. No more than
        2 graphs run at once, so more lanes, and clips in other threads, take turns. Raises
        InvalidOption.
        """
        if lanes < 1:
            raise InvalidOption("lanes", lanes, "1 or more")
        if not self._lanes:
            yield from self._by_steps(iter(frames))
            return
        while len(self._lanes) < lanes:
            self._lanes.append(_Lane(self))
        yield from _through([_Stream(lane) for lane in self._lanes[:lanes]], frames)

    def run(self, frames: Tensor) -> Outcome:
        """Return what becomes of ``frames``, uint8 ([B,] H, W, 3), step by step, with no graph."""
        outcome: Outcome = self._whole(frames, self._people, self._replaced)
        return outcome

    @torch.inference_mode()
    def _by_steps(self, frames: Iterator[Tensor]) -> Iterator[Outcome]:
        while batch := list(islice(frames, self.batch)):
            outcome = self.run(torch.stack(batch))
            yield from map(outcome.frame, range(len(batch)))

    def blank(self) -> Tensor:
        """Return memory for a batch of frames, uint8 (B, H, W, 3), with any frame in it."""
        batch = self._frame.expand(self.batch, *self._frame.shape)
        return batch.clone(memory_format=torch.contiguous_format)


class _Lane:
    """A graph of a replay, and the memory it reads and writes."""

    @torch.inference_mode()
    def __init__(self, replay: Replay) -> None:
        self.device, self.frames = replay.device, replay.blank()
        streams = streams_of(self.device)
        self.up, self.down = streams.fresh(), streams.fresh()
        self._read = torch.cuda.Event()
        current, capture = torch.cuda.current_stream(self.device), streams.capture
        # convolutions of these shapes are tried out once, and the fastest are captured
        with CAPTURING, torch.backends.cudnn.flags(enabled=True, benchmark=True):
            capture.wait_stream(current)
            with torch.cuda.stream(capture):
                for _ in range(WARM):
                    replay.run(self.frames)
            # products keep their memory for the next on a stream: this graph needs its own
            torch._C._cuda_clearCublasWorkspaces()
            self.graph = torch.cuda.CUDAGraph()
            # other threads may use the GPU meanwhile, but not wait for all of it, as this does
            with torch.cuda.graph(self.graph, stream=capture, capture_error_mode="thread_local"):
                self.outcome = _each(Tensor.contiguous, replay.run(self.frames))
            torch._C._cuda_clearCublasWorkspaces()  # and nobody else may go on with it
            current.wait_stream(capture)
        self.alone, self.packing = self.outcome.frame(0), Packing(self.outcome)

    @contextmanager
    def used_on(self, stream: torch.cuda.Stream) -> Iterator[None]:
        """Let ``stream`` wait until the last outcome was read, and the next until this one is."""
        stream.wait_event(self._read)
        yield
        self._read.record(stream)

    def __call__(self, frames: Tensor) -> Outcome:
        self.frames.copy_(frames, non_blocking=True)
        self.graph.replay()
        return self.outcome


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


class _Stream:
    """Batches through a lane, RING at a time; memory of its own keeps outcomes from other runs."""

    def __init__(self, lane: _Lane) -> None:
        self._lane = lane
        self._places = [_place(lane) for _ in range(RING)]
        # memory that others gave back may still be in use there
        lane.up.wait_stream(torch.cuda.current_stream(lane.device))
        self._turns = cycle(self._places)
        self._place = next(self._turns)
        self.added = 0

    @property
    def full(self) -> bool:
        """Whether a whole batch waits to be started."""
        return self.added == len(self._place.on_device)

    def add(self, frame: Tensor) -> None:
        """Send a frame on its way, into a batch that is not full."""
        lane, place = self._lane, self._place
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
        place.count = count
        self._place, self.added = next(self._turns), 0
        with torch.cuda.stream(lane.up):
            if count < len(place.on_device):
                place.on_device[count:].copy_(place.on_device[count - 1 : count])
            place.uploaded.record(lane.up)
        work = streams_of(lane.device).next_work()
        with torch.cuda.stream(work), lane.used_on(work):
            work.wait_event(place.uploaded)
            work.wait_event(place.downloaded)
            place.made.copy_(lane(place.on_device).pixels)
            lane.packing.pack(place.found)
            place.worked.record(work)
        with torch.cuda.stream(lane.down):
            lane.down.wait_event(place.worked)
            place.told.copy_(place.found, non_blocking=True)
            place.taken[:count].copy_(place.made[:count], non_blocking=True)
            place.downloaded.record(lane.down)
        return place

    def settle(self) -> None:
        """Wait until nothing is on its way any more."""
        self._lane.up.synchronize()
        self._lane.down.synchronize()


def _place(lane: _Lane) -> _Place:
    frames, packing = lane.frames, lane.packing
    found = torch.empty(packing.size, dtype=torch.uint8, device=lane.device)
    taken, told = _pinned(lane.outcome.pixels), _pinned(found)
    outcome = packing.unpacked(taken, told)
    return _Place(
        on_device=torch.empty_like(frames),
        made=torch.empty_like(lane.outcome.pixels),
        found=found,
        taken=taken,
        told=told,
        outcomes=tuple(map(outcome.frame, range(len(frames)))),
        uploaded=torch.cuda.Event(),
        worked=torch.cuda.Event(),
        downloaded=torch.cuda.Event(),
    )


@torch.inference_mode()
def _through(streams: list[_Stream], frames: Iterable[Tensor]) -> Iterator[Outcome]:
    """Yield outcomes in the order of ``frames``, batches of which go to the streams in turn."""
    waiting: deque[_Place] = deque()
    turns = cycle(streams)
    stream = next(turns)
    try:
        for frame in frames:
            if not stream.added and len(waiting) == RING * len(streams):
                yield from _finished(waiting)
            stream.add(frame)
            if stream.full:
                waiting.append(stream.start())
                stream = next(turns)
        if stream.added:
            waiting.append(stream.start())
        while waiting:
            yield from _finished(waiting)
    finally:  # whoever stops early gives back memory that is still written to
        for each in streams:
            each.settle()


def _finished(waiting: deque[_Place]) -> Iterator[Outcome]:
    """Yield the outcomes of the batch that has been on its way longest."""
    place = waiting.popleft()
    place.downloaded.synchronize()
    yield from place.outcomes[: place.count]


_NAMES = tuple(field.name for field in fields(Outcome))


def _each(make, outcome: Outcome) -> Outcome:  # type: ignore[no-untyped-def]
    return Outcome(**{name: make(getattr(outcome, name)) for name in _NAMES})


def _pinned(like: Tensor) -> Tensor:
    return torch.empty(like.shape, dtype=like.dtype, pin_memory=True)
