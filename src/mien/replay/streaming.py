"""Frames that stream through lanes: uploaded, worked on and downloaded at the same time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle

import torch
from torch import Tensor

from mien.engines.streams import streams_of
from mien.replay.frame import Outcome
from mien.replay.lane import Lane
from mien.replay.tracks import State

RING = 3
"""Batches on their way in a lane: one uploaded, one worked on, one downloaded."""

Timed = tuple[Tensor, float]
"""Pixels, and how many seconds came before them, where that matters."""


@dataclass(slots=True, eq=False)
class Place:
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

    known: State | None = None
    """What was known before this frame, if it was followed."""

    elapsed: float = 0.0
    followed: bool = False


class Stream:
    """Batches through a lane, RING at a time; memory of its own keeps outcomes from other runs."""

    def __init__(self, lane: Lane) -> None:
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
                place.given = pinned(place.on_device)
            frame = place.given[self.added].copy_(frame)
        if frame.is_cuda:  # whoever made it may still be at it, and may give it back too early
            lane.up.wait_stream(torch.cuda.current_stream(lane.device))
            frame.record_stream(lane.up)
        with torch.cuda.stream(lane.up):
            if not self.added:
                lane.up.wait_event(place.worked)  # what it held before was read
            place.on_device[self.added].copy_(frame, non_blocking=True)
        self.added += 1

    def start(self) -> Place:
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

    def _work(self, place: Place, *, follow: bool) -> None:
        lane, count = self._lane, place.count
        place.followed = follow
        work = streams_of(lane.device).next_work()
        with torch.cuda.stream(work), lane.used_on(work):
            work.wait_event(place.uploaded)
            work.wait_event(place.downloaded)
            if follow and lane.steady is not None and place.known is not None:
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

    def finish(self, place: Place, later: Sequence[Place]) -> None:
        """Wait for a batch; ``later`` are those that were started since.

        A frame that was followed in vain is made again, and all that came after it.
        """
        place.downloaded.synchronize()
        steady, foresight = self._lane.steady, self._lane.foresight
        if steady is None or foresight is None or place.known is None:
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


def _place(lane: Lane) -> Place:
    frames, packing = lane.frames, lane.whole.packing
    found = torch.empty(packing.size, dtype=torch.uint8, device=lane.device)
    taken, told = pinned(lane.whole.outcome.pixels), pinned(found)
    outcome = packing.unpacked(taken, told)
    return Place(
        on_device=torch.empty_like(frames),
        made=torch.empty_like(lane.whole.outcome.pixels),
        found=found,
        taken=taken,
        told=told,
        outcomes=tuple(map(outcome.frame, range(len(frames)))),
        uploaded=torch.cuda.Event(),
        worked=torch.cuda.Event(),
        downloaded=torch.cuda.Event(),
        known=None if lane.steady is None or lane.foresight is None else lane.steady.state(),
    )


@torch.inference_mode()
def through(streams: list[Stream], frames: Iterable[Timed]) -> Iterator[Outcome]:
    """Yield outcomes in the order of ``frames``, batches of which go to the streams in turn."""
    waiting: deque[tuple[Stream, Place]] = deque()
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


def _finished(waiting: deque[tuple[Stream, Place]]) -> Iterator[Outcome]:
    """Yield the outcomes of the batch that has been on its way longest."""
    stream, place = waiting.popleft()
    stream.finish(place, [later for _, later in waiting])
    yield from place.outcomes[: place.count]


def pinned(like: Tensor) -> Tensor:
    """Return pinned memory of the shape and type of ``like``."""
    return torch.empty(like.shape, dtype=like.dtype, pin_memory=True)
