"""What the operators of small feed-forward graphs do, in PyTorch.

Shapes, axes and other numbers that say how to compute, not what, are plain Python numbers and lists
all the way: they never lie on a device, so nothing ever waits for one. Linear operators take their
input in the type of their weights; whatever adds up many values does it in float32.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

TYPES = {1: torch.float32, 6: torch.int32, 7: torch.int64}
"""ONNX's numbers of element types."""

TOLD = {
    "Clip": (1, 2),
    "Gather": (1,),
    "Pad": (1, 2, 3),
    "ReduceMean": (1,),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "Slice": (1, 2, 3, 4),
    "Squeeze": (1,),
    "Unsqueeze": (1,),
}
"""Which inputs of an operator say how to compute, and are no tensors here."""


def refusal(kind: str, attributes: dict[str, Any]) -> str | None:
    """Say what of an operator is not known, or None if all of it is."""
    if kind == "BatchNormalization":
        return None  # is turned into other operators
    if kind not in OPERATORS:
        return f"operator {kind}"
    for name, known in LIMITS.get(kind, {}).items():
        if attributes.get(name, known[0]) not in known:
            return f"operator {kind} with {name} {attributes[name]!r}"
    return None


LIMITS: dict[str, dict[str, tuple[Any, ...]]] = {
    "MaxPool": {"ceil_mode": (0,)},
    "Pad": {"mode": ("constant",)},
    "DepthToSpace": {"mode": ("CRD",)},
    "Resize": {
        "mode": ("nearest", "linear"),
        "coordinate_transformation_mode": ("half_pixel", "asymmetric"),
        "nearest_mode": ("round_prefer_floor", "floor"),
    },
}
"""The values of attributes that are known, the default first."""


def norm_terms(terms: list[Tensor], attributes: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """Return the scale and the shift (C,) that a batch normalisation comes to."""
    gamma, beta, mean, variance = terms
    scale = gamma / torch.sqrt(variance + attributes.get("epsilon", 1e-5))
    return scale, beta - mean * scale


def _per_channel(values: Tensor, like: Tensor) -> Tensor:
    return values.view(1, -1, *[1] * (like.ndim - 2)).to(like.dtype)


def _channel_affine(inputs: list[Any], attributes: dict[str, Any]) -> Tensor:
    del attributes
    x, scale, shift = inputs
    return torch.addcmul(_per_channel(shift, x), x, _per_channel(scale, x))


def _padded(x: Tensor, pads: list[int], fill: float = 0.0) -> Tensor:
    """Pad as ONNX says it: all beginnings, then all ends. PyTorch wants the last axis first."""
    axes = len(pads) // 2
    order = [(pads[i], pads[i + axes]) for i in reversed(range(axes))]
    return functional.pad(x, [p for pair in order for p in pair], value=fill)


def _conv(inputs: list[Any], attributes: dict[str, Any]) -> Tensor:
    x, weight, *rest = inputs
    x = x.to(weight.dtype)
    pads = list(attributes.get("pads", [0, 0, 0, 0]))
    half = len(pads) // 2
    if pads[:half] == pads[half:]:
        padding = tuple(pads[:half])
    else:
        x, padding = _padded(x, pads), (0, 0)
    return functional.conv2d(
        x,
        weight,
        rest[0] if rest else None,
        tuple(attributes.get("strides", (1, 1))),
        padding,
        tuple(attributes.get("dilations", (1, 1))),
        attributes.get("group", 1),
    )


def _prelu(inputs: list[Any], attributes: dict[str, Any]) -> Tensor:
    del attributes
    x, slope = inputs
    return functional.prelu(x, slope.flatten().to(x.dtype))


def _gemm(inputs: list[Any], attributes: dict[str, Any]) -> Tensor:
    x, weight, *rest = inputs
    weight = weight if attributes.get("transB") else weight.T
    return functional.linear(x.to(weight.dtype), weight, rest[0] if rest else None)


def _matmul(inputs: list[Any], attributes: dict[str, Any]) -> Tensor:
    del attributes
    x, weight = inputs
    y: Tensor = x @ weight.to(x.dtype)
    return y


def _instance_norm(inputs: list[Any], attributes: dict[str, Any]) -> Tensor:
    """Normalise by picture and channel; statistics in float32, as half's would be coarse."""
    x, gamma, beta = inputs
    axes = tuple(range(2, x.ndim))
    variance, mean = torch.var_mean(x.float(), dim=axes, correction=0, keepdim=True)
    scale = torch.rsqrt(variance + attributes.get("epsilon", 1e-5)) * _per_channel(gamma, mean)
    shift = _per_channel(beta, mean) - mean * scale
    return torch.addcmul(shift.to(x.dtype), x, scale.to(x.dtype))


def _clip(inputs: list[Any], attributes: dict[str, Any]) -> Tensor:
    low, high = (*inputs[1:], None, None)[:2]
    low = attributes.get("min") if low is None else _number(low)
    high = attributes.get("max") if high is None else _number(high)
    y: Tensor = inputs[0].clamp(low, high)
    return y


def _number(value: Any) -> float:
    return float(value[0] if isinstance(value, list) else value)


def _pad(inputs: list[Any], attributes: dict[str, Any]) -> Tensor:
    fill = _number(inputs[2]) if len(inputs) > 2 and inputs[2] is not None else 0.0
    pads = inputs[1] if len(inputs) > 1 else attributes["pads"]
    return _padded(inputs[0], pads, fill)


def _max_pool(inputs: list[Any], attributes: dict[str, Any]) -> Tensor:
    x, pads = inputs[0], list(attributes.get("pads", [0, 0, 0, 0]))
    if any(pads):
        x = _padded(x, [0, 0, *pads[:2], 0, 0, *pads[2:]], -float("inf"))
    return functional.max_pool2d(x, attributes["kernel_shape"], attributes.get("strides", 1))


def _resize(inputs: list[Any], attributes: dict[str, Any]) -> Tensor:
    x, _, scales, sizes = (*inputs, None, None, None)[:4]
    sides = sizes or [int(side * scale) for side, scale in zip(x.shape, scales, strict=True)]
    if attributes.get("mode", "nearest") == "nearest":
        return functional.interpolate(x, tuple(sides[2:]), mode="nearest")
    return functional.interpolate(x, tuple(sides[2:]), mode="bilinear", align_corners=False)


def _reshape(inputs: list[Any], attributes: dict[str, Any]) -> Tensor:
    """Reshape, and keep the batch whatever batch size the file was written with."""
    del attributes
    x, sizes = inputs
    sizes = [x.shape[i] if size == 0 else size for i, size in enumerate(sizes)]
    rest = sizes[1:]
    whole = -1 in rest or reduce(operator.mul, rest, 1) == x[:1].numel()
    if whole and sizes[0] in (1, -1, x.shape[0]):
        sizes = [x.shape[0], *rest]
    y: Tensor = x.reshape(sizes)
    return y


def _shape(inputs: list[Any], attributes: dict[str, Any]) -> list[int]:
    return list(inputs[0].shape)[attributes.get("start", 0) : attributes.get("end")]


def _gather(inputs: list[Any], attributes: dict[str, Any]) -> Any:
    x, places = inputs
    if isinstance(x, list):
        return [x[place] for place in places] if isinstance(places, list) else x[places]
    axis = attributes.get("axis", 0)
    if isinstance(places, list):
        return torch.stack([x.select(axis, place) for place in places], dim=axis)
    return x.select(axis, places)


def _unsqueeze(inputs: list[Any], attributes: dict[str, Any]) -> Any:
    x, axes = (*inputs, attributes.get("axes"))[:2]
    if isinstance(x, int | float):
        return [x]
    for axis in sorted(axes):
        x = x.unsqueeze(axis)
    return x


def _concat(inputs: list[Any], attributes: dict[str, Any]) -> Any:
    if isinstance(inputs[0], list):
        return [number for part in inputs for number in part]
    return torch.cat(inputs, dim=attributes["axis"])


def _slice(inputs: list[Any], attributes: dict[str, Any]) -> Any:
    del attributes
    x, starts, ends, axes, steps = (*inputs, None, None)[:5]
    axes = range(len(starts)) if axes is None else axes
    if isinstance(x, list):
        return x[starts[0] : ends[0] : steps[0] if steps else 1]
    index = [slice(None)] * x.ndim
    for i, axis in enumerate(axes):
        index[axis] = slice(starts[i], ends[i], steps[i] if steps else 1)
    return x[tuple(index)]


def _cast(inputs: list[Any], attributes: dict[str, Any]) -> Any:
    kind = TYPES[attributes["to"]]
    if isinstance(inputs[0], Tensor):
        return inputs[0].to(kind)
    convert: Callable[[Any], Any] = float if kind.is_floating_point else int
    return list(map(convert, inputs[0])) if isinstance(inputs[0], list) else convert(inputs[0])


def _reduce_mean(inputs: list[Any], attributes: dict[str, Any]) -> Tensor:
    axes = inputs[1] if len(inputs) > 1 else attributes["axes"]
    y: Tensor = inputs[0].mean(dim=tuple(axes), keepdim=bool(attributes.get("keepdims", 1)))
    return y


def _each(function: Callable[[Any, Any], Any]) -> Rule:
    """Make a rule of two numbers one of two tensors or lists of numbers."""

    def rule(inputs: list[Any], attributes: dict[str, Any]) -> Any:
        del attributes
        if not any(isinstance(value, list) for value in inputs):
            return function(*inputs)
        longest = max(len(value) for value in inputs if isinstance(value, list))
        return [
            function(*pair) for pair in zip(*(_spread(v, longest) for v in inputs), strict=True)
        ]

    return rule


def _spread(value: Any, length: int) -> Iterable[Any]:
    values = value if isinstance(value, list) else [value]
    return values * length if len(values) < length else values


def _divide(a: Any, b: Any) -> Any:
    return a // b if isinstance(a, int) and isinstance(b, int) else a / b


def _extreme(of_two: Callable[[Tensor, Tensor], Tensor], limit: str) -> Rule:
    """Return the rule of Max or Min: of tensors, or of a tensor and a number."""

    def rule(inputs: list[Any], attributes: dict[str, Any]) -> Any:
        del attributes
        tensors = [value for value in inputs if isinstance(value, Tensor)]
        result = reduce(of_two, tensors)
        for number in (value for value in inputs if not isinstance(value, Tensor)):
            result = result.clamp(**{limit: number})
        return result

    return rule


Rule = Callable[[list[Any], dict[str, Any]], Any]
OPERATORS: dict[str, Rule] = {
    "Add": _each(operator.add),
    "Cast": _cast,
    # a batch normalisation, once its four terms are two
    "ChannelAffine": _channel_affine,
    "Clip": _clip,
    "Concat": _concat,
    "Conv": _conv,
    "DepthToSpace": lambda i, a: functional.pixel_shuffle(i[0], a["blocksize"]),
    "Div": _each(_divide),
    "Dropout": lambda i, _: i[0],
    # a batch is kept, whatever batch size the file was written with
    "Flatten": lambda i, _: i[0].flatten(1),
    "Gather": _gather,
    "Gemm": _gemm,
    "GlobalAveragePool": lambda i, _: i[0].mean(dim=(2, 3), keepdim=True),
    "Identity": lambda i, _: i[0],
    "InstanceNormalization": _instance_norm,
    "LeakyRelu": lambda i, a: functional.leaky_relu(i[0], a.get("alpha", 0.01)),
    "MatMul": _matmul,
    "Max": _extreme(torch.maximum, "min"),
    "MaxPool": _max_pool,
    "Min": _extreme(torch.minimum, "max"),
    "Mul": _each(operator.mul),
    "PRelu": _prelu,
    "Pad": _pad,
    "Pow": _each(operator.pow),
    "ReduceMean": _reduce_mean,
    "Relu": lambda i, _: functional.relu(i[0]),
    "Reshape": _reshape,
    "Resize": _resize,
    "Shape": _shape,
    "Sigmoid": lambda i, _: torch.sigmoid(i[0]),
    "Slice": _slice,
    "Softmax": lambda i, a: i[0].float().softmax(dim=a.get("axis", -1)),
    "Squeeze": lambda i, _: i[0].flatten(1),
    "Sub": _each(operator.sub),
    "Tanh": lambda i, _: torch.tanh(i[0]),
    "Transpose": lambda i, a: i[0].permute(a["perm"]),
    "Unsqueeze": _unsqueeze,
}
"""What each operator does to its inputs, given its attributes."""
