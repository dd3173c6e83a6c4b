"""Depthwise separable convolutions, taken together as one operator each.

"DepthPoint" is a 3 x 3 convolution within each channel, a 1 x 1 one across them, an addition and a
PReLU: the blocks of BlazeFace (Bazarevsky et al. 2019). "PointDepth" is the 1 x 1 one first and
then the 3 x 3 one, with or without a ReLU: the units of YuNet (Wu et al. 2023). On a GPU, in half
precision, each is one kernel.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor
from torch.nn import functional

from mien.kernels import usable_in_networks
from mien.nets.arranging import Rule
from mien.nets.chains import Chains
from mien.nets.graph import Operator, needed


def merge_separable(
    steps: list[Operator], values: dict[str, Any], outputs: Iterable[str]
) -> list[Operator]:
    """Take a depthwise and a 1 x 1 convolution in a row, and what comes after, as one."""
    outputs = list(outputs)
    chains = Chains(steps, outputs)
    merged: dict[str, Operator] = {}
    gone: set[str] = set()
    for step in steps:
        found = _depth_point(step, values, chains) or _point_depth(step, values, chains)
        if found is not None and gone.isdisjoint(found[1]) and merged.keys().isdisjoint(found[1]):
            merged[step.outputs[0]] = found[0]
            gone.update(found[1])
    kept = (step for step in steps if step.outputs[0] not in gone)
    return needed([merged.get(step.outputs[0], step) for step in kept], outputs)


Found = tuple[Operator, list[str]]
"""An operator in place of several, and the values that are not made any more."""


def _depth_point(step: Operator, values: dict[str, Any], chains: Chains) -> Found | None:
    added = chains.before(step.inputs[0], "Add") if step.kind == "PRelu" else None
    if added is None:
        return None
    for name, beside in (added.inputs, added.inputs[::-1]):
        point = chains.before(name, "Conv")
        depth = point and chains.before(point.inputs[0], "Conv")
        if point and depth and beside not in values:
            if not _across(point, values) or not _within(depth, values):
                continue
            x, pads, stride = depth.inputs[0], _pads(depth), _strides(depth)[0]
            pooled = stride == 2 and _pooled(beside, values, chains) == x
            how = {"stride": stride, "before": pads[0], "after": pads[2], "pooled": pooled}
            taps = _taps(depth, values)
            inputs = [x, *taps, *point.inputs[1:], x if pooled else beside, step.inputs[1]]
            operator = Operator("DepthPoint", inputs, step.outputs, how)
            return operator, [added.outputs[0], name, depth.outputs[0]]
    return None


def _point_depth(step: Operator, values: dict[str, Any], chains: Chains) -> Found | None:
    relu = step.kind == "Relu"
    depth = chains.before(step.inputs[0], "Conv") if relu else step
    if depth is None or depth.kind != "Conv" or (not relu and chains.after(step) == "Relu"):
        return None
    point = chains.before(depth.inputs[0], "Conv")
    if point is None or not _across(point, values) or not _within(depth, values):
        return None
    if _strides(depth) != [1, 1] or _pads(depth) != [1, 1, 1, 1]:
        return None
    inputs = [*point.inputs, *_taps(depth, values)]
    operator = Operator("PointDepth", inputs, step.outputs, {"relu": relu})
    return operator, [point.outputs[0], *([depth.outputs[0]] if relu else [])]


def _taps(depth: Operator, values: dict[str, Any]) -> list[str]:
    """Store the weights as kernels read them, (9, C); return their name and the bias's."""
    name = f"{depth.outputs[0]}/taps"
    values[name] = values[depth.inputs[1]].flatten(1).T.contiguous()
    return [name, depth.inputs[2]]


def _within_channels(x: Tensor, taps: Tensor, bias: Tensor, stride: int, padding: int) -> Tensor:
    weight = taps.T.reshape(-1, 1, 3, 3)
    return functional.conv2d(x, weight, bias, stride, padding, groups=len(weight))


def _pooled(name: str, values: dict[str, Any], chains: Chains) -> str | None:
    """Return of which value the greatest of each 2 x 2 pixels are what ``name`` is.

    Channels of 0 may have been added; None if it is something else.
    """
    step = chains.maker.get(name)
    if step is not None and step.kind == "Pad" and _adds_channels(step, values):
        step = chains.maker.get(step.inputs[0])
    if step is None or step.kind != "MaxPool":
        return None
    how = step.attributes
    by_two = list(how["kernel_shape"]) == list(how.get("strides", [1, 1])) == [2, 2]
    return step.inputs[0] if by_two and not any(how.get("pads", [0])) else None


def _adds_channels(pad: Operator, values: dict[str, Any]) -> bool:
    """Whether it adds channels of 0 after those that there are, and nothing else."""
    pads = values.get(pad.inputs[1]) if len(pad.inputs) > 1 else pad.attributes.get("pads")
    if not isinstance(pads, list) or len(pads) != 8 or any(pads[:5]) or any(pads[6:]):
        return False
    fill = values.get(pad.inputs[2]) if len(pad.inputs) > 2 else 0
    return fill in (0, None, [0], [0.0])


def _strides(conv: Operator) -> list[int]:
    return list(conv.attributes.get("strides", [1, 1]))


def _pads(conv: Operator) -> list[int]:
    return list(conv.attributes.get("pads", [0, 0, 0, 0]))


def _stored(conv: Operator, values: dict[str, Any]) -> bool:
    """Whether weights and bias are stored, and what lies between two pixels is not left out."""
    stored = all(isinstance(values.get(name), Tensor) for name in conv.inputs[1:])
    plain = conv.attributes.get("auto_pad", "NOTSET") in ("NOTSET", b"NOTSET")
    near = list(conv.attributes.get("dilations", [1, 1])) == [1, 1]
    return len(conv.inputs) == 3 and stored and plain and near


def _across(conv: Operator, values: dict[str, Any]) -> bool:
    """Whether it is 1 x 1, across all channels."""
    if not _stored(conv, values):
        return False
    single = tuple(values[conv.inputs[1]].shape[2:]) == (1, 1)
    grouped = conv.attributes.get("group", 1) != 1
    return single and _strides(conv) == [1, 1] and not any(_pads(conv)) and not grouped


def _within(conv: Operator, values: dict[str, Any]) -> bool:
    """Whether it is 3 x 3, within each channel, and alike along both axes."""
    if not _stored(conv, values):
        return False
    weight, pads = values[conv.inputs[1]], _pads(conv)
    alike = len(set(_strides(conv))) == 1 and pads[0] == pads[1] and pads[2] == pads[3]
    alone = conv.attributes.get("group", 1) == len(weight)
    return alike and alone and tuple(weight.shape[1:]) == (1, 3, 3)


def _depth_point_rule(inputs: list[Any], attributes: dict[str, Any]) -> Tensor:
    x, taps, depth_bias, point, point_bias, beside, slope = inputs
    stride, before, after = (attributes[name] for name in ("stride", "before", "after"))
    x = x.to(taps.dtype)
    if _in_one(x, point) and all(each.dtype == x.dtype for each in (point, beside, slope)):
        from mien.kernels.separable import depth_point

        given = (taps, depth_bias, point, point_bias, beside, slope.flatten())
        in_one: Tensor = depth_point(x, *given, stride, before, attributes["pooled"])
        return in_one
    if attributes["pooled"]:
        beside = functional.max_pool2d(x, 2)
        beside = functional.pad(beside, [0, 0, 0, 0, 0, len(point) - beside.shape[1]])
    if before != after:
        x, before = functional.pad(x, [before, after, before, after]), 0
    between = _within_channels(x, taps, depth_bias, stride, before)
    made = functional.conv2d(between.to(point.dtype), point, point_bias) + beside
    return functional.prelu(made, slope.flatten().to(made.dtype))


def _point_depth_rule(inputs: list[Any], attributes: dict[str, Any]) -> Tensor:
    x, point, point_bias, taps, depth_bias = inputs
    if _in_one(x, point):
        from mien.kernels.separable import point_depth

        in_one: Tensor = point_depth(x, *inputs[1:], attributes["relu"])
        return in_one
    between = functional.conv2d(x.to(point.dtype), point, point_bias).to(taps.dtype)
    made = _within_channels(between, taps, depth_bias, 1, 1)
    return made.relu() if attributes["relu"] else made


def _in_one(x: Tensor, point: Tensor) -> bool:
    """Return whether there is a kernel for these convolutions of ``x``."""
    if not usable_in_networks(x):
        return False
    from mien.kernels.separable import takes

    return takes(x, point)


SEPARABLE: dict[str, Rule] = {"DepthPoint": _depth_point_rule, "PointDepth": _point_depth_rule}
"""What these operators do; see mien.nets.operators."""
