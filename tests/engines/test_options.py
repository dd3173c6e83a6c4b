"""What each provider is told, and for which shapes a network is prepared."""

from __future__ import annotations

import json
from pathlib import Path

import onnxruntime as ort
import pytest

from mien.engines import Port
from mien.engines.options import Setup, provider_options, session_options
from mien.engines.profiles import Profile, profile_of

CACHE = Path("cache")
ONE_ROW = Profile({"x": (1, 3)}, {"x": (4, 3)}, {"x": (16, 3)})


def f32(device, **more):
    hints = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    return json.dumps({device: hints | more})


CUDA = {
    "device_id": "0",
    "cudnn_conv_algo_search": "HEURISTIC",
    "arena_extend_strategy": "kSameAsRequested",
    "do_copy_in_default_stream": "1",
    "use_tf32": "1",
    "enable_cuda_graph": "0",
}
TENSORRT = {
    "device_id": "0",
    "trt_fp16_enable": "False",
    "trt_builder_optimization_level": "3",
    "trt_engine_cache_enable": "False",
    "trt_timing_cache_enable": "False",
    "trt_cuda_graph_enable": "False",
}
COREML = {
    "ModelFormat": "MLProgram",
    "MLComputeUnits": "ALL",
    "RequireStaticInputShapes": "0",
    "AllowLowPrecisionAccumulationOnGPU": "0",
}


@pytest.mark.parametrize(
    ("provider", "setup", "runtime", "told"),
    [
        ("cpu", Setup(), "1.22.0", {}),
        ("cuda", Setup(), "1.22.0", CUDA),
        ("cuda", Setup(index=1, cache=CACHE), "1.30.1", CUDA | {"device_id": "1"}),
        ("tensorrt", Setup(), "1.22.0", TENSORRT),
        (
            "tensorrt",
            Setup(index=2, cache=CACHE, timings=Path("t"), half=True, shapes=ONE_ROW),
            "1.30.1",
            {
                "device_id": "2",
                "trt_fp16_enable": "True",
                "trt_builder_optimization_level": "3",
                "trt_engine_cache_enable": "True",
                "trt_engine_cache_path": "cache",
                "trt_timing_cache_enable": "True",
                "trt_timing_cache_path": "t",
                "trt_cuda_graph_enable": "False",
                "trt_profile_min_shapes": "x:1x3",
                "trt_profile_opt_shapes": "x:4x3",
                "trt_profile_max_shapes": "x:16x3",
            },
        ),
        ("openvino", Setup(), "1.22.1", {"device_type": "CPU", "precision": "FP32"}),
        (
            "openvino",
            Setup(index=1, cache=CACHE),
            "1.22.1",
            {"device_type": "GPU.1", "precision": "FP32", "cache_dir": "cache"},
        ),
        (
            "openvino",
            Setup(threads=2),
            "1.22.1",
            {"device_type": "CPU", "precision": "FP32", "num_of_threads": "2"},
        ),
        (
            "openvino",
            Setup(threads=2),
            "1.24.1",
            {"device_type": "CPU", "load_config": f32("CPU", INFERENCE_NUM_THREADS="2")},
        ),
        ("openvino", Setup(), "1.23.0", {"device_type": "CPU", "load_config": f32("CPU")}),
        (
            "openvino",
            Setup(index=0, cache=CACHE),
            "1.30.0",
            {"device_type": "GPU.0", "load_config": f32("GPU", CACHE_DIR="cache")},
        ),
        ("coreml", Setup(), "1.22.0", COREML),
        ("coreml", Setup(cache=CACHE), "1.30.0", COREML | {"ModelCacheDirectory": "cache"}),
        ("directml", Setup(), "1.22.0", {"device_id": "0"}),
        ("directml", Setup(index=1), "1.24.4", {"device_id": "1"}),
    ],
)
def test_what_each_provider_is_told(provider, setup, runtime, told):
    assert provider_options(provider, setup, runtime=runtime) == told


def test_directml_gets_the_sessions_that_it_takes():
    options = session_options("directml", 3)
    assert options.enable_mem_pattern is False
    assert options.execution_mode == ort.ExecutionMode.ORT_SEQUENTIAL
    assert options.intra_op_num_threads == 3
    assert session_options("cuda", 3).enable_mem_pattern is True


@pytest.mark.parametrize("provider", ["cpu", "cuda", "directml"])
def test_every_session_tells_where_its_nodes_are_and_does_not_spin(provider):
    options = session_options(provider, 1)
    key = "session.record_ep_graph_assignment_info"
    assert options.get_session_config_entry(key) == "1"
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"


# Shapes

FACE = (Port("target", (None, 3, 256, 256)), Port("source", (None, 128)))
PICTURE = (Port("input", (1, 3, None, None)),)


def test_batches_go_from_one_to_sixteen():
    profile = profile_of(FACE)
    assert profile.least == {"target": (1, 3, 256, 256), "source": (1, 128)}
    assert profile.usual == {"target": (4, 3, 256, 256), "source": (4, 128)}
    assert profile.most == {"target": (16, 3, 256, 256), "source": (16, 128)}
    assert profile.rows == 16
    assert profile.of_tensorrt() == {
        "trt_profile_min_shapes": "target:1x3x256x256,source:1x128",
        "trt_profile_opt_shapes": "target:4x3x256x256,source:4x128",
        "trt_profile_max_shapes": "target:16x3x256x256,source:16x128",
    }


def test_pictures_go_up_to_what_is_searched_in_one_piece():
    from mien.stages.detect import TILE

    profile = profile_of(PICTURE)
    assert profile.most["input"] == (1, 3, TILE, TILE)
    assert (profile.least["input"], profile.rows) == ((1, 3, 32, 32), 1)
    assert profile.of_tensorrt()["trt_profile_opt_shapes"] == "input:1x3x640x640"


def test_a_network_of_one_shape_needs_no_profile():
    assert profile_of([Port("x", (1, 3))]).of_tensorrt() == {}


@pytest.mark.parametrize(
    ("shapes", "held"),
    [
        ({"target": (1, 3, 256, 256), "source": (1, 128)}, True),
        ({"target": (16, 3, 256, 256), "source": (16, 128)}, True),
        ({"target": (17, 3, 256, 256), "source": (17, 128)}, False),
        ({"target": (0, 3, 256, 256), "source": (0, 128)}, False),
        ({"target": (1, 3, 255, 256), "source": (1, 128)}, False),
        ({"target": (1, 3, 256), "source": (1, 128)}, False),
        ({"target": (1, 3, 256, 256)}, False),
    ],
)
def test_shapes_within_the_range_are_held(shapes, held):
    assert profile_of(FACE).holds(shapes) is held
