"""What ONNX Runtime is told about each provider: its device, its precision, its caches.

Only what differs from ONNX Runtime's own defaults, or must not depend on them, is said.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import onnxruntime as ort

from mien.engines.profiles import Profile
from mien.errors import InvalidOption

INDEXED = ("cuda", "tensorrt", "openvino", "directml", "torch-cuda")
"""The providers of which a device may be named, as in 'cuda:1'."""

NEXT = {"tensorrt": "cuda"}
"""What takes the nodes that a provider leaves, before the CPU does."""

ON_CUDA = ("cuda", "tensorrt")
"""The providers that read and write the memory of an NVIDIA GPU."""

BUILDER_LEVEL = 3
"""How long TensorRT looks for fast kernels, 0 to 5; this is its own default."""

Options = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """How a session runs, beside on which provider."""

    index: int | None = None
    """Number of the device; None is the first."""

    threads: int | None = None
    """Number of CPU threads, for a provider that has its own; None leaves it to the provider."""

    memory: int | None = None
    """The most of a GPU's memory that CUDA may take for the network, bytes; None: all there is."""

    cache: Path | None = None
    """Folder of what is compiled for one network; None: nothing is kept."""

    timings: Path | None = None
    """Folder of what TensorRT measured of this GPU's kernels."""

    half: bool = False
    """Let TensorRT compute in half precision: faster, and known to overflow in some networks."""

    shapes: Profile | None = None
    """What TensorRT prepares the network for; None: what comes, preparing again as it changes."""


def split_provider(text: str, known: Iterable[str]) -> tuple[str, int | None]:
    """Return the name and the device's number of 'cuda:1'. Raises InvalidOption."""
    names = list(known)
    found = re.fullmatch(r"([a-z][a-z0-9-]*)(?::(\d{1,3}))?", text)
    if not found or found[1] not in names or (found[2] and found[1] not in INDEXED):
        numbered = ", ".join(name for name in names if name in INDEXED)
        allowed = ", ".join(names) + f"; with the number of a device, as in cuda:1: {numbered}"
        raise InvalidOption("provider", text, allowed)
    return found[1], int(found[2]) if found[2] else None


def provider_options(provider: str, setup: Setup, *, runtime: str = ort.__version__) -> Options:
    """Return what ONNX Runtime's provider, called ``provider`` by us, is told."""
    number = str(setup.index or 0)
    if provider == "cuda":
        return {
            "device_id": number,
            # sizes change, and an exhaustive search would begin anew with each
            "cudnn_conv_algo_search": "HEURISTIC",
            # PyTorch has its tensors on the same GPU
            "arena_extend_strategy": "kSameAsRequested",
            "do_copy_in_default_stream": "1",
            "use_tf32": "1",
            # a graph replays fixed addresses and shapes; ours change
            "enable_cuda_graph": "0",
            **({"gpu_mem_limit": str(setup.memory)} if setup.memory else {}),
        }
    if provider == "tensorrt":
        return _tensorrt(number, setup)
    if provider == "openvino":
        return _openvino(setup, runtime)
    if provider == "coreml":
        return {
            "ModelFormat": "MLProgram",
            "MLComputeUnits": "ALL",
            "RequireStaticInputShapes": "0",
            "AllowLowPrecisionAccumulationOnGPU": "0",
            **({"ModelCacheDirectory": str(setup.cache)} if setup.cache else {}),
        }
    if provider == "directml":
        return {"device_id": number}
    return {}


def session_options(provider: str, threads: int, *, optimise: bool = True) -> ort.SessionOptions:
    """Return the options of a session that runs on ``provider``, as we call it."""
    options = ort.SessionOptions()
    options.log_severity_level = 3  # errors only
    options.intra_op_num_threads = threads
    # A waiting thread must not spin: the cores are needed by the stages between two networks.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if not optimise:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if provider == "directml":  # it refuses either
        options.enable_mem_pattern = False
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    return options


def _tensorrt(number: str, setup: Setup) -> Options:
    cached = str(setup.cache is not None)
    options = {
        "device_id": number,
        "trt_fp16_enable": str(setup.half),
        "trt_builder_optimization_level": str(BUILDER_LEVEL),
        "trt_engine_cache_enable": cached,
        "trt_timing_cache_enable": str(setup.timings is not None),
        "trt_cuda_graph_enable": "False",  # as for CUDA
    }
    if setup.cache:
        options["trt_engine_cache_path"] = str(setup.cache)
    if setup.timings:
        options["trt_timing_cache_path"] = str(setup.timings)
    return options | (setup.shapes.of_tensorrt() if setup.shapes else {})


def _openvino(setup: Setup, runtime: str) -> Options:
    """Return the CPU, at full precision, unless a GPU is named by its number.

    OpenVINO's own choice of a device may change while it runs, and then the numbers with it.
    """
    device = "CPU" if setup.index is None else "GPU"
    options = {"device_type": device if setup.index is None else f"GPU.{setup.index}"}
    major, minor = map(int, runtime.split(".")[:2])
    if (major, minor) < (1, 23):
        options["precision"] = "FP32"
        if setup.threads and device == "CPU":
            options["num_of_threads"] = str(setup.threads)
        return options | ({"cache_dir": str(setup.cache)} if setup.cache else {})
    # from 1.23 on, these are properties of OpenVINO, and the options are deprecated
    properties = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    if setup.threads and device == "CPU":
        properties["INFERENCE_NUM_THREADS"] = str(setup.threads)
    if setup.cache:
        properties["CACHE_DIR"] = str(setup.cache)
    return options | {"load_config": json.dumps({device: properties})}
