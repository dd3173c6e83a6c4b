"""The ONNX Runtime runner: batches, threads, the safe mode, and the provider that really runs."""

from __future__ import annotations

import logging
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from mien.engines import PROVIDERS, OnnxEngine, Port
from mien.errors import EngineError, EngineUnavailable, InvalidOption

WEIGHT = np.random.default_rng(2).normal(size=(3, 4)).astype(np.float32)
CUDA, CPU = "CUDAExecutionProvider", "CPUExecutionProvider"


def network(batch="N"):
    """Return a graph: ``mixed`` = relu(x @ WEIGHT) + y, and ``shares`` = softmax(x)."""
    ports = {"x": (batch, 3), "y": (batch, 4), "mixed": (batch, 4), "shares": (batch, 3)}
    x, y, mixed, shares = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in ports.items()
    )
    nodes = [
        helper.make_node("MatMul", ["x", "weight"], ["product"]),
        helper.make_node("Relu", ["product"], ["positive"]),
        helper.make_node("Add", ["positive", "y"], ["mixed"]),
        helper.make_node("Softmax", ["x"], ["shares"], axis=-1),
    ]
    constants = [numpy_helper.from_array(WEIGHT, "weight")]
    graph = helper.make_graph(nodes, "two in, two out", [x, y], [mixed, shares], constants)
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=9)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def batch(size, seed=0):
    draw = torch.Generator().manual_seed(seed)
    return {
        "x": torch.randn(size, 3, generator=draw),
        "y": torch.randn(size, 4, generator=draw),
    }


def assert_right(outputs, inputs):
    product = inputs["x"].numpy().astype(float) @ WEIGHT
    powers = np.exp(inputs["x"].numpy().astype(float))
    np.testing.assert_allclose(
        outputs["mixed"].numpy(), product.clip(0) + inputs["y"].numpy(), atol=1e-5
    )
    np.testing.assert_allclose(
        outputs["shares"].numpy(), powers / powers.sum(axis=1, keepdims=True), atol=1e-6
    )


@pytest.fixture
def opened(monkeypatch):
    """Record the options and providers of the sessions that are opened."""
    real, record = ort.InferenceSession, []

    def session(weights, options, providers, enable_fallback):
        record.append((options, [name for name, _ in providers]))
        return real(weights, options, providers=providers, enable_fallback=enable_fallback)

    monkeypatch.setattr(ort, "InferenceSession", session)
    return record


def claim(monkeypatch, *offered, running):
    """Let ONNX Runtime offer providers that this build has not, and report what is ``running``."""
    real = ort.InferenceSession
    monkeypatch.setattr(ort, "get_available_providers", lambda: list(offered))
    monkeypatch.setattr(real, "get_providers", lambda session: list(running))
    monkeypatch.setattr(
        ort,
        "InferenceSession",
        lambda weights, options, providers, enable_fallback: real(
            weights, options, providers=[CPU], enable_fallback=enable_fallback
        ),
    )
    parts = "get_provider_graph_assignment_info"  # from 1.24 on
    monkeypatch.setattr(real, parts, lambda session: [], raising=False)


# Batches


@pytest.mark.parametrize("size", [1, 2, 7])
def test_any_batch_goes_through_a_dynamic_graph(size):
    engine = OnnxEngine("net", network)
    assert engine.inputs == (Port("x", (None, 3)), Port("y", (None, 4)))
    assert engine.outputs == (Port("mixed", (None, 4)), Port("shares", (None, 3)))
    assert_right(engine(batch(size)), batch(size))


def test_inputs_and_outputs_go_by_name_not_by_order():
    inputs = batch(2)
    outputs = OnnxEngine("net", network)({"y": inputs["y"], "x": inputs["x"]})
    assert set(outputs) == {"mixed", "shares"}
    assert_right(outputs, inputs)


@pytest.mark.parametrize("size", [1, 2, 7])
def test_a_fixed_batch_of_one_is_run_once_per_sample(size):
    engine = OnnxEngine("net", lambda: network(1))
    inputs = batch(size)
    outputs = engine(inputs)
    assert_right(outputs, inputs)
    singles = [engine({k: v[i : i + 1] for k, v in inputs.items()}) for i in range(size)]
    for name, value in outputs.items():
        assert torch.equal(value, torch.cat([single[name] for single in singles]))


def test_other_float_types_and_strides_are_taken():
    inputs = batch(4)
    odd = {"x": inputs["x"].double().T.contiguous().T, "y": inputs["y"].requires_grad_()}
    outputs = OnnxEngine("net", network)(odd)
    assert_right(outputs, {k: v.detach() for k, v in inputs.items()})
    assert {value.dtype for value in outputs.values()} == {torch.float32}


@pytest.mark.parametrize(
    "inputs",
    [{"x": torch.ones(1, 3)}, {"x": torch.ones(1, 3), "y": torch.ones(1, 5)}],
    ids=["a name is missing", "a shape is wrong"],
)
def test_inputs_that_do_not_fit_are_an_engine_error(inputs):
    engine = OnnxEngine("net", network)
    with pytest.raises(EngineError, match="net") as caught:
        engine(inputs)
    assert caught.value.model == "net"


def test_bytes_that_are_no_network_are_an_engine_error():
    with pytest.raises(EngineError, match="net") as caught:
        OnnxEngine("net", lambda: b"not a network")
    assert caught.value.model == "net"


def test_eight_threads_at_once_get_their_own_answers():
    engine = OnnxEngine("net", network, threads=1)
    batches = [batch(1 + seed % 5, seed) for seed in range(160)]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(engine, batches))
    for outputs, inputs in zip(results, batches, strict=True):
        assert_right(outputs, inputs)


# Options


def test_threads_reach_the_session(opened):
    OnnxEngine("net", network, threads=3)
    assert [options.intra_op_num_threads for options, _ in opened] == [3]


def test_threads_are_by_default_the_cores_this_process_may_use(opened, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 2, 5}, raising=False)
    OnnxEngine("net", network)
    assert [options.intra_op_num_threads for options, _ in opened] == [3]


@pytest.mark.parametrize("threads", [0, -1, 257])
def test_impossible_numbers_of_threads_are_refused_before_anything_is_read(threads):
    with pytest.raises(InvalidOption, match="1 to 256") as caught:
        OnnxEngine("net", lambda: pytest.fail("the weights were read"), threads=threads)
    assert (caught.value.option, caught.value.value) == ("threads", threads)


def test_an_unknown_provider_is_refused_with_the_known_ones():
    with pytest.raises(InvalidOption) as caught:
        OnnxEngine("net", lambda: pytest.fail("the weights were read"), provider="gpu")
    assert (caught.value.option, caught.value.value) == ("provider", "gpu")
    assert all(name in str(caught.value) for name in PROVIDERS)


def test_the_safe_mode_is_the_unoptimised_graph_on_the_cpu(opened):
    reads = []
    engine = OnnxEngine("net", lambda: reads.append(1) or network(), threads=2)
    safe = engine.safer()
    assert len(reads) == 2
    (fast_options, _), (safe_options, safe_providers) = opened
    off = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    assert fast_options.graph_optimization_level != off
    assert safe_options.graph_optimization_level == off
    assert safe_options.intra_op_num_threads == 2
    assert (safe_providers, safe.provider, safe.model) == ([CPU], "cpu", "net")
    inputs = batch(5)
    for name, value in engine(inputs).items():
        torch.testing.assert_close(safe(inputs)[name], value)


# The provider (T15)


@pytest.mark.parametrize(
    "name",
    [n for n, (theirs, _) in PROVIDERS.items() if theirs not in ort.get_available_providers()],
)
def test_a_provider_that_is_not_built_in_is_refused(name):
    with pytest.raises(EngineUnavailable) as caught:
        OnnxEngine("net", network, provider=name)
    assert (caught.value.model, caught.value.provider) == ("net", name)
    message = str(caught.value)
    assert PROVIDERS[name][1] in message
    assert ort.__version__ in message
    assert all(offered in message for offered in ort.get_available_providers())


def test_the_package_that_has_cuda_is_named(monkeypatch):
    claim(monkeypatch, CPU, running=[CPU])
    with pytest.raises(EngineUnavailable, match="onnxruntime-gpu has it"):
        OnnxEngine("net", network, provider="cuda")


def test_with_the_fallback_allowed_the_cpu_runs_and_says_so(monkeypatch, caplog):
    claim(monkeypatch, CPU, running=[CPU])
    with caplog.at_level(logging.WARNING):
        engine = OnnxEngine("net", network, provider="cuda", allow_fallback=True)
    assert engine.provider == "cpu"
    assert "onnxruntime-gpu" in caplog.text
    assert "CPU runs it instead" in caplog.text
    assert_right(engine(batch(3)), batch(3))


def test_a_session_that_claims_cuda_and_runs_on_the_cpu_is_refused(monkeypatch):
    claim(monkeypatch, CUDA, CPU, running=[CPU])
    with pytest.raises(EngineUnavailable) as caught:
        OnnxEngine("net", network, provider="cuda")
    assert f"the session runs on {CPU}" in str(caught.value)
    assert "driver" in str(caught.value)
    assert (caught.value.model, caught.value.provider) == ("net", "cuda")


def test_a_session_that_claims_cuda_and_runs_on_the_cpu_may_be_allowed(monkeypatch, caplog):
    claim(monkeypatch, CUDA, CPU, running=[CPU])
    with caplog.at_level(logging.WARNING):
        engine = OnnxEngine("net", network, provider="cuda", allow_fallback=True)
    assert engine.provider == "cpu"
    assert f"the session runs on {CPU}" in caplog.text
    assert_right(engine(batch(3)), batch(3))


def test_the_provider_comes_from_the_session(monkeypatch, caplog):
    running = [CUDA, CPU]
    claim(monkeypatch, CUDA, CPU, running=running)
    engine = OnnxEngine("net", network, provider="cuda")
    assert engine.provider == "cuda"
    assert caplog.text == ""
    running.remove(CUDA)  # ONNX Runtime may fall back while it runs
    assert engine.provider == "cpu"


def test_a_provider_without_a_name_of_ours_keeps_its_own(monkeypatch):
    claim(monkeypatch, CPU, running=["QNNExecutionProvider", CPU])
    engine = OnnxEngine("net", network, provider="cpu", allow_fallback=True)
    assert engine.provider == "QNNExecutionProvider"
