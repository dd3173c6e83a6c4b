"""Networks in ONNX Runtime."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import cached_property
from threading import Lock
from types import MappingProxyType

import onnxruntime as ort
import torch
from torch import Tensor

from mien.engines.binding import Bound
from mien.engines.halving import Halving
from mien.engines.libraries import load_libraries, reason_of
from mien.engines.options import (
    NEXT,
    ON_CUDA,
    Setup,
    provider_options,
    session_options,
    split_provider,
)
from mien.engines.prelu import without_prelu
from mien.engines.protocol import Port
from mien.errors import EngineError, EngineUnavailable, InvalidOption

log = logging.getLogger(__name__)

PROVIDERS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "cpu": ("CPUExecutionProvider", "onnxruntime"),
        "cuda": ("CUDAExecutionProvider", "onnxruntime-gpu"),
        "tensorrt": ("TensorrtExecutionProvider", "onnxruntime-gpu"),
        "openvino": ("OpenVINOExecutionProvider", "onnxruntime-openvino"),
        "coreml": ("CoreMLExecutionProvider", "onnxruntime"),
        "directml": ("DmlExecutionProvider", "onnxruntime-directml"),
    }
)
"""Our name of a provider: ONNX Runtime's name, and the package whose build has it."""

MOST_THREADS = 256


class OnnxEngine:
    """An ONNX network in one ONNX Runtime session.

    ``read`` returns the content of the ONNX file; it is called again only for ``safer``.
    ``provider`` may name a device, as in 'cuda:1'. It is reported from the session, not from what
    was asked for. If the one asked for would not run, EngineUnavailable says why, unless
    ``allow_fallback``: then the CPU runs and a warning is logged. ``threads`` is the number of CPU
    threads of one run (default: all cores this process may use). ``nodes`` says how many nodes of
    the graph each provider runs, or is None where ONNX Runtime does not tell. A graph with a fixed
    batch of one is run once per sample. A batch that there is no memory for is run in parts; see
    Halving.
    """

    def __init__(
        self,
        model: str,
        read: Callable[[], bytes],
        *,
        provider: str = "cpu",
        threads: int | None = None,
        allow_fallback: bool = False,
        optimise: bool = True,
        setup: Setup | None = None,
    ) -> None:
        name, index = split_provider(provider, PROVIDERS)
        setup = replace(setup or Setup(), index=index, threads=threads)
        if threads is not None and not 1 <= threads <= MOST_THREADS:
            raise InvalidOption("threads", threads, f"1 to {MOST_THREADS}")
        self.model = model
        self._read = read
        self._threads = threads
        weights = read()
        try:
            self._session, fault = _open(weights, name, threads, optimise, setup)
        except Exception as error:  # ONNX Runtime's own errors share no base
            raise EngineError(
                f"Network {model!r} could not be opened by ONNX Runtime {ort.__version__}: {error}",
                model=model,
            ) from error
        if fault is not None:
            refusal = EngineUnavailable(model=model, provider=provider, reason=fault)
            if not allow_fallback:
                raise refusal
            log.warning("%s The CPU runs it instead, as allowed.", refusal)
        self.inputs = tuple(map(_port, self._session.get_inputs()))
        self.outputs = tuple(map(_port, self._session.get_outputs()))
        self._names = [port.name for port in self.outputs]
        self._one_by_one = any(port.shape and port.shape[0] == 1 for port in self.inputs)
        self.nodes = _nodes(self._session)
        ours = name if fault is None else "cpu"
        # DirectML takes one run at a time
        self._turn = Lock() if ours == "directml" else nullcontext()
        self._halving = Halving(model, ours if fault else provider)
        self._bound: Bound | None = None
        if ours in ON_CUDA and torch.cuda.is_available():
            with suppress(TypeError):  # values of some other type go through the host
                self._bound = Bound(self._session, torch.device("cuda", index or 0))

    @property
    def provider(self) -> str:
        """Name of the provider that the session itself puts first."""
        running = self._session.get_providers()[0]
        ours = next((o for o, (theirs, _) in PROVIDERS.items() if theirs == running), running)
        number = self._session.get_provider_options().get(running, {}).get("device_id", "0")
        return ours if number == "0" else f"{ours}:{number}"

    def __call__(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Run a batch; see Engine."""
        size = len(next(iter(inputs.values())))
        if self._one_by_one and size != 1:
            runs = [self._run({k: v[i : i + 1] for k, v in inputs.items()}) for i in range(size)]
            outputs = {name: torch.cat([run[name] for run in runs]) for name in self._names}
        else:
            outputs = self._run(inputs)
        device = next(iter(inputs.values())).device
        return {name: outputs[name].to(device) for name in self._names}

    def _run(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        try:
            return self._halving(self._part, inputs)
        except EngineError:
            raise
        except Exception as error:  # ONNX Runtime's own errors share no base
            raise EngineError(
                f"Network {self.model!r} could not be run on {self.provider!r}: {error}",
                model=self.model,
            ) from error

    def _part(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        with self._turn:
            return self._through_host(inputs) if self._bound is None else self._bound(inputs)

    def _through_host(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        feeds = {
            name: value.detach().to("cpu", torch.float32).contiguous().numpy()
            for name, value in inputs.items()
        }
        values = self._session.run(self._names, feeds)
        device = next(iter(inputs.values())).device
        return {
            name: torch.from_numpy(value).to(device)
            for name, value in zip(self._names, values, strict=True)
        }

    def safer(self) -> OnnxEngine:
        """Return the network on the CPU, with the graph as it was written, unoptimised."""
        return self._safe

    @cached_property
    def _safe(self) -> OnnxEngine:
        # kept: while a GPU is full, every batch comes here
        return OnnxEngine(
            self.model, self._read, provider="cpu", threads=self._threads, optimise=False
        )


def _open(
    weights: bytes, provider: str, threads: int | None, optimise: bool, setup: Setup
) -> tuple[ort.InferenceSession, str | None]:
    """Open a session; also return why ``provider`` does not run it, or None if it does."""
    theirs, package = PROVIDERS[provider]
    cores = threads or usable_cores()

    def opened(*names: str) -> ort.InferenceSession:
        options = session_options(names[0], cores, optimise=optimise)
        chain = [(PROVIDERS[name][0], provider_options(name, setup)) for name in names]
        graph = without_prelu(weights) if optimise and names == ("cpu",) else weights
        # without its fallback, which prints to the standard output and then runs on the CPU
        return ort.InferenceSession(graph, options, providers=chain, enable_fallback=0)

    built_in = ort.get_available_providers()
    if theirs not in built_in:
        fault = (
            f"the installed ONNX Runtime {ort.__version__} was built without it "
            f"(it has {', '.join(built_in)}; the package {package} has it)."
        )
        return opened("cpu"), fault
    if provider == "cpu":
        return opened("cpu"), None
    if provider in ON_CUDA:
        load_libraries()
    try:
        session = opened(provider, *([NEXT[provider]] if provider in NEXT else []), "cpu")
    except Exception as error:  # noqa: BLE001 - ONNX Runtime's own errors share no base
        session = opened("cpu")  # raises the like if the network is at fault
        said = reason_of(error)
        return session, f"ONNX Runtime {ort.__version__} offers it and could not open it: {said}"
    running = session.get_providers()
    if running[0] != theirs:
        fault = (
            f"ONNX Runtime {ort.__version__} offers it, but the session runs on "
            f"{', '.join(running)}. Usually a driver or a CUDA or cuDNN library of the matching "
            "version is missing."
        )
        return session, fault
    nodes = _nodes(session)
    if nodes is not None and not nodes.get(provider):
        taken = ", ".join(f"{count} on {name}" for name, count in nodes.items())
        return opened("cpu"), f"it took none of the network's nodes ({taken})."
    return session, None


def _nodes(session: ort.InferenceSession) -> dict[str, int] | None:
    """Return how many nodes each provider runs, by our names, or None if that is not known.

    ONNX Runtime tells it from 1.24 on, of sessions that were asked to remember it.
    """
    if not hasattr(session, "get_provider_graph_assignment_info"):
        return None
    names = {theirs: ours for ours, (theirs, _) in PROVIDERS.items()}
    counts: Counter[str] = Counter()
    for part in session.get_provider_graph_assignment_info():
        counts[names.get(part.ep_name, part.ep_name)] += len(part.get_nodes())
    return dict(counts) or None


def usable_cores() -> int:
    """Return the number of CPU cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _port(node: ort.NodeArg) -> Port:
    return Port(node.name, tuple(n if isinstance(n, int) else None for n in node.shape))
