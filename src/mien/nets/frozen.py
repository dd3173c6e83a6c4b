"""Small feed-forward ONNX graphs as frozen, differentiable PyTorch modules.

Losses need gradients through networks that are only to be had as ONNX files. A graph is a list of
operators and tensors; it can be stored as a file of PyTorch's, so that a training machine needs no
``onnx``. Only the operators of face networks are known; an unknown one is an error when the module
is made, not when it runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class Operator:
    """One node of a graph."""

    kind: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Graph:
    """A network: operators in the order of their execution, and stored tensors by name."""

    operators: list[Operator]
    tensors: dict[str, Tensor]
    input: str
    outputs: list[str]

    @classmethod
    def read(cls, path: str | Path) -> Graph:
        """Return the graph in ``path``: an ONNX file, or one that ``save`` wrote (``.pt``)."""
        path = Path(path)
        if path.suffix == ".onnx":
            return _from_onnx(path)
        stored = torch.load(path, weights_only=True)
        operators = [Operator(**fields) for fields in stored.pop("operators")]
        return cls(operators=operators, **stored)

    def until(self, *outputs: str) -> Graph:
        """Return the part of the graph that makes the values called ``outputs``.

        Raises ValueError if it makes no such value.
        """
        made = {name for operator in self.operators for name in operator.outputs}
        if missing := set(outputs) - made:
            raise ValueError(f"it has no value {', '.join(sorted(missing))}")
        needed, kept = set(outputs), []
        for operator in reversed(self.operators):
            if not needed.isdisjoint(operator.outputs):
                needed.update(operator.inputs)
                kept.append(operator)
        tensors = {name: value for name, value in self.tensors.items() if name in needed}
        return Graph(kept[::-1], tensors, self.input, list(outputs))

    def save(self, path: str | Path) -> None:
        """Write the graph to ``path``, in which ``read`` needs no ``onnx``."""
        torch.save(
            {
                "operators": [asdict(operator) for operator in self.operators],
                "tensors": self.tensors,
                "input": self.input,
                "outputs": self.outputs,
            },
            path,
        )


class FrozenNet(nn.Module):
    """Runs a graph. Its tensors are buffers: nothing in it learns, gradients pass through.

    Takes what the graph takes, a float tensor with any batch size; returns its outputs.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        unknown = {o.kind for o in graph.operators} - set(OPERATORS)
        if unknown:
            raise ValueError(f"operators {', '.join(sorted(unknown))} are not known")
        values = {name: _floating(tensor) for name, tensor in graph.tensors.items()}
        # what hangs on no input, such as weights stored as int8 with a scale, is computed once
        steps = [step for step in graph.operators if not _folded(step, values)]
        self._steps = _merge_batch_norms(steps, values)
        used = {name for step in self._steps for name in step.inputs}
        self._buffer_of = {n: f"value_{i}" for i, n in enumerate(values) if n in used}
        for name, buffer in self._buffer_of.items():
            self.register_buffer(buffer, values[name].contiguous())
        self._input, self._outputs = graph.input, graph.outputs
        # shapes and paddings are read by the processor at every step: they stay off the device
        self._constants = {
            name: values[name].tolist()
            for name in self._buffer_of
            if not values[name].is_floating_point()
        }

    @classmethod
    def read(cls, path: str | Path) -> FrozenNet:
        """Return the network in ``path``, in evaluation mode."""
        return cls(Graph.read(path)).eval()

    def forward(self, x: Tensor) -> list[Tensor]:
        """Return the graph's outputs for the input ``x``."""
        values: dict[str, Any] = {self._input: x, "": None}

        def value(name: str) -> Any:
            if name in values:
                return values[name]
            if name in self._constants:
                return self._constants[name]
            return getattr(self, self._buffer_of[name])

        for step in self._steps:
            inputs = [value(name) for name in step.inputs]
            values[step.outputs[0]] = OPERATORS[step.kind](inputs, step.attributes)
        return [values[name] for name in self._outputs]


def _from_onnx(path: Path) -> Graph:
    import onnx
    from onnx import helper, numpy_helper

    graph = onnx.load(path).graph
    tensors = {t.name: torch.from_numpy(numpy_helper.to_array(t).copy()) for t in graph.initializer}
    operators = []
    for node in graph.node:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "Constant":
            array = numpy_helper.to_array(attributes["value"]).copy()
            tensors[node.output[0]] = torch.from_numpy(array)
            continue
        attributes = {k: v.decode() if isinstance(v, bytes) else v for k, v in attributes.items()}
        operators.append(Operator(node.op_type, list(node.input), list(node.output), attributes))
    name = next(i.name for i in graph.input if i.name not in tensors)
    return Graph(operators, tensors, name, [o.name for o in graph.output])


def _floating(tensor: Tensor) -> Tensor:
    """Return float tensors as float32; others, such as shapes and int8 weights, as they are."""
    return tensor.float() if tensor.is_floating_point() else tensor


def _folded(step: Operator, values: dict[str, Tensor]) -> bool:
    """Compute ``step`` into ``values`` if it hangs on stored tensors only."""
    if not all(name in values for name in step.inputs):
        return False
    result = OPERATORS[step.kind]([values[name] for name in step.inputs], step.attributes)
    values[step.outputs[0]] = result
    return True


def _merge_batch_norms(steps: list[Operator], values: dict[str, Tensor]) -> list[Operator]:
    """Take batch norms into the convolutions before them: one pass over memory less each."""
    readers = Counter(name for step in steps for name in step.inputs)
    merged: list[Operator] = []
    place: dict[str, int] = {}  # where in ``merged`` the convolution stands that makes a value
    for step in steps:
        index = place.get(step.inputs[0])
        lone = index is not None and readers[step.inputs[0]] == 1
        if step.kind == "BatchNormalization" and index is not None and lone:
            merged[index] = _merged(merged[index], step, values)
        else:
            index = len(merged)
            merged.append(step)
        if merged[index].kind == "Conv":
            place[step.outputs[0]] = index
    return merged


def _merged(conv: Operator, norm: Operator, values: dict[str, Tensor]) -> Operator:
    scale, shift = _norm_terms([values[name] for name in norm.inputs[1:]], norm.attributes)
    weight = values[conv.inputs[1]]
    name = norm.outputs[0]
    values[f"{name}/weight"] = weight * scale.view(-1, *[1] * (weight.ndim - 1))
    before = values[conv.inputs[2]] if len(conv.inputs) > 2 else torch.zeros_like(shift)
    values[f"{name}/bias"] = before * scale + shift
    inputs = [conv.inputs[0], f"{name}/weight", f"{name}/bias"]
    return Operator("Conv", inputs, norm.outputs, conv.attributes)


def _norm_terms(terms: list[Tensor], attributes: dict[str, Any]) -> tuple[Tensor, Tensor]:
    gamma, beta, mean, variance = terms
    scale = gamma / torch.sqrt(variance + attributes.get("epsilon", 1e-5))
    return scale, beta - mean * scale


def _per_channel(values: Tensor, like: Tensor) -> Tensor:
    return values.view(1, -1, *[1] * (like.ndim - 2)).to(like.dtype)


def _padded(x: Tensor, pads: list[int], fill: float = 0.0) -> Tensor:
    """Pad as ONNX says it: all beginnings, then all ends. PyTorch wants the last axis first."""
    axes = len(pads) // 2
    order = [(pads[i], pads[i + axes]) for i in reversed(range(axes))]
    return functional.pad(x, [p for pair in order for p in pair], value=fill)


def _conv(inputs: list[Any], attributes: dict[str, Any]) -> Tensor:
    x, weight, *rest = inputs
    bias = rest[0] if rest else None
    pads = list(attributes.get("pads", [0, 0, 0, 0]))
    half = len(pads) // 2
    if pads[:half] == pads[half:]:
        padding = tuple(pads[:half])
    else:
        x, padding = _padded(x, pads), (0, 0)
    return functional.conv2d(
        x,
        weight,
        bias,
        tuple(attributes.get("strides", (1, 1))),
        padding,
        tuple(attributes.get("dilations", (1, 1))),
        attributes.get("group", 1),
    )


def _batch_norm(inputs: list[Any], attributes: dict[str, Any]) -> Tensor:
    x = inputs[0]
    scale, shift = _norm_terms(inputs[1:], attributes)
    y: Tensor = x * _per_channel(scale, x) + _per_channel(shift, x)
    return y


def _prelu(inputs: list[Any], attributes: dict[str, Any]) -> Tensor:
    del attributes
    x, slope = inputs
    return functional.prelu(x, slope.flatten().to(x.dtype))


def _gemm(inputs: list[Any], attributes: dict[str, Any]) -> Tensor:
    x, weight, *rest = inputs
    weight = weight if attributes.get("transB") else weight.T
    return functional.linear(x, weight, rest[0] if rest else None)


def _clip(inputs: list[Any], attributes: dict[str, Any]) -> Tensor:
    low, high = (*inputs[1:], None, None)[:2]
    low = attributes.get("min") if low is None else float(low)
    high = attributes.get("max") if high is None else float(high)
    y: Tensor = inputs[0].clamp(low, high)
    return y


def _pad(inputs: list[Any], attributes: dict[str, Any]) -> Tensor:
    if attributes.get("mode", "constant") != "constant":
        raise ValueError("only constant padding is known")
    fill = float(inputs[2]) if len(inputs) > 2 and inputs[2] is not None else 0.0
    return _padded(inputs[0], list(inputs[1]), fill)


def _max_pool(inputs: list[Any], attributes: dict[str, Any]) -> Tensor:
    pads = list(attributes.get("pads", [0, 0, 0, 0]))
    x = _padded(inputs[0], [0, 0, *pads[:2], 0, 0, *pads[2:]], -float("inf"))
    return functional.max_pool2d(x, attributes["kernel_shape"], attributes["strides"])


TYPES = {1: torch.float32, 6: torch.int32, 7: torch.int64}
"""ONNX's numbers of element types."""

Rule = Callable[[list[Any], dict[str, Any]], Any]
OPERATORS: dict[str, Rule] = {
    "Add": lambda i, _: i[0] + i[1],
    "BatchNormalization": _batch_norm,
    "Cast": lambda i, a: i[0].to(TYPES[a["to"]]),
    "Clip": _clip,
    "Conv": _conv,
    "Dropout": lambda i, _: i[0],
    # a batch is kept, whatever batch size the file was written with
    "Flatten": lambda i, _: i[0].flatten(1),
    "Gemm": _gemm,
    "GlobalAveragePool": lambda i, _: i[0].mean(dim=(2, 3), keepdim=True),
    "Identity": lambda i, _: i[0],
    "MatMul": lambda i, _: i[0] @ i[1].to(i[0].dtype),
    "Max": lambda i, _: torch.maximum(*i),
    "MaxPool": _max_pool,
    "Min": lambda i, _: torch.minimum(*i),
    "Mul": lambda i, _: i[0] * i[1],
    "PRelu": _prelu,
    "Pad": _pad,
    "Relu": lambda i, _: functional.relu(i[0]),
    "Reshape": lambda i, _: i[0].flatten(1),
    "Softmax": lambda i, a: i[0].float().softmax(dim=a.get("axis", -1)),
    "Squeeze": lambda i, _: i[0].flatten(1),
    "Sub": lambda i, _: i[0] - i[1],
    "Transpose": lambda i, a: i[0].permute(a["perm"]),
}
"""What each operator does to its inputs, given its attributes."""
