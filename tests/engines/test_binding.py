"""Tensors bound where they are. The memory is the CPU's here; test_gpu.py has a GPU's."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnxruntime as ort
import pytest
import torch
from onnx import TensorProto, helper
from test_onnx import assert_right, batch, network

from mien.engines import OnnxEngine
from mien.engines.binding import Bound
from mien.errors import EngineError
from mien.models import Catalogue


def bound(content):
    session = ort.InferenceSession(content, providers=["CPUExecutionProvider"])
    return Bound(session, torch.device("cpu"))


@pytest.mark.parametrize("size", [1, 3])
def test_outputs_are_right_and_keep_their_memory(size):
    run = bound(network())
    first = run(batch(size))
    kept = {name: value.clone() for name, value in first.items()}
    run(batch(size, seed=1))
    assert_right(first, batch(size))
    assert all(torch.equal(first[name], kept[name]) for name in first)


def test_shapes_are_learnt_once_for_each_shape_of_the_inputs(monkeypatch):
    run, runs = bound(network()), []
    real = run._run
    monkeypatch.setattr(run, "_run", lambda binding: runs.append(1) or real(binding))
    for size in (2, 2, 5, 2, 5):
        assert_right(run(batch(size)), batch(size))
    assert len(runs) == 5 + 2


def test_other_float_types_and_strides_are_taken():
    inputs = batch(4)
    odd = {"x": inputs["x"].double().T.contiguous().T, "y": inputs["y"].requires_grad_()}
    assert_right(bound(network())(odd), {name: value.detach() for name, value in inputs.items()})


def test_a_detector_s_maps_of_any_size_come_out_as_unbound():
    read = Catalogue().card("yunet").read
    engine, run = OnnxEngine("yunet", read), bound(read())
    for height, width in ((64, 96), (96, 64)):
        draw = torch.Generator().manual_seed(height)
        inputs = {"input": torch.rand(1, 3, height, width, generator=draw) * 255}
        there = run(inputs)
        for name, value in engine(inputs).items():
            torch.testing.assert_close(there[name], value)


def test_types_other_than_float32_keep_theirs():
    ports = [
        helper.make_tensor_value_info(name, kind, ("N", 3))
        for name, kind in (("x", TensorProto.FLOAT), ("i", TensorProto.INT64))
    ]
    graph = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["i"], to=TensorProto.INT64)], "g", ports[:1], ports[1:]
    )
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=9)
    out = bound(model.SerializeToString())({"x": torch.tensor([[1.0, 2.0, 3.7]])})["i"]
    assert (out.dtype, out.tolist()) == (torch.int64, [[1, 2, 3]])


def test_names_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match="y"):
        bound(network())({"x": torch.ones(1, 3)})
    with pytest.raises(ValueError, match="z"):
        bound(network())({**batch(1), "z": torch.ones(1, 3)})


def test_types_that_cannot_be_bound_are_named_and_go_through_the_host(monkeypatch):
    ports = [
        helper.make_tensor_value_info(name, kind, ("N", 3))
        for name, kind in (("x", TensorProto.FLOAT), ("t", TensorProto.STRING))
    ]
    graph = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["t"], to=TensorProto.STRING)], "g", ports[:1], ports[1:]
    )
    opset = [helper.make_opsetid("", 17)]
    content = helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString()
    with pytest.raises(TypeError, match="string"):
        bound(content)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("mien.engines.onnx.ON_CUDA", ("cpu",))
    assert OnnxEngine("net", lambda: content)._bound is None
    assert OnnxEngine("net", network)._bound is not None


def test_threads_at_once_get_their_own_answers():
    run = bound(network())
    batches = [batch(1 + seed % 5, seed) for seed in range(60)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(run, batches))
    for outputs, inputs in zip(results, batches, strict=True):
        assert_right(outputs, inputs)


@pytest.mark.parametrize("fixed", [True, False])
def test_an_engine_runs_through_it_where_its_session_is_on_a_gpu(fixed):
    engine = OnnxEngine("net", lambda: network(1 if fixed else "N"))
    assert engine._bound is None
    engine._bound = Bound(engine._session, torch.device("cpu"))
    assert_right(engine(batch(5)), batch(5))
    wrong = {"x": torch.ones(1, 3), "y": torch.ones(1, 5)}
    with pytest.raises(EngineError, match="'net' could not be run on 'cpu'"):
        engine(wrong)
    assert np.isfinite(engine(batch(1))["mixed"].numpy()).all()
