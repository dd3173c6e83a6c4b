"""CUDA graphs, captured one at a time on a stream that nobody else is handed."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, RLock
from typing import Any, TypeVar

import torch

from mien.engines.streams import streams_of

log = logging.getLogger(__name__)

R = TypeVar("R")

WARM = 3
"""Runs before a graph is captured: libraries choose their kernels and set up their memory."""

CAPTURING = RLock()
"""One graph at a time: to begin, PyTorch waits for the whole device, which ends other captures; all
share a stream; and the choice of convolutions is one for all threads. Whoever empties PyTorch's
cache ends captures, too, and must hold it: as cuDNN does when it tries out its convolutions, which
it then does for every thread, so networks run step by step only under this lock."""


_captures = Event()

_spoiled: set[Any] = set()
"""Pools in which a capture did not end in order. PyTorch 2.11 has a place for pinned memory beside
each, believes that the capture goes on there, and lets no other begin."""


def busy() -> bool:
    """Return whether a graph is captured just now."""
    return _captures.is_set()


def captured(
    run: Callable[[], R], device: torch.device, *, pool: Any = None, search: bool = True
) -> tuple[torch.cuda.CUDAGraph, R]:
    """Return a graph of ``run``, which takes and gives the same memory each time, and what it gave.

    ``run`` is called WARM times before, and must wait for nothing. The graph is not replayed yet.
    ``pool`` is that of a graph (``graph.pool()``) which never runs at the same time: they share
    their memory, unless a capture in it went wrong. With ``search`` cuDNN tries its convolutions
    out, which takes a second for each shape, and takes the fastest; without, it takes what it would
    step by step. Other threads may use the GPU meanwhile, but not wait for all of it. Raises
    whatever ``run`` raises, and RuntimeError for what no graph can hold; then PyTorch is as if
    nothing had been captured.
    """
    stream, current = streams_of(device).capture, torch.cuda.current_stream(device)
    # the first run compiles and tries kernels out, and waits for the device: it is in the lock, too
    with CAPTURING, _told(), torch.cuda.device(device), _fastest(search):
        if pool is None or pool in _spoiled:
            pool = torch.cuda.graph_pool_handle()  # PyTorch would not say which it took
        stream.wait_stream(current)
        with torch.cuda.stream(stream):  # where a capture fails, PyTorch by itself would stay on it
            for _ in range(WARM):
                run()
            # products keep their memory for the next on a stream: this graph needs its own
            torch._C._cuda_clearCublasWorkspaces()
            graph = torch.cuda.CUDAGraph()
            try:
                with (
                    _uncollected(),
                    torch.cuda.graph(
                        graph, pool=pool, stream=stream, capture_error_mode="thread_local"
                    ),
                ):
                    made = run()
            except BaseException:
                _recover(pool, device, stream)
                raise
            finally:
                torch._C._cuda_clearCublasWorkspaces()  # and nobody else may go on with it
        current.wait_stream(stream)
    return graph, made


def _recover(pool: Any, device: torch.device, stream: torch.cuda.Stream) -> None:
    """Do what PyTorch leaves undone where a capture in ``pool`` on ``stream`` went wrong.

    Where CUDA calls the capture invalid, PyTorch's allocator believes that it goes on, and never
    has back what is freed elsewhere; and the device has no random numbers until another capture
    ends in order. Raises nothing: what went wrong first is what matters.
    """

    def end() -> None:
        # this raises where the capture did end in order, as after an error of ``run`` itself
        torch._C._cuda_endAllocateToPool(device.index, pool)
        _spoiled.add(pool)
        torch._C._cuda_releasePool(device.index, pool)  # a graph does so only if its capture ended

    for step in (end, lambda: _capture_little(stream)):
        try:
            step()
        except Exception as error:  # noqa: BLE001 another error is raised already
            log.debug("After a capture that went wrong: %s", error)


def _capture_little(stream: torch.cuda.Stream) -> None:
    """Capture one kernel, which needs no memory; of an empty graph PyTorch would warn."""
    torch._C._cuda_sleep(1)  # CUDA may load it now, which it could not amid the capture
    graph = torch.cuda.CUDAGraph()
    with (
        _uncollected(),
        torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"),
    ):
        torch._C._cuda_sleep(1)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Let no garbage be collected: a graph among it would be destroyed, which ends a capture."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


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
