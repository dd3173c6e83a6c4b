"""What the operators of small feed-forward graphs do, in PyTorch.

Shapes, axes and other numbers that say how to compute, not what, are plain Python numbers and lists
all the way: they never lie on a device, so nothing ever waits for one. Linear operators take their
input in the type of their weights; whatever adds up many values does it in float32.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from mien.kernels import usable_in_networks
from mien.nets.arranging import (
    Rule,
    cast,
    concat,
    divide,
    each,
    extreme,
    gather,
    reshape,
    shape,
    slice_,
    unsqueeze,
)

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
    "AveragePool": {"ceil_mode": (0,)},
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
    if weight.shape[1:] == x.shape[1:] and not any(pads):
        return _whole(x, weight, rest[0] if rest else None)
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


def _whole(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Convolve where a kernel covers all of its input: a product, which is much faster."""
    if weight.ndim == 4 and weight.is_contiguous(memory_format=torch.channels_last):
        rows, columns = (value.permute(0, 2, 3, 1).flatten(1) for value in (x, weight))
    else:
        rows, columns = x.flatten(1), weight.flatten(1)
    made: Tensor = functional.linear(rows, columns, bias)
    return made.view(*made.shape, *[1] * (x.ndim - 2))


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


def _centred(x: Tensor, attributes: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """Return ``x`` without its means, and one over its deviations, by picture and channel.

    Statistics are taken in float32. Means go first: the deviation of a flat channel is next to
    nothing, and what is divided by it must be small or float16 overflows. torch.var_mean takes
    twenty times as long on a CPU when channels are last.
    """
    axes = tuple(range(2, x.ndim))
    if _in_one(x):
        from mien.kernels.instance import moments

        mean, variance = moments(x)
        centred = x - mean.to(x.dtype)
    else:
        centred = x - x.mean(dim=axes, keepdim=True, dtype=torch.float32).to(x.dtype)
        if x.is_cuda:  # one pass, and no squares in float32 to be written
            norm = torch.linalg.vector_norm(centred, dim=axes, keepdim=True, dtype=torch.float32)
            variance = norm.square() / x[0, 0].numel()
        else:
            variance = centred.float().square().mean(dim=axes, keepdim=True)
    return centred, torch.rsqrt(variance + attributes.get("epsilon", 1e-5))


def _in_one(x: Tensor) -> bool:
    """Return whether there is a kernel for the statistics of ``x``."""
    if x.ndim != 4 or not usable_in_networks(x):
        return False
    from mien.kernels.instance import CHANNELS

    return x.shape[1] % CHANNELS == 0


def _instance_norm(inputs: list[Any], attributes: dict[str, Any]) -> Tensor:
    x, gamma, beta = inputs
    centred, scale = _centred(x, attributes)
    scale = (scale * _per_channel(gamma, scale)).to(x.dtype)
    return torch.addcmul(_per_channel(beta, x), centred, scale)


def _modulation(inputs: list[Any], attributes: dict[str, Any]) -> Tensor:
    x, gain, bias = inputs
    centred, scale = _centred(x, attributes)
    return torch.addcmul(bias.to(x.dtype), centred, (scale * gain).to(x.dtype))


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


def _average_pool(inputs: list[Any], attributes: dict[str, Any]) -> Tensor:
    pads = list(attributes.get("pads", [0, 0, 0, 0]))
    size, strides = attributes["kernel_shape"], attributes.get("strides", (1, 1))
    x = inputs[0].float()
    if not attributes.get("count_include_pad", 0) and any(pads):
        # by sums, so that borders may differ and each pixel counts only where it is
        ones = _padded(torch.ones_like(x[:1, :1]), pads)
        share = functional.avg_pool2d(ones, size, strides)
        y: Tensor = functional.avg_pool2d(_padded(x, pads), size, strides) / share
    else:
        y = functional.avg_pool2d(_padded(x, pads), size, strides)
    return y.to(inputs[0].dtype)


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


def _reduce_mean(inputs: list[Any], attributes: dict[str, Any]) -> Tensor:
    axes = inputs[1] if len(inputs) > 1 else attributes["axes"]
    y: Tensor = inputs[0].mean(dim=tuple(axes), keepdim=bool(attributes.get("keepdims", 1)))
    return y


OPERATORS: dict[str, Rule] = {
    "Add": each(operator.add),
    "AveragePool": _average_pool,
    "Cast": cast,
    # a batch normalisation, once its four terms are two
    "ChannelAffine": _channel_affine,
    "Clip": _clip,
    "Concat": concat,
    "Conv": _conv,
    "DepthToSpace": lambda i, a: functional.pixel_shuffle(i[0], a["blocksize"]),
    "Div": each(divide),
    "Dropout": lambda i, _: i[0],
    # a batch is kept, whatever batch size the file was written with
    "Flatten": lambda i, _: i[0].flatten(1),
    "Gather": gather,
    "Gemm": _gemm,
    "GlobalAveragePool": lambda i, _: i[0].mean(dim=(2, 3), keepdim=True),
    "Identity": lambda i, _: i[0],
    "InstanceNormalization": _instance_norm,
    "LeakyRelu": lambda i, a: functional.leaky_relu(i[0], a.get("alpha", 0.01)),
    "MatMul": _matmul,
    "Max": extreme(torch.maximum, "min"),
    "MaxPool": _max_pool,
    "Min": extreme(torch.minimum, "max"),
    # an instance normalisation, what it is multiplied by and what is added
    "Modulation": _modulation,
    "Mul": each(operator.mul),
    "PRelu": _prelu,
    "Pad": _pad,
    "Pow": each(operator.pow),
    "ReduceMean": _reduce_mean,
    "Relu": lambda i, _: functional.relu(i[0]),
    "Reshape": reshape,
    "Resize": _resize,
    "Shape": shape,
    "Sigmoid": lambda i, _: torch.sigmoid(i[0]),
    "Slice": slice_,
    "Softmax": lambda i, a: i[0].float().softmax(dim=a.get("axis", -1)),
    "Sqrt": lambda i, _: torch.sqrt(i[0]),
    "Squeeze": lambda i, _: i[0].flatten(1),
    "Sub": each(operator.sub),
    "Tanh": lambda i, _: torch.tanh(i[0]),
    "Transpose": lambda i, a: i[0].permute(a["perm"]),
    "Unsqueeze": unsqueeze,
}
"""What each operator does to its inputs, given its attributes."""
