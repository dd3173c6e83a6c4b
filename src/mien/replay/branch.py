"""Branches of a CUDA graph: what is done at the same time as something else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from mien.engines.streams import streams_of


class Branch:
    """A branch of what is captured on the device of ``like``, which begins where it is made.

    Only a graph has branches. Elsewhere what is aside is done at once: the stream for it is one for
    all threads, and one of them captures at a time.
    """

    def __init__(self, like: Tensor) -> None:
        self._begin: torch.cuda.Event | None = None
        if like.is_cuda and torch.cuda.is_current_stream_capturing():
            self._main = torch.cuda.current_stream(like.device)
            self._side = streams_of(like.device).side
            self._begin = self._main.record_event()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Do what is inside at the same time as all that follows the branch's beginning."""
        if self._begin is None:
            yield
            return
        self._side.wait_event(self._begin)
        with torch.cuda.stream(self._side):
            yield

    def join(self) -> None:
        """Let what follows wait for what is aside."""
        if self._begin is not None:
            self._main.wait_stream(self._side)
