"""Networks in PyTorch, from their ONNX files: for GPUs, where pictures never leave the device.

Half precision is tried before it is used: drivers and networks differ in what they make of it. A
network that does not pass runs in the next better precision, and says so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Literal, Protocol, get_args

import torch
from torch import Tensor, nn

from mien.engines.devices import TORCH_PROVIDERS, device_of, is_torch, missing
from mien.engines.graphed import Graphed, Network
from mien.engines.halving import Halving, no_memory
from mien.engines.onnx import OnnxEngine
from mien.engines.protocol import Engine, Port
from mien.errors import EngineError, EngineUnavailable, InvalidOption, OutOfMemory
from mien.nets.frozen import FrozenNet
from mien.nets.graph import Graph, Shape

log = logging.getLogger(__name__)

CPU = torch.device("cpu")

Precision = Literal["float32", "float16", "bfloat16"]
BETTER: Mapping[Precision, tuple[Precision, ...]] = {
    "float16": ("float16", "bfloat16", "float32"),
    "bfloat16": ("bfloat16", "float32"),
    "float32": ("float32",),
}
"""What is tried for a precision, in this order; bfloat16 is coarser, but never overflows."""


class Trial(Protocol):
    """What half precision must pass for a network."""

    @property
    def exact_ends(self) -> bool:
        """Whether the last operators stay in float32; see FrozenNet.lower."""
        ...

    def inputs(self, shapes: Mapping[str, Shape]) -> dict[str, Tensor]:
        """Return a batch for inputs of these shapes: realistic, and the same at every call."""
        ...

    def fault(self, exact: Mapping[str, Tensor], made: Mapping[str, Tensor]) -> str | None:
        """Say what is wrong with outputs beside those of float32 on the same device, or None."""
        ...


class PlainNet(nn.Module):
    """A network as float tensors in, float32 tensors out, in the order of the engine's ports.

    Takes and returns tensors on its own device, checks nothing and waits for nothing, so a CUDA
    graph can hold it.
    """

    def __init__(self, net: FrozenNet) -> None:
        super().__init__()
        self.net = net

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Return all outputs for ``inputs``, batch first."""
        return tuple(value.float().contiguous() for value in self.net(*inputs))


class TorchEngine:
    """An ONNX network as a PyTorch module on one device.

    ``read`` returns the content of the ONNX file. ``provider`` is torch-cpu, torch-cuda (the GPU
    with the most free memory) or torch-cuda:NUMBER; EngineUnavailable says why it cannot run here.
    ``precision`` is float16 on a GPU and float32 on a CPU unless given. Half precision must pass
    ``trial``; without one only what is asked for is used, and float32 is the default. ``threads``
    is for ``safer``: PyTorch's number of CPU threads is the process's (torch.set_num_threads).
    A batch that the GPU has no memory for is run in parts; see Halving. On a GPU shapes that recur
    run as CUDA graphs; see Graphed.
    """

    def __init__(
        self,
        model: str,
        read: Callable[[], bytes],
        *,
        provider: str = "torch-cuda",
        precision: Precision | None = None,
        trial: Trial | None = None,
        threads: int | None = None,
    ) -> None:
        if not is_torch(provider):
            raise InvalidOption("provider", provider, TORCH_PROVIDERS)
        if precision not in (*get_args(Precision), None):
            raise InvalidOption("precision", precision, get_args(Precision))
        if reason := missing(provider):
            raise EngineUnavailable(model=model, provider=provider, reason=reason)
        self.model, self.device = model, device_of(provider)
        self._read, self._threads = read, threads
        self._halving = Halving(model, f"torch-{self.device}")
        if precision is None:
            precision = "float16" if trial is not None and self.device.type == "cuda" else "float32"
        weights = read()
        try:
            graph = Graph.read(weights)
            self.inputs = tuple(_port(name, graph) for name in graph.inputs)
            self.outputs = tuple(_port(name, graph) for name in graph.outputs)
            self.module, self.precision, self.fell_back = self._chosen(graph, precision, trial)
        except OutOfMemory as error:
            raise self._refusal(provider, error.reason) from error
        except EngineError:
            raise
        except Exception as error:  # the errors of onnx and of torch share no base
            if no_memory(error):
                raise self._refusal(provider, str(error)) from error
            raise EngineError(
                f"Network {model!r} could not be opened by PyTorch {torch.__version__}: {error}",
                model=model,
            ) from error
        self._fast: Network = self.module
        if self.device.type == "cuda":
            self._fast = Graphed(model, self.module, self.device)

    module: PlainNet
    """The network itself, without graphs; see PlainNet."""

    precision: Precision
    """What it computes in."""

    fell_back: tuple[str, ...]
    """Why it does not compute in what was to be, one reason for each precision tried."""

    @property
    def provider(self) -> str:
        """What the module's tensors lie on: torch-cuda or torch-cpu. ``device`` has the number."""
        held = next(self.module.buffers(), None)
        return f"torch-{(self.device if held is None else held.device).type}"

    def __call__(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Run a batch; see Engine. Outputs lie where the inputs lay."""
        return self._run(self._fast, inputs)

    def safer(self) -> Engine:
        """Return the network in float32; if it is that, or on a CPU, in ONNX Runtime on the CPU.

        On the CPU too if the GPU had no memory for a row, or has none for the network in float32.
        """
        on_gpu = self.device.type != "cpu" and not self._halving.failed
        if on_gpu and self.precision != "float32":
            with suppress(EngineUnavailable):
                return TorchEngine(
                    self.model,
                    self._read,
                    provider=f"torch-{self.device}",
                    precision="float32",
                    threads=self._threads,
                )
        return self._on_cpu

    @cached_property
    def _on_cpu(self) -> OnnxEngine:
        # kept: while a GPU is full, every batch comes here
        return OnnxEngine(self.model, self._read, provider="cpu", threads=self._threads)

    def _taken(self, port: Port, inputs: Mapping[str, Tensor]) -> Tensor:
        value = inputs.get(port.name)
        if value is None:
            raise EngineError(f"{self.model!r} lacks its input {port.name!r}.", model=self.model)
        wanted = port.shape
        if value.ndim != len(wanted) or any(
            size not in (None, found) for size, found in zip(wanted, value.shape, strict=True)
        ):
            raise EngineError(
                f"{self.model!r} takes {port.name!r} of shape {wanted}, not {tuple(value.shape)}.",
                model=self.model,
            )
        return value.detach().to(self.device, torch.float32)

    @torch.no_grad()
    def _run(self, network: Network, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        device = next(iter(inputs.values())).device

        def run(part: Mapping[str, Tensor]) -> dict[str, Tensor]:
            # moved here and back, so that no more than a part of the batch is on the GPU
            values = network(*(self._taken(port, part) for port in self.inputs))
            named = zip(self.outputs, values, strict=True)
            return {port.name: value.to(device) for port, value in named}

        try:
            return self._halving(run, inputs)
        except EngineError:
            raise
        except Exception as error:  # shapes that do not fit, say: no common base
            raise EngineError(
                f"Network {self.model!r} could not be run on 'torch-{self.device}': {error}",
                model=self.model,
            ) from error

    def _refusal(self, provider: str, said: str) -> EngineUnavailable:
        reason = f"there is no memory left for it: {said}"
        return EngineUnavailable(model=self.model, provider=provider, reason=reason)

    def _chosen(
        self, graph: Graph, precision: Precision, trial: Trial | None
    ) -> tuple[PlainNet, Precision, tuple[str, ...]]:
        """Return the module in the first precision that passes, that precision, and the faults."""
        exact = self._module(graph)
        if precision == "float32":
            return exact, precision, ()
        if trial is None:
            return self._module(graph, precision), precision, ()
        given = trial.inputs({port.name: port.shape for port in self.inputs})
        inputs = {port.name: self._taken(port, given) for port in self.inputs}
        wanted = self._run(exact, inputs)
        faults: list[str] = []
        for tried in BETTER[precision][:-1]:
            module = self._module(graph, tried, exact_ends=trial.exact_ends)
            fault = self._tried(module, inputs, wanted, trial)
            if fault is None:
                break
            faults.append(f"{tried}: {fault}")
        else:
            module, tried = exact, "float32"
        if faults:
            log.warning("%s runs in %s. %s", self.model, tried, "; ".join(faults))
        return module, tried, tuple(faults)

    def _tried(
        self,
        module: PlainNet,
        inputs: Mapping[str, Tensor],
        wanted: Mapping[str, Tensor],
        trial: Trial,
    ) -> str | None:
        try:
            made = self._run(module, inputs)
        except EngineError as error:  # an operator that the device has not in this precision
            return str(error)
        if not all(bool(torch.isfinite(value).all()) for value in made.values()):
            return "values that are not finite"
        return trial.fault(wanted, made)

    def _module(
        self, graph: Graph, precision: Precision = "float32", *, exact_ends: bool = False
    ) -> PlainNet:
        net = FrozenNet(graph).eval().requires_grad_(False).to(self.device)
        if precision != "float32":
            net.lower(getattr(torch, precision), exact_ends=exact_ends)
        return PlainNet(net.channels_last()).eval()


def home_of(engines: Iterable[Engine]) -> torch.device:
    """Return the device on which the pictures for ``engines`` had best lie.

    It is the GPU on which PyTorch runs all of them, if there is such a one, and else the CPU.
    """
    devices = {each.device if isinstance(each, TorchEngine) else CPU for each in engines}
    return devices.pop() if len(devices) == 1 else CPU


def _port(name: str, graph: Graph) -> Port:
    """Return a port whose batch is free, whatever batch size the file was written with."""
    return Port(name, (None, *graph.shapes.get(name, (None,))[1:]))
