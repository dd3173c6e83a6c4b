"""PRelu in parts: the same numbers, on the CPU only, and never in the safe mode."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from mien.engines import OnnxEngine
from mien.engines.prelu import without_prelu

SHAPES = {"one": (1,), "by channel": (3, 1, 1), "by pixel": (3, 4, 5)}


def network(slope, kind="PRelu"):
    """Return a graph: ``y`` = 2 * PRelu(PRelu(x))."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ("N", 3, 4, 5)) for name in "xy")
    nodes = [
        helper.make_node(kind, ["x", "slope"], ["once"]),
        helper.make_node(kind, ["once", "slope"], ["twice"]),
        helper.make_node("Add", ["twice", "twice"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(slope, "slope")])
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString()


def run(weights, x):
    session = ort.InferenceSession(weights, providers=["CPUExecutionProvider"])
    return session.run(["y"], {"x": x})[0]


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_outputs_are_the_same_bit_for_bit(shape):
    dice = np.random.default_rng(3)
    slope = dice.normal(size=shape).astype(np.float32)
    x = (dice.normal(size=(2, 3, 4, 5)) * 10.0 ** dice.integers(-30, 30, (2, 3, 4, 5))).astype("f4")
    weights = network(slope)
    parts = without_prelu(weights)
    onnx.checker.check_model(onnx.load_from_string(parts))
    assert b"PRelu" not in parts
    np.testing.assert_array_equal(run(parts, x), run(weights, x))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_remains_so(value):
    parts = without_prelu(network(np.full(1, 0.5, np.float32)))
    x = np.full((1, 3, 4, 5), value, np.float32)
    assert not np.isfinite(run(parts, x)).any()


def test_a_file_without_it_is_left_as_it_is():
    weights = network(np.ones((3, 4, 5), np.float32), "Mul")
    assert without_prelu(weights) is weights


def test_the_safe_mode_runs_the_graph_as_it_was_written(monkeypatch):
    weights, given, real = network(np.full(1, 0.5, np.float32)), [], ort.InferenceSession
    monkeypatch.setattr(
        ort,
        "InferenceSession",
        lambda graph, *rest, **more: given.append(graph) or real(graph, *rest, **more),
    )
    engine = OnnxEngine("net", lambda: weights, threads=1)
    safe, x = engine.safer(), {"x": torch.randn(2, 3, 4, 5)}
    assert [b"PRelu" in graph for graph in given] == [False, True]
    torch.testing.assert_close(engine(x)["y"], safe(x)["y"], rtol=0, atol=0)
