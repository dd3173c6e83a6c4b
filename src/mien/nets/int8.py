"""A network's large weights stored as int8, whoever made the network.

They are stored as one int8 a value and one float scale an output channel, with a Cast and a Mul
that the runtime folds when it loads the file: a quarter of the bytes, float arithmetic as before.

Rounded one by one to the nearest, the weights of a layer err together: a mesh moves by a quarter of
a per cent of the eyes' distance, the same way on every face. Examples of the network's input settle
both: each rounding error is made good by the layer's weights yet to be rounded, as far as their
inputs go together (Frantar et al., GPTQ, 2023), and what remains on average goes into the bias.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

Array = npt.NDArray[np.float32]

SMALL = 2048
"""Tensors with fewer values stay as they are."""

PLACES = 512
"""So many places of a feature map are looked at in one example."""

DAMPING = 0.001
"""Share of the mean variance of a layer's inputs added to each: examples are never all there is."""


@dataclass(slots=True)
class Moments:
    """What a layer's inputs are like: their sum, and the sum of their products."""

    count: int
    total: npt.NDArray[np.float64]
    products: npt.NDArray[np.float64]

    def add(self, rows: Array) -> None:
        """Count in inputs (N, K)."""
        self.count += len(rows)
        self.total += rows.sum(axis=0, dtype=np.float64)
        self.products += rows.T @ rows


def store_as_int8(
    model: ModelProto, examples: Iterable[Mapping[str, Array]] = (), *, small: int = SMALL
) -> int:
    """Store the large weights of ``model`` as int8, in place; return how many tensors that were.

    They may be float32, or float16 with a Cast behind each. ``examples`` are inputs of the network
    by name, as it sees them in use, to round by; without them each weight goes to the nearest.
    Tensors of less than ``small`` values stay float.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    graph = model.graph
    _widen(model, small)
    _fold_shapes(model)
    stored = {tensor.name: tensor for tensor in graph.initializer}
    users = defaultdict(list)
    for node in graph.node:
        if node.op_type in ("Conv", "Gemm", "MatMul") and node.input[1] in stored:
            tensor = stored[node.input[1]]
            if np.prod(tensor.dims) >= small and tensor.data_type == TensorProto.FLOAT:
                users[tensor.name].append(node)
    moments = _moments(model, users, examples)
    before = []
    for name, nodes in users.items():
        weight = numpy_helper.to_array(stored[name])
        values, scale = quantise(weight, *_channels(nodes[0], weight.ndim))
        if name in moments:
            seen = moments[name]
            mean = seen.total / seen.count
            correct = _bias(model, nodes)
            covariance = seen.products / seen.count
            if correct is not None:
                covariance -= np.outer(mean, mean)
            turned = _turned(nodes[0])
            rows = _rows(weight, turned)
            fitted = _fitted(rows, _rows(scale, turned), covariance)
            if correct is not None:
                correct = correct + (rows - fitted * _rows(scale, turned)) @ mean
                _put_bias(model, nodes[0], correct)
            values = (fitted.T if turned else fitted).reshape(weight.shape).astype(np.int8)
        graph.initializer.remove(stored[name])
        graph.initializer.extend(
            [
                numpy_helper.from_array(values, f"{name}_int8"),
                numpy_helper.from_array(scale, f"{name}_scale"),
            ]
        )
        cast = helper.make_node("Cast", [f"{name}_int8"], [f"{name}_cast"], to=TensorProto.FLOAT)
        before += [cast, helper.make_node("Mul", [f"{name}_cast", f"{name}_scale"], [name])]
    for node in reversed(before):
        graph.node.insert(0, node)
    onnx.checker.check_model(model)
    return len(users)


def quantise(
    weight: npt.NDArray[np.float32], *across: int
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Return int8 values and float32 scales, one for each index of the axes ``across``.

    Values times scales is nearest to ``weight``; scales have its dimensions, of length 1 elsewhere.
    """
    others = tuple(axis for axis in range(weight.ndim) if axis not in across)
    scale = np.abs(weight).max(axis=others, keepdims=True) / 127
    scale = np.maximum(scale, np.finfo(np.float32).tiny).astype(np.float32)
    return np.rint(weight / scale).clip(-127, 127).astype(np.int8), scale


def _channels(node: NodeProto, dimensions: int) -> tuple[int, ...]:
    """Return the axes of ``node``'s weight along which every index has a scale of its own."""
    if node.op_type == "MatMul":  # of every matrix of a stack, the columns
        return (*range(dimensions - 2), dimensions - 1)
    return (1,) if _turned(node) else (0,)


def _turned(node: NodeProto) -> bool:
    """Return whether a matrix of ``node`` has its output channels in columns."""
    return node.op_type == "MatMul" or (node.op_type == "Gemm" and not _attribute(node, "transB"))


def _attribute(node: NodeProto, name: str, default: Any = None) -> Any:
    from onnx import helper

    values = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    return values.get(name, default)


def _rows(array: Array, turned: bool) -> Array:
    """Return a weight or its scales as a matrix with a row an output channel."""
    return array.T if turned else array.reshape(len(array), -1)


def _fitted(rows: Array, scale: Array, covariance: npt.NDArray[np.float64]) -> Array:
    """Return whole numbers which, times ``scale``, do to inputs of ``covariance`` what rows do."""
    size = len(covariance)
    order = np.argsort(-np.diag(covariance), kind="stable")
    damped = covariance[np.ix_(order, order)]
    damped += (DAMPING * np.trace(covariance) / size + 1e-12) * np.eye(size)
    upper = np.linalg.cholesky(np.linalg.inv(damped)).T
    left = rows[:, order].astype(np.float64)
    fitted = np.zeros_like(rows)
    for i in range(size):
        whole = np.rint(left[:, i] / scale[:, 0]).clip(-127, 127)
        error = (left[:, i] - whole * scale[:, 0]) / upper[i, i]
        left[:, i:] -= np.outer(error, upper[i, i:])
        fitted[:, order[i]] = whole
    return fitted


def _moments(
    model: ModelProto,
    users: Mapping[str, list[NodeProto]],
    examples: Iterable[Mapping[str, Array]],
) -> dict[str, Moments]:
    """Return what the inputs of the weights with ``users`` are like, by the weights' names.

    Weights in groups and in stacks are left out.
    """
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto, helper

    watched = {
        name: nodes
        for name, nodes in users.items()
        if all(_attribute(node, "group", 1) == 1 for node in nodes)
    }
    open_model = onnx.ModelProto()
    open_model.CopyFrom(model)
    given = {port.name for port in model.graph.input}
    known = {port.name for port in model.graph.output}
    wanted = dict.fromkeys(node.input[0] for nodes in watched.values() for node in nodes)
    inside = [name for name in wanted if name not in given]
    open_model.graph.output.extend(
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
        for name in inside
        if name not in known
    )
    names = [port.name for port in open_model.graph.output]
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = None
    random = np.random.default_rng(0)
    shapes = {t.name: tuple(t.dims) for t in model.graph.initializer}
    found: dict[str, Moments] = {}
    for example in examples:
        session = session or ort.InferenceSession(open_model.SerializeToString(), options)
        values = {**example, **dict(zip(names, session.run(names, dict(example)), strict=True))}
        for name, nodes in watched.items():
            if len(shapes[name]) > 2 and nodes[0].op_type == "MatMul":
                continue
            for node in nodes:
                rows = _seen(node, values[node.input[0]], shapes[name])
                if len(rows) > PLACES:
                    rows = rows[random.choice(len(rows), PLACES, replace=False)]
                size = rows.shape[1]
                if name not in found:
                    found[name] = Moments(0, np.zeros(size), np.zeros((size, size)))
                found[name].add(rows)
    return found


def _seen(node: NodeProto, value: Array, shape: tuple[int, ...]) -> Array:
    """Return what each output of ``node`` is a weighted sum of (N, K)."""
    if node.op_type != "Conv":
        return value.reshape(-1, value.shape[-1])
    if _attribute(node, "auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
        raise ValueError(f"{node.name}: padding must be given in numbers")
    top, left, bottom, right = _attribute(node, "pads", (0, 0, 0, 0))
    padded = functional.pad(torch.from_numpy(value), (left, right, top, bottom))
    windows = functional.unfold(
        padded,
        shape[2:],
        dilation=tuple(_attribute(node, "dilations", (1, 1))),
        stride=tuple(_attribute(node, "strides", (1, 1))),
    )
    rows: Array = windows.transpose(1, 2).reshape(-1, windows.shape[1]).numpy()
    return rows


def _bias(model: ModelProto, nodes: list[NodeProto]) -> npt.NDArray[np.float64] | None:
    """Return the bias of the one node that uses a weight, 0 if it has none; None if it can't."""
    from onnx import numpy_helper

    if len(nodes) > 1 or nodes[0].op_type == "MatMul":
        return None
    if len(nodes[0].input) < 3:
        return np.zeros(1)
    name = nodes[0].input[2]
    readers = sum(name in node.input for node in model.graph.node)
    for tensor in model.graph.initializer:
        if tensor.name == name and readers == 1:
            return numpy_helper.to_array(tensor).astype(np.float64)
    return None


def _put_bias(model: ModelProto, node: NodeProto, bias: npt.NDArray[np.float64]) -> None:
    """Make ``bias`` that of ``node``."""
    from onnx import numpy_helper

    name = node.input[2] if len(node.input) > 2 else f"{node.input[1]}_bias"
    value = numpy_helper.from_array(bias.astype(np.float32), name)
    for tensor in model.graph.initializer:
        if tensor.name == name:
            tensor.CopyFrom(value)
            return
    node.input.append(name)
    model.graph.initializer.append(value)


def _widen(model: ModelProto, small: int) -> None:
    """Store large float16 tensors that are cast to float32 as float32, without the Cast."""
    from onnx import TensorProto, numpy_helper

    graph = model.graph
    readers = Counter(name for node in graph.node for name in node.input)
    half = {t.name: t for t in graph.initializer if t.data_type == TensorProto.FLOAT16}
    for node in list(graph.node):
        if node.op_type != "Cast" or node.input[0] not in half or readers[node.input[0]] > 1:
            continue
        tensor = half[node.input[0]]
        value = numpy_helper.to_array(tensor)
        if value.size < small or node.attribute[0].i != TensorProto.FLOAT:
            continue
        graph.initializer.remove(tensor)
        graph.initializer.append(numpy_helper.from_array(value.astype(np.float32), node.output[0]))
        graph.node.remove(node)


def _fold_shapes(model: ModelProto) -> None:
    """Drop large tensors of which only the shape is asked for."""
    from onnx import numpy_helper

    graph = model.graph
    for tensor in list(graph.initializer):
        readers = [node for node in graph.node if tensor.name in node.input]
        if np.prod(tensor.dims) < SMALL or any(node.op_type != "Shape" for node in readers):
            continue
        graph.initializer.remove(tensor)
        for node in readers:
            shape = np.array(tensor.dims, dtype=np.int64)
            graph.initializer.append(numpy_helper.from_array(shape, node.output[0]))
            graph.node.remove(node)
