"""CUDA graphs, captured one at a time on a stream that nobody else is handed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, RLock
from typing import Any, TypeVar

import torch

from mien.engines.streams import streams_of

R = TypeVar("R")

WARM = 3
"""Runs before a graph is captured: libraries choose their kernels and set up their memory."""

CAPTURING = RLock()
"""One graph at a time: to begin, PyTorch waits for the whole device, which ends other captures; all
share a stream; and the choice of convolutions is one for all threads. Whoever empties PyTorch's
cache ends captures, too, and must hold it: as cuDNN does when it tries out its convolutions, which
it then does for every thread, so networks run step by step only under this lock."""


_captures = Event()


def busy() -> bool:
    """Return whether a graph is captured just now."""
    return _captures.is_set()


def captured(
    run: Callable[[], R], device: torch.device, *, pool: Any = None, search: bool = True
) -> tuple[torch.cuda.CUDAGraph, R]:
    """Return a graph of ``run``, which takes and gives the same memory each time, and what it gave.

    ``run`` is called WARM times before, and must wait for nothing. The graph is not replayed yet.
    ``pool`` is that of a graph (``graph.pool()``) which never runs at the same time: they share
    their memory. With ``search`` cuDNN tries its convolutions out, which takes a second for each
    shape, and takes the fastest; without, it takes what it would step by step. Other threads may
    use the GPU meanwhile, but not wait for all of it. Raises whatever ``run`` raises, and
    RuntimeError for what no graph can hold.
    """
    stream, current = streams_of(device).capture, torch.cuda.current_stream(device)
    # the first run compiles and tries kernels out, and waits for the device: it is in the lock, too
    with CAPTURING, _told(), torch.cuda.device(device), _fastest(search):
        stream.wait_stream(current)
        with torch.cuda.stream(stream):  # where a capture fails, PyTorch by itself would stay on it
            for _ in range(WARM):
                run()
            # products keep their memory for the next on a stream: this graph needs its own
            torch._C._cuda_clearCublasWorkspaces()
            graph = torch.cuda.CUDAGraph()
            try:
                with torch.cuda.graph(
                    graph, pool=pool, stream=stream, capture_error_mode="thread_local"
                ):
                    made = run()
            finally:
                torch._C._cuda_clearCublasWorkspaces()  # and nobody else may go on with it
        current.wait_stream(stream)
    return graph, made


@contextmanager
def _told() -> Iterator[None]:
    _captures.set()
    try:
        yield
    finally:
        _captures.clear()


@contextmanager
def _fastest(search: bool) -> Iterator[None]:
    """Let cuDNN try out its convolutions for each new shape, and take the fastest, or not.

    PyTorch's switch is the process's: whoever sets it holds the lock.
    """
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = before or search
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before
