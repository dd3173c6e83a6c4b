"""Which runtime runs a network: the one that is asked for, or the fastest that really does.

Every choice is one line in the log: what runs the network, and why nothing faster does.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

import onnxruntime as ort

from mien.engines.cache import EngineCache, sha256_of
from mien.engines.devices import TORCH_PROVIDERS, missing, settled
from mien.engines.onnx import MOST_THREADS, PROVIDERS, OnnxEngine
from mien.engines.options import Setup, split_provider
from mien.engines.profiles import profile_of
from mien.engines.protocol import Engine
from mien.engines.pytorch import TorchEngine, Trial
from mien.engines.tensorrt import open_tensorrt, sample
from mien.errors import EngineError, EngineUnavailable, InvalidOption

log = logging.getLogger(__name__)

AUTO = "auto"
"""What is given instead of a provider for the fastest that runs the network."""

FASTEST_FIRST = ("torch-cuda", "tensorrt", "cuda", "coreml", "openvino", "directml", "cpu")
"""PyTorch leads where it has a GPU: on an H200 it was two to six times as fast as ``cuda``."""

NOT_TRIED = ("torch-cpu",)
"""What runs only where it is asked for."""

SYSTEMS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "torch-cuda": ("linux", "win32"),
        "tensorrt": ("linux", "win32"),
        "cuda": ("linux", "win32"),
        "coreml": ("darwin",),
        "openvino": ("linux", "win32"),
        "directml": ("win32",),
    }
)
"""Where a provider can be had, by ``sys.platform``; the CPU's can everywhere."""

COMPILING = ("coreml", "openvino")
"""The providers that keep a compiled network, in a folder of its own."""

LIMITED = ("torch-cuda", "cuda", "cpu")
"""The providers that keep to a limit of a GPU's memory."""

Read = Callable[[], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """How a network is to be opened, beside on which provider."""

    index: int | None = None
    """Number of the device, or None for the first."""

    threads: int | None = None
    auto: bool = False
    """It is one of several tries: nothing that takes minutes."""

    allow_fallback: bool = False
    memory: int | None = None
    """The most of a GPU's memory that it may take, bytes; PyTorch is told for all its networks."""

    trial: Trial | None = None
    """What a network must pass to run in half precision."""


Open = Callable[[str, Read, Wanted], Engine]
"""Opens a network, by name and content, or raises EngineUnavailable or EngineError."""


def choose(
    model: str,
    read: Read,
    *,
    provider: str = "cpu",
    threads: int | None = None,
    allow_fallback: bool = False,
    memory: int | None = None,
    trial: Trial | None = None,
    runners: Mapping[str, Open] | None = None,
) -> Engine:
    """Return the network, loaded, on ``provider``, or with 'auto' on the fastest that runs it.

    A provider counts as running a network once it has run it. Its device may be named, as in
    'cuda:1'. If a provider that is named does not run, EngineUnavailable says why, unless
    ``allow_fallback``: then the CPU does. ``memory`` is what limit_memory returned. ``runners``
    opens it, by the provider's name, the fastest first.
    """
    runners = RUNNERS if runners is None else runners
    if threads is not None and not 1 <= threads <= MOST_THREADS:
        raise InvalidOption("threads", threads, f"1 to {MOST_THREADS}")
    known = sorted(runners, key=lambda one: [*PROVIDERS, *TORCH_PROVIDERS, one].index(one))
    name, index = split_provider(provider, (AUTO, *known))
    if name == AUTO:
        wanted = Wanted(threads=threads, auto=True, memory=memory, trial=trial)
        return _fastest(model, read, wanted, runners)
    wanted = Wanted(
        index=index, threads=threads, allow_fallback=allow_fallback, memory=memory, trial=trial
    )
    try:
        engine = runners[name](model, read, wanted)
    except EngineUnavailable as refusal:
        if not allow_fallback:
            raise
        log.warning("%s The CPU runs it instead, as allowed.", refusal)
        engine = runners["cpu"](model, read, Wanted(threads=threads))
    log.info("%s runs on %s", model, running(engine))
    return engine


def running(engine: Engine) -> str:
    """Say what runs an engine, and which part of it the CPU does."""
    nodes: Mapping[str, int] | None = getattr(engine, "nodes", None)
    main = engine.provider.partition(":")[0]
    if not nodes:
        # only ONNX Runtime before 1.24 does not tell
        unknown = isinstance(engine, OnnxEngine) and main != "cpu"
        return engine.provider + (" (which of its nodes the CPU runs is not known)" * unknown)
    others = [f"{count} on {name}" for name, count in nodes.items() if name != main]
    if not others:
        return engine.provider
    return f"{engine.provider} ({', '.join(others)}, of {sum(nodes.values())} nodes)"


def _fastest(model: str, read: Read, wanted: Wanted, runners: Mapping[str, Open]) -> Engine:
    passed: list[str] = []
    fault: EngineError | None = None
    for name, opener in runners.items():
        if name in NOT_TRIED:
            continue
        why = _absent(name)
        if why is None and wanted.memory is not None and name not in LIMITED:
            why = "it keeps to no limit of memory"
        if why is not None:
            passed.append(f"{name}: {why}")
            continue
        try:
            engine = opener(model, read, wanted)
            if name != "cpu":
                _try(engine)
        except EngineError as error:
            fault = error
            why = error.reason if isinstance(error, EngineUnavailable) else str(error)
            passed.append(f"{name}: {' '.join(why.split()).rstrip('.')}")
            continue
        because = f"; passed over: {'; '.join(passed)}" if passed else ""
        log.info("%s runs on %s%s", model, running(engine), because)
        return engine
    if fault is None:
        fault = EngineUnavailable(model=model, provider=AUTO, reason="; ".join(passed))
    raise fault


def _absent(name: str) -> str | None:
    """Say why a provider need not be tried, or None."""
    if name in TORCH_PROVIDERS:
        return (why := missing(name)) and why.rstrip(".")
    if name not in PROVIDERS:
        return None
    if sys.platform not in SYSTEMS.get(name, sys.platform):
        return "not for this system"
    if PROVIDERS[name][0] not in ort.get_available_providers():
        return "not in this build of ONNX Runtime"
    return None


def _try(engine: Engine) -> None:
    """Run a batch of one: some drivers and libraries fail only then."""
    shapes = profile_of(engine.inputs)
    inputs = {name: value[:1] for name, value in sample(engine.inputs, shapes).items()}
    engine(inputs)


def _of_onnx(provider: str) -> Open:
    def opened(model: str, read: Read, wanted: Wanted) -> Engine:
        name = provider if wanted.index is None else f"{provider}:{wanted.index}"
        setup = Setup(memory=wanted.memory)
        if provider in COMPILING and PROVIDERS[provider][0] in ort.get_available_providers():
            key = sha256_of(f"{name} {ort.__version__} {sha256_of(read())}".encode())[:32]
            setup = Setup(cache=EngineCache().folder(key))
        return OnnxEngine(model, read, provider=name, threads=wanted.threads, setup=setup)

    return opened


def _of_tensorrt(model: str, read: Read, wanted: Wanted) -> Engine:
    return open_tensorrt(
        model,
        read,
        index=wanted.index,
        threads=wanted.threads,
        allow_fallback=wanted.allow_fallback,
        only_ready=wanted.auto,
    )


def _of_torch(name: str) -> Open:
    def opened(model: str, read: Read, wanted: Wanted) -> Engine:
        provider = name if wanted.index is None else f"{name}:{wanted.index}"
        if wanted.auto:
            provider = shared(name)
        return TorchEngine(
            model, read, provider=provider, trial=wanted.trial, threads=wanted.threads
        )

    return opened


@cache
def shared(name: str) -> str:
    """Return the GPU that all networks of this process share where none is named."""
    return settled(name)


RUNNERS: Mapping[str, Open] = MappingProxyType(
    {
        "torch-cuda": _of_torch("torch-cuda"),
        "tensorrt": _of_tensorrt,
        "cuda": _of_onnx("cuda"),
        "coreml": _of_onnx("coreml"),
        "openvino": _of_onnx("openvino"),
        "directml": _of_onnx("directml"),
        "torch-cpu": _of_torch("torch-cpu"),
        "cpu": _of_onnx("cpu"),
    }
)
"""What opens a network on a provider, the fastest first."""
