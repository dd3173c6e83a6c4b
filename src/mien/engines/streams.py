"""The streams of a GPU on which frames are captured and worked on, shared by all threads.

PyTorch hands out 32 streams of a device in turn, the same ones again and again. Whoever works on a
stream that is capturing spoils the graph, so those on which graphs are captured are kept apart. And
a GPU on which many graphs of small kernels run at once gets slower with each: 2 of them make the
most frames a second, and 4 make fewer than one alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle
from threading import Lock

import torch

WORKERS = 2
"""Graphs of a device that run at once, however many lanes, clips and threads there are."""

HIGH = -1
"""Priority of the streams that are kept apart: PyTorch takes these from a pool of their own, which
only those share who ask for the same priority."""


@dataclass(frozen=True, slots=True, eq=False)
class Streams:
    """The streams of one device."""

    capture: torch.cuda.Stream
    """Where graphs are captured; only for whoever holds the lock on capturing."""

    side: torch.cuda.Stream
    """For a branch of what is being captured."""

    work: tuple[torch.cuda.Stream, ...]
    """Where graphs run."""

    turns: Iterator[torch.cuda.Stream] = field(repr=False)

    def next_work(self) -> torch.cuda.Stream:
        """Return where the next graph is to run: every one in turn, so that no clip waits long."""
        return next(self.turns)

    def fresh(self) -> torch.cuda.Stream:
        """Return a stream that is none of these; others may have been handed the same."""
        kept = {stream.cuda_stream for stream in (self.capture, self.side, *self.work)}
        while True:
            stream = torch.cuda.Stream(self.capture.device)
            if stream.cuda_stream not in kept:
                return stream


_made: dict[torch.device, Streams] = {}
_making = Lock()


def streams_of(device: torch.device) -> Streams:
    """Return the streams of ``device``, which has a number; they are made once."""
    with _making:
        if device not in _made:
            capture, side = (torch.cuda.Stream(device, priority=HIGH) for _ in range(2))
            work = tuple(torch.cuda.Stream(device) for _ in range(WORKERS))
            _made[device] = Streams(capture, side, work, cycle(work))
        return _made[device]
