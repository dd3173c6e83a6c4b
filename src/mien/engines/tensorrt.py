"""TensorRT through ONNX Runtime: each network is compiled for the GPU at hand, and kept."""

from __future__ import annotations

import ctypes
import logging
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import import_module, metadata

import onnxruntime as ort
import torch
from torch import Tensor

from mien.engines.cache import EngineCache, Ingredients, sha256_of
from mien.engines.libraries import load_libraries, reason_of
from mien.engines.onnx import PROVIDERS, OnnxEngine
from mien.engines.options import BUILDER_LEVEL, Setup, provider_options, session_options
from mien.engines.prepared import PreparedEngine
from mien.engines.profiles import ROWS, SIDES, Profile, profile_of
from mien.engines.protocol import Engine, Port
from mien.errors import EngineError, EngineUnavailable

log = logging.getLogger(__name__)

THEIRS = PROVIDERS["tensorrt"][0]

NOTHING = (
    b'\x08\x08\x12\x00:7\n\x10\n\x01x\x12\x01y"\x08Identity\x12\x01gZ\x0f\n\x01x\x12\n\n\x08\x08'
    b"\x01\x12\x04\n\x02\x08\x01b\x0f\n\x01y\x12\n\n\x08\x08\x01\x12\x04\n\x02\x08\x01B\x04\n\x00"
    b"\x10\r"
)
"""A network of one node that copies one number, as ONNX."""

UNKNOWN = "unknown"


def open_tensorrt(
    model: str,
    read: Callable[[], bytes],
    *,
    index: int | None = None,
    threads: int | None = None,
    allow_fallback: bool = False,
    only_ready: bool = False,
    half: bool = False,
    files: EngineCache | None = None,
) -> Engine:
    """Return a network that runs on TensorRT as soon as it is compiled, and until then on CUDA.

    If TensorRT does not load, EngineUnavailable says why; and likewise, with ``only_ready``, if the
    network was not compiled on this machine before. See PreparedEngine for ``allow_fallback``.
    """
    name = "tensorrt" if index is None else f"tensorrt:{index}"
    files = files or EngineCache()
    if fault := fault_of_tensorrt(index or 0):
        raise EngineUnavailable(model=model, provider=name, reason=fault)
    meanwhile = _second(model, read, index, threads)
    shapes = profile_of(meanwhile.inputs)
    made_of = ingredients(sha256_of(read()), index or 0, half=half)
    ready = files.ready(made_of.key)
    if only_ready and not ready:
        reason = "it was not prepared for it yet: run it once with the provider 'tensorrt'."
        raise EngineUnavailable(model=model, provider=name, reason=reason)
    setup = Setup(
        cache=files.folder(made_of.key),
        timings=files.root / made_of.timings,
        half=half,
        shapes=shapes,
    )

    def opened() -> Engine:
        engine = OnnxEngine(model, read, provider=name, threads=threads, setup=setup)
        engine(sample(engine.inputs, shapes))  # what is left to compile is compiled by the first
        return engine

    return PreparedEngine(
        name,
        lambda: compiled(files, made_of, opened),
        meanwhile=meanwhile,
        shapes=shapes,
        allow_fallback=allow_fallback,
        ready=ready,
    )


def compiled(files: EngineCache, made_of: Ingredients, opened: Callable[[], Engine]) -> Engine:
    """Return what ``opened`` returns, which finds its files in the cache, or puts them there.

    Processes wait for one another, and the second takes what the first has made. Files that are
    whole and yet cannot be opened are made once more.
    """
    spoilt = False
    if files.ready(made_of.key):
        try:
            return opened()
        except EngineError as error:
            log.info("A compiled network could not be opened and is made anew: %s", error)
            spoilt = True
    with files.lock():
        if spoilt or not files.ready(made_of.key):
            files.begin(made_of.key)
            if spoilt:
                shutil.rmtree(files.root / made_of.timings, ignore_errors=True)
            (files.root / made_of.timings).mkdir(parents=True, exist_ok=True)
            engine = opened()
            if not files.seal(made_of):
                log.info("TensorRT left nothing to keep of %s.", engine.model)
            return engine
    return opened()


def ingredients(network: str, index: int, *, half: bool = False) -> Ingredients:
    """Return what a network of this sha256 is compiled for, on the GPU of this number."""
    gpu, capability, driver = gpu_facts(index)
    return Ingredients(
        network=network,
        shapes=f"rows {ROWS}, sides {SIDES}",
        precision="fp16" if half else "fp32",
        effort=str(BUILDER_LEVEL),
        gpu=gpu,
        capability=capability,
        driver=driver,
        runtime=ort.__version__,
        compiler=tensorrt_version(),
    )


def fault_of_tensorrt(index: int) -> str | None:
    """Say why TensorRT would not run here, or None. Compiles nothing."""
    built_in = ort.get_available_providers()
    if THEIRS in built_in:
        return _fault_of_library(index)
    return (
        f"the installed ONNX Runtime {ort.__version__} was built without it (it has "
        f"{', '.join(built_in)}; the package {PROVIDERS['tensorrt'][1]} has it)."
    )


@cache
def _fault_of_library(index: int) -> str | None:
    load_libraries()
    with suppress(ImportError, OSError, RuntimeError):
        import_module("tensorrt_libs")  # loads TensorRT from where its package has it
    # a session in which TensorRT is loaded and is left no node to compile
    told = provider_options("tensorrt", Setup(index=index)) | {"trt_min_subgraph_size": "1000"}
    options = session_options("tensorrt", 1)
    try:
        session = ort.InferenceSession(
            NOTHING, options, providers=[(THEIRS, told)], enable_fallback=0
        )
    except Exception as error:  # noqa: BLE001 - ONNX Runtime's own errors share no base
        return f"ONNX Runtime {ort.__version__} offers it and could not load it: {reason_of(error)}"
    if session.get_providers()[0] == THEIRS:
        return None
    return (
        f"ONNX Runtime {ort.__version__} offers it, but cannot load it. Usually TensorRT itself "
        "is missing, or is of another version: pip install tensorrt"
    )


@cache
def gpu_facts(index: int) -> tuple[str, str, str]:
    """Return the name, the compute capability and the driver of a GPU, as far as they are known."""
    name = capability = UNKNOWN
    if torch.cuda.is_available() and index < torch.cuda.device_count():
        found = torch.cuda.get_device_properties(index)
        name, capability = found.name, f"{found.major}.{found.minor}"
    fields = "--query-gpu=driver_version,compute_cap,name"
    try:
        said = subprocess.run(
            ["nvidia-smi", fields, "--format=csv,noheader"],
            capture_output=True,
            check=True,
            timeout=10,
            encoding="utf-8",
            errors="replace",
            stdin=subprocess.DEVNULL,
        ).stdout
        rows = [[cell.strip() for cell in line.split(",", 2)] for line in said.splitlines()]
    except (OSError, subprocess.SubprocessError):
        rows = []
    rows = [row for row in rows if len(row) == 3]
    driver = rows[0][0] if rows else UNKNOWN
    if name == UNKNOWN and index < len(rows):
        _, capability, name = rows[index]
    return name, capability, driver


@cache
def tensorrt_version() -> str:
    """Return the version of TensorRT, as its package or its library says it."""
    for package in ("tensorrt", "tensorrt-cu13", "tensorrt-cu12"):
        with suppress(metadata.PackageNotFoundError):
            return metadata.version(package)
    for library in ("libnvinfer.so.10", "nvinfer_10.dll"):
        with suppress(OSError, AttributeError):
            return str(ctypes.CDLL(library).getInferLibVersion())
    return UNKNOWN


def sample(inputs: tuple[Port, ...], shapes: Profile) -> dict[str, Tensor]:
    """Return inputs of usual shapes, of no meaning."""
    return {port.name: torch.full(shapes.usual[port.name], 0.5) for port in inputs}


def _second(
    model: str, read: Callable[[], bytes], index: int | None, threads: int | None
) -> OnnxEngine:
    """Return the network on CUDA, or else on the CPU; which, its ``provider`` says."""
    name = "cuda" if index is None else f"cuda:{index}"
    return OnnxEngine(model, read, provider=name, threads=threads, allow_fallback=True)
