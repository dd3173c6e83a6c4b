"""Lanes: the CUDA graphs of a replay, and the memory they read and write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Protocol

import torch
from torch import Tensor

from mien.engines.capturing import captured
from mien.engines.streams import streams_of
from mien.replay.foresight import Foresight
from mien.replay.frame import Outcome
from mien.replay.packing import Packing
from mien.replay.steady import SteadySlots


class Run(Protocol):
    """What a graph holds: see Replay.run."""

    def __call__(self, frames: Tensor, elapsed: Tensor | None, *, follow: bool) -> Outcome:
        """Return what becomes of ``frames``, uint8 (B, H, W, 3)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A graph, and the memory it writes."""

    graph: torch.cuda.CUDAGraph
    outcome: Outcome
    alone: Outcome
    """That of the first frame."""

    packing: Packing


class Lane:
    """The graphs of a replay, and the memory they read and write."""

    @torch.inference_mode()
    def __init__(
        self, frames: Tensor, run: Run, steady: SteadySlots | None, foresight: Foresight | None
    ) -> None:
        """``frames`` is memory for a batch, uint8 (B, H, W, 3), with any frame in it.

        ``steady`` and ``foresight`` are those of the replay whose frames are ``run`` here.
        """
        self.device, self.frames = frames.device, frames
        self.steady, self.foresight, self._run = steady, foresight, run
        self._elapsed: Tensor | None = None
        if steady is not None:
            self._elapsed = torch.zeros((), dtype=torch.float64, device=self.device)
        streams = streams_of(self.device)
        self.up, self.down = streams.fresh(), streams.fresh()
        self._read = torch.cuda.Event()
        self.whole = self._captured(follow=False)
        self._follow = None if foresight is None else self._captured(follow=True)

    def _captured(self, *, follow: bool) -> Graph:
        def run() -> Outcome:
            made = self._run(self.frames, self._elapsed, follow=follow)
            return _each(Tensor.contiguous, made)

        pool = self.whole.graph.pool() if follow else None
        graph, outcome = captured(run, self.device, pool=pool)
        return Graph(graph, outcome, outcome.frame(0), Packing(outcome))

    @contextmanager
    def used_on(self, stream: torch.cuda.Stream) -> Iterator[None]:
        """Let ``stream`` wait until the last outcome was read, and the next until this one is."""
        stream.wait_event(self._read)
        yield
        self._read.record(stream)

    def __call__(self, frames: Tensor, elapsed: float, *, follow: bool) -> Graph:
        """Return the graph that has worked on ``frames``."""
        self.frames.copy_(frames, non_blocking=True)
        if self._elapsed is not None:
            self._elapsed.fill_(elapsed)
        used = self._follow if follow and self._follow is not None else self.whole
        used.graph.replay()
        return used


_NAMES = tuple(field.name for field in fields(Outcome))


def _each(make, outcome: Outcome) -> Outcome:  # type: ignore[no-untyped-def]
    return Outcome(**{name: make(getattr(outcome, name)) for name in _NAMES})
