"""What operators do that compute shapes, arrange values, or apply number by number.

What says how to compute is a plain Python number or list here; see mien.nets.operators.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

import torch
from torch import Tensor

Rule = Callable[[list[Any], dict[str, Any]], Any]
"""Makes an operator's output of its inputs and its attributes."""

TYPES = {1: torch.float32, 6: torch.int32, 7: torch.int64}
"""ONNX's numbers of element types."""


def reshape(inputs: list[Any], attributes: dict[str, Any]) -> Tensor:
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


def shape(inputs: list[Any], attributes: dict[str, Any]) -> list[int]:
    """Return the sizes of a tensor as a list."""
    return list(inputs[0].shape)[attributes.get("start", 0) : attributes.get("end")]


def gather(inputs: list[Any], attributes: dict[str, Any]) -> Any:
    """Pick entries along an axis: of a tensor, or of a list of numbers."""
    x, places = inputs
    if isinstance(x, list):
        return [x[place] for place in places] if isinstance(places, list) else x[places]
    axis = attributes.get("axis", 0)
    if isinstance(places, list):
        return torch.stack([x.select(axis, place) for place in places], dim=axis)
    return x.select(axis, places)


def unsqueeze(inputs: list[Any], attributes: dict[str, Any]) -> Any:
    """Add axes of length 1; a number becomes a list of one."""
    x, axes = (*inputs, attributes.get("axes"))[:2]
    if isinstance(x, int | float):
        return [x]
    for axis in sorted(axes):
        x = x.unsqueeze(axis)
    return x


def concat(inputs: list[Any], attributes: dict[str, Any]) -> Any:
    """Join tensors along an axis, or lists of numbers."""
    if isinstance(inputs[0], list):
        return [number for part in inputs for number in part]
    return torch.cat(inputs, dim=attributes["axis"])


def slice_(inputs: list[Any], attributes: dict[str, Any]) -> Any:
    """Cut a tensor along axes, or a list of numbers."""
    del attributes
    x, starts, ends, axes, steps = (*inputs, None, None)[:5]
    axes = range(len(starts)) if axes is None else axes
    if isinstance(x, list):
        return x[starts[0] : ends[0] : steps[0] if steps else 1]
    index = [slice(None)] * x.ndim
    for i, axis in enumerate(axes):
        index[axis] = slice(starts[i], ends[i], steps[i] if steps else 1)
    return x[tuple(index)]


def cast(inputs: list[Any], attributes: dict[str, Any]) -> Any:
    """Change the type of a tensor or of numbers."""
    kind = TYPES[attributes["to"]]
    if isinstance(inputs[0], Tensor):
        return inputs[0].to(kind)
    convert: Callable[[Any], Any] = float if kind.is_floating_point else int
    return list(map(convert, inputs[0])) if isinstance(inputs[0], list) else convert(inputs[0])


def each(function: Callable[[Any, Any], Any]) -> Rule:
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


def divide(a: Any, b: Any) -> Any:
    """Divide as ONNX does: whole numbers give a whole number."""
    return a // b if isinstance(a, int) and isinstance(b, int) else a / b


def extreme(of_two: Callable[[Tensor, Tensor], Tensor], limit: str) -> Rule:
    """Return the rule of Max or Min: of tensors, or of a tensor and a number."""

    def rule(inputs: list[Any], attributes: dict[str, Any]) -> Any:
        del attributes
        tensors = [value for value in inputs if isinstance(value, Tensor)]
        result = reduce(of_two, tensors)
        for number in (value for value in inputs if not isinstance(value, Tensor)):
            result = result.clamp(**{limit: number})
        return result

    return rule
