"""CUDA graphs, captured one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, TypeVar

import torch

R = TypeVar("R")

WARM = 3
"""Runs before a graph is captured: libraries choose their kernels and set up their memory."""

CAPTURING = Lock()
"""One graph at a time: to begin, PyTorch waits for the whole device, which ends other captures. So
does whoever empties PyTorch's cache, and must hold it too."""

_choosing = Lock()
_inside, _before = 0, False


def captured(
    run: Callable[[], R],
    device: torch.device,
    *,
    stream: torch.cuda.Stream | None = None,
    pool: Any = None,
) -> tuple[torch.cuda.CUDAGraph, R]:
    """Return a graph of ``run``, which takes and gives the same memory each time, and what it gave.

    ``run`` is called WARM times before, and must wait for nothing. The graph is not replayed yet.
    ``pool`` is that of a graph (``graph.pool()``) which never runs at the same time, ``stream`` the
    one on which it was captured: both must be given for it to share its memory. Other threads may
    use the GPU meanwhile, but not wait for all of it. Raises whatever ``run`` raises, and
    RuntimeError for what no graph can hold.
    """
    # a stream of its own: what cuBLAS works in belongs to a stream, and graphs run side by side
    aside = stream or torch.cuda.Stream(device)
    aside.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.device(device), fastest():
        with torch.cuda.stream(aside):
            for _ in range(WARM):
                run()
        torch.cuda.current_stream(device).wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        capture = torch.cuda.graph(
            graph, pool=pool, stream=aside, capture_error_mode="thread_local"
        )
        with CAPTURING, capture:
            made = run()
    return graph, made


@contextmanager
def fastest() -> Iterator[None]:
    """Let cuDNN try out its convolutions for each new shape, and take the fastest.

    PyTorch's switch is the process's: it is set back when the last thread has left.
    """
    global _inside, _before  # noqa: PLW0603
    with _choosing:
        if not _inside:
            _before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, True
        _inside += 1
    try:
        yield
    finally:
        with _choosing:
            _inside -= 1
            if not _inside:
                torch.backends.cudnn.benchmark = _before
