"""Networks in ONNX Runtime."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy.typing as npt
import onnxruntime as ort
import torch
from torch import Tensor

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

ERRORS_ONLY = 3
MOST_THREADS = 256


class OnnxEngine:
    """An ONNX network in one ONNX Runtime session.

    ``read`` returns the content of the ONNX file; it is called again only for ``safer``.
    ``provider`` is reported from the session, not from what was asked for. If the one asked for
    would not run, EngineUnavailable says why, unless ``allow_fallback``: then the CPU runs and a
    warning is logged. ``threads`` is the number of CPU threads of one run (default: all cores this
    process may use). A graph with a fixed batch of one is run once per sample.
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
    ) -> None:
        if provider not in PROVIDERS:
            raise InvalidOption("provider", provider, PROVIDERS)
        if threads is not None and not 1 <= threads <= MOST_THREADS:
            raise InvalidOption("threads", threads, f"1 to {MOST_THREADS}")
        self.model = model
        self._read = read
        self._threads = threads
        weights = read()
        try:
            self._session, fault = _open(weights, PROVIDERS[provider][0], threads, optimise)
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

    @property
    def provider(self) -> str:
        """Name of the provider that the session itself puts first."""
        running = self._session.get_providers()[0]
        return next((ours for ours, (theirs, _) in PROVIDERS.items() if theirs == running), running)

    def __call__(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Run a batch; see Engine."""
        feeds = {
            name: value.detach().to("cpu", torch.float32).contiguous().numpy()
            for name, value in inputs.items()
        }
        size = len(next(iter(feeds.values())))
        if self._one_by_one and size != 1:
            runs = [self._run({k: v[i : i + 1] for k, v in feeds.items()}) for i in range(size)]
            columns = [
                torch.cat([torch.from_numpy(value) for value in column])
                for column in zip(*runs, strict=True)
            ]
        else:
            columns = [torch.from_numpy(v) for v in self._run(feeds)]
        device = next(iter(inputs.values())).device
        return {k: v.to(device) for k, v in zip(self._names, columns, strict=True)}

    def _run(self, feeds: Mapping[str, npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        try:
            values: list[npt.NDArray[Any]] = self._session.run(self._names, feeds)
        except Exception as error:  # ONNX Runtime's own errors share no base
            raise EngineError(
                f"Network {self.model!r} could not be run on {self.provider!r}: {error}",
                model=self.model,
            ) from error
        return values

    def safer(self) -> OnnxEngine:
        """Return the network on the CPU, with the graph as it was written, unoptimised."""
        return OnnxEngine(
            self.model, self._read, provider="cpu", threads=self._threads, optimise=False
        )


def _open(
    weights: bytes, provider: str, threads: int | None, optimise: bool
) -> tuple[ort.InferenceSession, str | None]:
    """Open a session; also return why ``provider`` does not run it, or None if it does."""
    options = ort.SessionOptions()
    options.log_severity_level = ERRORS_ONLY
    options.intra_op_num_threads = threads or usable_cores()
    # A waiting thread must not spin: the cores are needed by the stages between two networks.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if not optimise:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    cpu = PROVIDERS["cpu"][0]
    built_in = ort.get_available_providers()
    if provider not in built_in:
        package = next(package for theirs, package in PROVIDERS.values() if theirs == provider)
        fault = (
            f"the installed ONNX Runtime {ort.__version__} was built without it "
            f"(it has {', '.join(built_in)}; the package {package} has it)."
        )
        return ort.InferenceSession(weights, options, providers=[cpu]), fault
    session = ort.InferenceSession(weights, options, providers=list(dict.fromkeys([provider, cpu])))
    running = session.get_providers()
    if running[0] == provider:
        return session, None
    fault = (
        f"ONNX Runtime {ort.__version__} offers it, but the session runs on {', '.join(running)}. "
        "Usually a driver or a CUDA or cuDNN library of the matching version is missing."
    )
    return session, fault


def usable_cores() -> int:
    """Return the number of CPU cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _port(node: ort.NodeArg) -> Port:
    return Port(node.name, tuple(n if isinstance(n, int) else None for n in node.shape))
