"""Operators that read the same value, taken together as one: fewer kernels, same numbers.

Such are the heads of a detector, and the styles of all layers that are made from one embedding.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch
from torch import Tensor

from mien.nets.graph import Operator

JOINED = {"Gemm": (0, 0), "PointDepth": (0, 0, 1, 0)}
"""Along which of their dimensions the stored inputs of an operator, after the first, are joined for
the channels of its output to lie side by side."""


def merge_siblings(steps: list[Operator], values: dict[str, Any]) -> list[Operator]:
    """Make one of operators of a kind in JOINED that read the same value in the same way."""
    alike: defaultdict[tuple[str, str, str], list[Operator]] = defaultdict(list)
    for step in steps:
        if _can_join(step, values):
            alike[step.inputs[0], step.kind, str(sorted(step.attributes.items()))].append(step)
    instead: dict[str, list[Operator]] = {}
    for group in alike.values():
        if len(group) > 1:
            first, *others = (step.outputs[0] for step in group)
            instead |= {first: _joined(group, values), **{other: [] for other in others}}
    return [new for step in steps for new in instead.get(step.outputs[0], [step])]


def _can_join(step: Operator, values: dict[str, Any]) -> bool:
    along = JOINED.get(step.kind)
    if along is None or len(step.inputs) != 1 + len(along):
        return False
    stored = all(isinstance(values.get(name), Tensor) for name in step.inputs[1:])
    # a ReLU belongs to chains, whose links have no siblings; a matrix is joined by its rows
    return stored and not step.attributes.get("relu") and step.attributes.get("transB", 1) == 1


def _joined(group: list[Operator], values: dict[str, Any]) -> list[Operator]:
    """Return one operator, and those that take out of what it makes what each of ``group`` made."""
    first = group[0]
    name = f"{first.outputs[0]}/side by side"
    inputs = [first.inputs[0]]
    for place, along in enumerate(JOINED[first.kind], start=1):
        stored = [values[step.inputs[place]] for step in group]
        values[f"{name}/{place}"] = torch.cat(stored, dim=along)
        inputs.append(f"{name}/{place}")
    steps = [Operator(first.kind, inputs, [name], first.attributes)]
    start = 0
    for step in group:
        end = start + len(values[step.inputs[1]])
        bounds = [f"{name}/from {start}", f"{name}/to {end}", f"{name}/channels"]
        values |= dict(zip(bounds, ([start], [end], [1]), strict=True))
        steps.append(Operator("Slice", [name, *bounds], step.outputs, {}))
        start = end
    return steps
