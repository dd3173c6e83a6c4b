import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from mien.nets import Swapper, SwapperShape
from mien.nets.export import to_onnx
from mien.nets.int8 import quantise, store_as_int8

SIDE = 6


def network(nodes, weights, shape):
    """Return a model of ``nodes`` from "x" to "y"."""
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * len(shape))],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def output(model, x):
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def layer(kind, random):
    """Return a network of one large layer, and the shape of its input."""
    weight = random.normal(size=(40, 64)).astype(np.float32)
    if kind == "Conv":
        shape = [1, 16, SIDE, SIDE]
        node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 0, 1, 1], strides=[2, 1])
        return network([node], {"w": weight.reshape(40, 16, 2, 2)}, shape), shape
    shape = [3, 64]
    if kind == "Gemm":
        bias = random.normal(size=40).astype(np.float32)
        node = helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1)
        return network([node], {"w": weight, "b": bias}, shape), shape
    if kind == "Gemm of columns":
        node = helper.make_node("Gemm", ["x", "w"], ["y"])
        return network([node], {"w": np.ascontiguousarray(weight.T)}, shape), shape
    if kind == "twice":  # one weight, two layers
        square = random.normal(size=(64, 64)).astype(np.float32)
        nodes = [
            helper.make_node("Gemm", ["x", "w"], ["h"], transB=1),
            helper.make_node("Gemm", ["h", "w"], ["y"], transB=1),
        ]
        return network(nodes, {"w": square}, shape), shape
    if kind == "half":
        nodes = [
            helper.make_node("Cast", ["h"], ["w"], to=TensorProto.FLOAT),
            helper.make_node("MatMul", ["x", "w"], ["y"]),
        ]
        return network(nodes, {"h": weight.T.astype(np.float16)}, shape), shape
    raise ValueError(kind)


KINDS = ("Conv", "Gemm", "Gemm of columns", "twice", "half")


@pytest.mark.parametrize("kind", KINDS)
def test_examples_make_the_output_nearer(kind):
    random = np.random.default_rng(0)
    model, shape = layer(kind, random)
    size = int(np.prod(shape[1:]))
    # inputs that go together, and are not 0 on average: as behind a layer with a ramp
    mix = random.normal(size=(8, size)) / 3

    def example():
        hidden = random.normal(size=(shape[0], 8)) @ mix + 1
        return hidden.reshape(shape).astype(np.float32)

    unseen = [example() for _ in range(20)]
    wanted = [output(model, x) for x in unseen]
    apart = {}
    for name, examples in (("nearest", []), ("fitted", [{"x": example()} for _ in range(200)])):
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        assert store_as_int8(copy, examples) == 1
        types = {t.name: t.data_type for t in copy.graph.initializer}
        assert types["w_int8"] == TensorProto.INT8
        assert "w" not in types
        errors = [np.abs(output(copy, x) - y) for x, y in zip(unseen, wanted, strict=True)]
        apart[name] = np.mean(errors)
    assert apart["nearest"] < 0.05 * np.std(wanted)
    assert apart["fitted"] < 0.8 * apart["nearest"]


def test_every_matrix_of_a_stack_has_scales_of_its_own():
    random = np.random.default_rng(0)
    weight = random.normal(size=(3, 64, 16)).astype(np.float32)
    weight[0] /= 1000
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    shape = [3, 2, 64]
    model = network([node], {"w": weight}, shape)
    x = random.normal(size=shape).astype(np.float32)
    wanted = output(model, x)
    assert store_as_int8(model, [{"x": x}]) == 1
    for one, other in zip(output(model, x), wanted, strict=True):
        np.testing.assert_allclose(one, other, atol=0.03 * np.std(other))


def test_small_tensors_stay_and_those_of_which_only_the_shape_is_used_go():
    random = np.random.default_rng(0)
    large = random.normal(size=(50, 64)).astype(np.float32)
    nodes = [
        helper.make_node("Shape", ["unused"], ["shape"]),
        helper.make_node("Reshape", ["x", "shape"], ["turned"]),
        helper.make_node("MatMul", ["turned", "w"], ["y"]),
    ]
    weights = {"unused": large, "w": random.normal(size=(64, 5)).astype(np.float32)}
    model = network(nodes, weights, [64, 50])
    x = random.normal(size=(64, 50)).astype(np.float32)
    wanted = output(model, x)
    assert store_as_int8(model) == 0
    assert sorted(t.name for t in model.graph.initializer) == ["shape", "w"]
    np.testing.assert_array_equal(output(model, x), wanted)


def test_a_model_may_ask_for_more_to_stay_float():
    model, _ = layer("Gemm", np.random.default_rng(0))
    assert store_as_int8(model, small=2561) == 0
    assert store_as_int8(model, small=2560) == 1


def test_weights_stored_as_int8_take_a_quarter():
    model = to_onnx(Swapper(SwapperShape(size=32, widths=(16, 32, 64), middle=1, blocks=(1, 1))))
    before = len(model.SerializeToString())
    assert store_as_int8(model) > 5
    content = model.SerializeToString()
    assert len(content) < 0.4 * before
    ort.InferenceSession(content, providers=["CPUExecutionProvider"])


def test_quantised_weights_are_nearest():
    weight = np.array([[1.0, -0.5, 0.0], [127.0, 1.4, -126.6]], dtype=np.float32)
    values, scale = quantise(weight, 0)
    np.testing.assert_array_equal(values, [[127, -64, 0], [127, 1, -127]])
    np.testing.assert_allclose(scale, [[1 / 127], [1.0]], rtol=1e-6)
