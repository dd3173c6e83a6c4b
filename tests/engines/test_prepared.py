"""An engine that serves until another is prepared, and TensorRT, which is such a one."""

from __future__ import annotations

import logging
from threading import Event

import onnxruntime as ort
import pytest
import torch
from test_onnx import CPU, CUDA, assert_right, batch, network

from mien.engines import OnnxEngine, choose, tensorrt
from mien.engines.prepared import PreparedEngine
from mien.engines.profiles import profile_of
from mien.errors import EngineError, EngineUnavailable

TENSORRT = "TensorrtExecutionProvider"


class Named(OnnxEngine):
    """An engine on the CPU that goes by another name, and remembers its batches."""

    def __init__(self, name, read=network):
        super().__init__("net", read)
        self.name, self.sizes = name, []

    @property
    def provider(self):
        return self.name

    def __call__(self, inputs):
        self.sizes.append(len(inputs["x"]))
        return super().__call__(inputs)


@pytest.fixture
def go_on():
    event = Event()
    yield event
    event.set()  # so that no test leaves a thread behind


def prepared(prepare, *, read=network, **options):
    slow = Named("slow", read)
    shapes = profile_of(slow.inputs)
    return PreparedEngine("fast", prepare, meanwhile=slow, shapes=shapes, **options), slow


def lines(caplog):
    return [record.getMessage() for record in caplog.records]


def test_the_other_serves_until_it_is_ready(go_on, caplog):
    caplog.set_level(logging.INFO)
    fast = Named("fast")
    engine, slow = prepared(lambda: go_on.wait(20) and fast)
    assert engine.provider == "slow"
    assert_right(engine(batch(2)), batch(2))
    assert (slow.sizes, fast.sizes) == ([2], [])
    go_on.set()
    assert engine.wait(20)
    assert engine.provider == "fast"
    assert_right(engine(batch(3)), batch(3))
    assert (slow.sizes, fast.sizes) == ([2], [3])
    first, last = lines(caplog)
    assert first == (
        "net is being prepared for fast: this takes minutes, once. slow serves until then, and "
        "the process does not end before."
    )
    assert last.startswith("net runs on fast from now on (")
    assert (engine.model, engine.inputs, engine.outputs) == ("net", fast.inputs, fast.outputs)


def test_what_was_prepared_before_runs_at_once_and_says_nothing(caplog):
    caplog.set_level(logging.INFO)
    engine, _ = prepared(lambda: Named("fast"), ready=True)
    assert engine.provider == "fast"
    assert engine.wait()
    assert lines(caplog) == []


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (EngineUnavailable(model="net", provider="fast", reason="No GPU."), "No GPU"),
        (EngineError("Too large.", model="net"), "could not be prepared: Too large"),
        (OSError(28, "No space left"), "No space left"),
    ],
)
@pytest.mark.parametrize("ready", [True, False])
def test_a_failure_is_an_error_unless_allowed(error, reason, ready, caplog):
    def fail():
        raise error

    engine, _ = prepared(fail, allow_fallback=True, ready=ready)
    assert not engine.wait(20)
    assert engine.provider == "slow"
    assert_right(engine(batch(2)), batch(2))
    line = lines(caplog)[-1]
    assert len(lines(caplog)) == (1 if ready else 2)
    assert reason in line
    assert "slow serves" in line

    def strictly():
        engine, _ = prepared(fail, ready=ready)
        engine.wait(20)
        engine(batch(2))

    with pytest.raises(EngineUnavailable, match=reason) as caught:
        strictly()
    assert (caught.value.model, caught.value.provider) == ("net", "fast")


def test_large_batches_are_run_in_parts():
    fast = Named("fast")
    engine, slow = prepared(lambda: fast, ready=True)
    for size in (16, 17, 40):
        assert_right(engine(batch(size)), batch(size))
    assert fast.sizes == [16, 16, 1, 16, 16, 8]
    assert slow.sizes == []


def test_a_graph_of_one_row_runs_its_own_way():
    fast = Named("fast", lambda: network(1))
    engine, slow = prepared(lambda: fast, read=lambda: network(1), ready=True)
    assert_right(engine(batch(20)), batch(20))
    assert (fast.sizes, slow.sizes) == ([20], [])


def test_shapes_outside_the_range_are_left_to_the_other_and_said_once(caplog):
    caplog.set_level(logging.INFO)
    fast = Named("fast")
    engine, slow = prepared(lambda: fast, ready=True)
    for _ in range(2):
        with pytest.raises(EngineError):  # the network takes no such input either
            engine({"x": torch.ones(2, 4), "y": torch.ones(2, 4)})
    assert (fast.sizes, slow.sizes) == ([], [2, 2])
    assert lines(caplog) == [
        "net is not prepared for x (2, 4), y (2, 4): slow runs such inputs, and fast the others."
    ]


def test_the_safe_mode_is_the_cpu_s():
    engine, _ = prepared(lambda: Named("fast"), ready=True)
    assert engine.safer().provider == "cpu"


# TensorRT, of which the sessions here are the CPU's


@pytest.fixture
def claimed(monkeypatch, tmp_path):
    """Let ONNX Runtime claim TensorRT and CUDA; sessions leave an engine's file where told."""
    monkeypatch.setenv("MIEN_HOME", str(tmp_path))
    tensorrt._fault_of_library.cache_clear()
    real, told = ort.InferenceSession, []

    class Part:
        def __init__(self, name):
            self.ep_name = name

        def get_nodes(self):
            return [None]

    class Claiming(real):
        def __init__(self, weights, options, providers, enable_fallback):
            assert enable_fallback == 0
            self.first, settings = providers[0]
            told.append((self.first, settings, weights == tensorrt.NOTHING))
            if "trt_engine_cache_path" in settings:
                folder = tmp_path / settings["trt_engine_cache_path"]
                (folder / "net_sm90.engine").write_bytes(b"engine")
            super().__init__(weights, options, providers=[CPU], enable_fallback=0)

        def get_providers(self):
            return [self.first]

        def get_provider_graph_assignment_info(self):
            return [Part(self.first)]

    monkeypatch.setattr(ort, "get_available_providers", lambda: [TENSORRT, CUDA, CPU])
    monkeypatch.setattr(ort, "InferenceSession", Claiming)
    yield told
    tensorrt._fault_of_library.cache_clear()


def test_it_is_compiled_once_with_its_shapes_and_taken_again(claimed, tmp_path):
    engine = choose("net", network, provider="tensorrt:1")
    assert engine.wait(20)
    assert engine.provider == "tensorrt"  # this session does not say its device
    assert_right(engine(batch(3)), batch(3))
    (probe, second, first) = [told for told in claimed if told[0] != CPU]
    assert (probe[2], probe[1]["trt_min_subgraph_size"]) == (True, "1000")
    assert (second[0], second[1]["device_id"]) == (CUDA, "1")
    assert first[1]["device_id"] == "1"
    assert first[1]["trt_profile_max_shapes"] == "x:16x3,y:16x4"
    folder = tmp_path / "cache" / "engines"
    assert first[1]["trt_engine_cache_path"].startswith(str(folder))
    assert first[1]["trt_timing_cache_path"].startswith(str(folder))
    assert choose("net", network, provider="tensorrt:1").provider == "tensorrt"
    assert len(list(folder.glob("*/made.json"))) == 1


def test_auto_takes_it_only_when_it_is_compiled(claimed, caplog):
    caplog.set_level(logging.INFO)
    assert choose("net", network, provider="auto").provider == "cuda"
    assert "tensorrt: it was not prepared for it yet: run it once" in lines(caplog)[-1]
    assert choose("net", network, provider="tensorrt").wait(20)
    assert choose("net", network, provider="auto").provider == "tensorrt"
    assert lines(caplog)[-1].split(";")[0] == "net runs on tensorrt"


def test_a_tensorrt_that_does_not_load_is_refused_with_what_is_missing(claimed, monkeypatch):
    monkeypatch.setattr(ort.InferenceSession, "get_providers", lambda session: [CPU])
    with pytest.raises(EngineUnavailable, match="pip install tensorrt"):
        choose("net", network, provider="tensorrt")


def test_without_it_in_the_build_nothing_is_opened(monkeypatch):
    monkeypatch.setattr(ort, "get_available_providers", lambda: [CPU])
    monkeypatch.setattr(ort, "InferenceSession", lambda *given, **named: pytest.fail("opened"))
    with pytest.raises(EngineUnavailable, match="onnxruntime-gpu has it"):
        tensorrt.open_tensorrt("net", network)


def test_the_network_of_nothing_is_one():
    session = ort.InferenceSession(tensorrt.NOTHING, providers=[CPU])
    (out,) = session.run(None, {"x": torch.tensor([2.5]).numpy()})
    assert out.tolist() == [2.5]


def test_facts_of_a_gpu_come_from_the_driver_where_pytorch_has_none(monkeypatch):
    class Said:
        stdout = "570.86, 9.0, NVIDIA H200\n570.86, 8.9, NVIDIA L4, of one's own\nodd\n"

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(tensorrt.subprocess, "run", lambda *given, **named: Said())
    tensorrt.gpu_facts.cache_clear()
    assert tensorrt.gpu_facts(0) == ("NVIDIA H200", "9.0", "570.86")
    assert tensorrt.gpu_facts(1) == ("NVIDIA L4, of one's own", "8.9", "570.86")
    assert tensorrt.gpu_facts(2) == ("unknown", "unknown", "570.86")
    tensorrt.gpu_facts.cache_clear()
