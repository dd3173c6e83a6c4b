"""Replays: a whole frame as one CUDA graph, and frames that stream through it.

Upload of the next frame, work on this one and download of the last go on at the same time, each on
a stream of its own, through rings of pinned memory. On a CPU the same is done step by step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from mien.replay.frame import Outcome, WholeFrame

WARM = 3
"""Runs before a graph is captured: libraries choose their kernels and set up their memory."""

RING = 3
"""Frames on their way: one uploaded, one worked on, one downloaded."""


class Replay:
    """Swaps frames of one size, uint8 (H, W, 3), for one cast."""

    def __init__(
        self, whole: WholeFrame, people: Tensor, replaced: Tensor | None, *, frame: Tensor
    ) -> None:
        """``frame`` is any frame of the size to come, on the device that is to work.

        ``people`` (R, D) and ``replaced`` may be changed by ``cast``, but not in number.
        """
        self.device = frame.device
        self._whole = whole.to(self.device).eval()
        self._frame = frame.clone()
        self._people = people.to(self.device)
        self._replaced = None if replaced is None else replaced.to(self.device)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._outcome: Outcome | None = None
        if frame.is_cuda:
            self._capture()

    def cast(self, people: Tensor, replaced: Tensor | None = None) -> None:
        """Let other people be received, of the same number, from the next frame on."""
        self._people.copy_(people)
        if replaced is not None and self._replaced is not None:
            self._replaced.copy_(replaced)

    @torch.inference_mode()
    def __call__(self, frame: Tensor) -> Outcome:
        """Return what becomes of ``frame``, which stays as it is.

        On a GPU the outcome's tensors are the graph's own: the next call writes into them.
        """
        if self._graph is None or self._outcome is None:
            return self._run(frame)
        self._frame.copy_(frame, non_blocking=True)
        self._graph.replay()
        return self._outcome

    def stream(self, frames: Iterable[Tensor]) -> Iterator[Outcome]:
        """Yield what becomes of each frame, uint8 (H, W, 3) on the CPU; outcomes are there, too.

        An outcome holds until RING more were taken.
        """
        if self._graph is None:
            for frame in frames:
                yield self(frame)
            return
        yield from _Stream(self)(frames)

    def _run(self, frame: Tensor) -> Outcome:
        outcome: Outcome = self._whole(frame, self._people, self._replaced)
        return outcome

    @torch.inference_mode()
    def _capture(self) -> None:
        aside = torch.cuda.Stream(self.device)
        aside.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(aside):
            for _ in range(WARM):
                self._run(self._frame)
        torch.cuda.current_stream(self.device).wait_stream(aside)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._outcome = self._run(self._frame)


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
    """Frames through a replay's graph, three at a time."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self._up, self._work, self._down = (torch.cuda.Stream(replay.device) for _ in range(3))
        assert replay._outcome is not None
        like, outcome = replay._frame, replay._outcome
        self._places = [
            _Place(
                given=torch.empty(like.shape, dtype=like.dtype, pin_memory=True),
                on_device=torch.empty_like(like),
                made=_each(torch.empty_like, outcome),
                taken=_each(_pinned, outcome),
                uploaded=torch.cuda.Event(),
                worked=torch.cuda.Event(),
                downloaded=torch.cuda.Event(),
            )
            for _ in range(RING)
        ]

    @torch.inference_mode()
    def __call__(self, frames: Iterable[Tensor]) -> Iterator[Outcome]:
        waiting: deque[_Place] = deque()
        for number, frame in enumerate(frames):
            place = self._places[number % RING]
            if len(waiting) == RING:
                yield self._finished(waiting)
            self._start(place, frame)
            waiting.append(place)
        while waiting:
            yield self._finished(waiting)

    def _start(self, place: _Place, frame: Tensor) -> None:
        replay = self._replay
        assert replay._graph is not None
        assert replay._outcome is not None
        place.given.copy_(frame)
        with torch.cuda.stream(self._up):
            self._up.wait_event(place.worked)  # what it held before was read
            place.on_device.copy_(place.given, non_blocking=True)
            place.uploaded.record()
        with torch.cuda.stream(self._work):
            self._work.wait_event(place.uploaded)
            self._work.wait_event(place.downloaded)
            replay._frame.copy_(place.on_device)
            replay._graph.replay()
            for name in _NAMES:
                getattr(place.made, name).copy_(getattr(replay._outcome, name))
            place.worked.record()
        with torch.cuda.stream(self._down):
            self._down.wait_event(place.worked)
            for name in _NAMES:
                getattr(place.taken, name).copy_(getattr(place.made, name), non_blocking=True)
            place.downloaded.record()

    @staticmethod
    def _finished(waiting: deque[_Place]) -> Outcome:
        place = waiting.popleft()
        place.downloaded.synchronize()
        return place.taken


_NAMES = tuple(field.name for field in fields(Outcome))


def _each(make, outcome: Outcome) -> Outcome:  # type: ignore[no-untyped-def]
    return Outcome(**{name: make(getattr(outcome, name)) for name in _NAMES})


def _pinned(like: Tensor) -> Tensor:
    return torch.empty(like.shape, dtype=like.dtype, pin_memory=True)
