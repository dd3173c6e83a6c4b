"""A network as CUDA graphs, one for each shape that recurs.

Small networks keep a GPU waiting for the processor, which starts their kernels one by one. A graph
starts them all at once. It holds for one shape and keeps memory of its own, so there are few, for
the shapes that come again and again; all others run step by step, as does everything while memory
is short.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from threading import Lock
from typing import Protocol, TypeVar
from weakref import WeakSet

import torch
from torch import Tensor

from mien.engines.capturing import CAPTURING, busy, captured
from mien.engines.halving import no_memory
from mien.errors import GpuFull

log = logging.getLogger(__name__)

R = TypeVar("R")

Network = Callable[..., tuple[Tensor, ...]]
"""Takes and returns tensors on its device, and waits for nothing."""

Shapes = tuple[torch.Size, ...]

SEEN, RECENT = 3, 32
"""A shape is captured when it comes the SEEN-th time within RECENT calls."""

KEPT = 6
"""Graphs of one network; one that was used within RECENT calls does not make room for another, or
shapes that take turns would be captured over and over."""

REST = 256
"""Calls without captures after memory ran out or a capture failed; twice as many each time."""


class Captured(Protocol):
    """A network for inputs of one shape. Called by one thread at a time."""

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Return all outputs, which are the caller's, ready on its current stream."""
        ...

    def finish(self) -> None:
        """Wait until nobody needs its memory; it is called no more."""
        ...


Capture = Callable[[Network, tuple[Tensor, ...], "Captured | None"], Captured]
"""Captures a network for inputs like these; a sibling, which never runs at the same time, may
share its memory."""


class CudaGraph:
    """A network captured as a CUDA graph."""

    def __init__(
        self, network: Network, inputs: tuple[Tensor, ...], sibling: Captured | None = None
    ) -> None:
        """Capture ``network`` for inputs like these, on the device; they are not kept."""
        other = sibling if isinstance(sibling, CudaGraph) else None
        self._device = device = inputs[0].device
        self._done: torch.cuda.Event = torch.cuda.Event() if other is None else other._done
        self._graph: torch.cuda.CUDAGraph
        # whoever works in inference mode could make tensors that nobody else may write into
        with torch.inference_mode(False), torch.no_grad():
            self._inputs = tuple(value.clone() for value in inputs)
            self._graph, self._outputs = captured(
                lambda: network(*self._inputs),
                device,
                pool=None if other is None else other._graph.pool(),
                search=False,  # a clip may be over before that was worth it
            )

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Return all outputs, which are the caller's, ready on its current stream."""
        stream = torch.cuda.current_stream(self._device)
        stream.wait_event(self._done)  # the call before may have been on another stream
        for mine, given in zip(self._inputs, inputs, strict=True):
            mine.copy_(given, non_blocking=True)
        try:
            self._graph.replay()
            return tuple(value.clone() for value in self._outputs)
        finally:
            self._done.record(stream)

    def finish(self) -> None:
        """Wait until nobody needs its memory; it is called no more."""
        self._done.synchronize()


class Graphed:
    """A network on one GPU that runs as a graph where it has one. Called by any thread.

    Nothing but the network's own errors is raised: where a graph cannot be, there is none.
    """

    def __init__(
        self, model: str, network: Network, device: torch.device, *, capture: Capture = CudaGraph
    ) -> None:
        self._model, self._network, self._device = model, network, device
        self._capture = capture
        self._lock = Lock()
        self._graphs: OrderedDict[Shapes, Captured] = OrderedDict()
        self._recent: deque[Shapes] = deque(maxlen=RECENT)
        self._busy, self._told = False, False
        self._resting, self._rest = 0, REST
        with _all_lock:
            _all.add(self)

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Return all outputs for ``inputs``, on the device; ready on the current stream."""
        if inputs[0].is_cuda and torch.cuda.is_current_stream_capturing():
            return self._network(*inputs)  # it becomes a part of somebody else's graph
        try:
            return self._run(inputs)
        except Exception as error:
            if not no_memory(error):
                raise
            with self._lock:
                self._pause()
            if not release_all(self._device):
                raise
        with CAPTURING:
            return self._network(*inputs)

    def _run(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        shapes = tuple(value.shape for value in inputs)
        with self._lock:
            self._recent.append(shapes)
            graph = self._graphs.get(shapes)
            if graph is not None:
                self._graphs.move_to_end(shapes)
                return graph(*inputs)
            due = self._due(shapes)
            self._busy |= due
        if due:
            graph = self._captured(shapes, inputs)
            with self._lock:
                self._busy = False
                if graph is not None:
                    self._graphs[shapes] = graph
                    return graph(*inputs)
        with CAPTURING:  # while cuDNN tries out its ways it empties PyTorch's cache
            return self._network(*inputs)

    def release(self) -> bool:
        """Give up all graphs, and make none for a while; return whether there were any."""
        with self._lock:
            held, self._graphs = self._graphs, OrderedDict()
            self._pause()
            for graph in held.values():
                graph.finish()
        return bool(held)

    def _due(self, shapes: Shapes) -> bool:
        """Return whether ``shapes`` are to be captured now, and see to it that there is room."""
        if self._resting:
            self._resting -= 1
            return False
        # who captures now takes a while; in between others run step by step
        if self._recent.count(shapes) < SEEN or self._busy or busy():
            return False
        if len(self._graphs) >= KEPT:
            oldest = next(iter(self._graphs))
            if oldest in self._recent:
                return False
            self._graphs.pop(oldest).finish()
        return True

    def _captured(self, shapes: Shapes, inputs: tuple[Tensor, ...]) -> Captured | None:
        with self._lock:
            sibling = next(iter(self._graphs.values()), None)
        try:
            return self._capture(self._network, inputs, sibling)
        except Exception as error:  # noqa: BLE001 what no graph can hold has no class of its own
            # its text alone: the frames of a traceback would keep what they have allocated
            said = str(error)
        with self._lock:
            self._pause()
        if not self._told:
            self._told = True
            log.warning(
                "%s on %s runs step by step, which is slower: no CUDA graph could be made for %s: "
                "%s",
                *(self._model, self._device, [tuple(shape) for shape in shapes], said),
            )
        return None

    def _pause(self) -> None:
        if not self._resting:
            self._resting, self._rest = self._rest, 2 * self._rest
        self._recent.clear()


_all_lock = Lock()
_all: WeakSet[Graphed] = WeakSet()


def with_room(device: torch.device, run: Callable[[], R]) -> R:
    """Return what ``run`` does, which is called again if the GPU has no memory left for it.

    By then the graphs of the networks have given theirs back. Raises GpuFull if that is not enough,
    and whatever else ``run`` raises.
    """
    try:
        return run()
    except torch.OutOfMemoryError as error:
        if not release_all(device):
            raise GpuFull(device=str(device), reason=str(error)) from error
    try:
        return run()
    except torch.OutOfMemoryError as error:
        raise GpuFull(device=str(device), reason=str(error)) from error


def release_all(device: torch.device) -> bool:
    """Give up the graphs of all networks on ``device``, whose memory then is anybody's.

    Return whether there were any.
    """
    with _all_lock:
        there = [each for each in _all if each._device == device]
    released = [each.release() for each in there]
    if not any(released):
        return False
    with CAPTURING:
        torch.cuda.empty_cache()
    return True
