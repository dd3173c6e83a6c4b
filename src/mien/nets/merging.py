"""Several operators of a graph taken together as one: fewer passes over memory, same numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from mien.nets.chains import Chains
from mien.nets.graph import Operator
from mien.nets.operators import norm_terms


def merge_batch_norms(steps: list[Operator], values: dict[str, Any]) -> list[Operator]:
    """Take batch norms into the convolutions before them: one pass over memory less each.

    Those that stand alone become a scale and a shift.
    """
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
            merged.append(_affine(step, values) if step.kind == "BatchNormalization" else step)
        if merged[index].kind == "Conv":
            place[step.outputs[0]] = index
    return merged


def _affine(norm: Operator, values: dict[str, Any]) -> Operator:
    scale, shift = norm_terms([values[name] for name in norm.inputs[1:]], norm.attributes)
    name = norm.outputs[0]
    values[f"{name}/scale"], values[f"{name}/shift"] = scale, shift
    inputs = [norm.inputs[0], f"{name}/scale", f"{name}/shift"]
    return Operator("ChannelAffine", inputs, norm.outputs, {})


def _merged(conv: Operator, norm: Operator, values: dict[str, Any]) -> Operator:
    scale, shift = norm_terms([values[name] for name in norm.inputs[1:]], norm.attributes)
    weight = values[conv.inputs[1]]
    name = norm.outputs[0]
    values[f"{name}/weight"] = weight * scale.view(-1, *[1] * (weight.ndim - 1))
    before = values[conv.inputs[2]] if len(conv.inputs) > 2 else torch.zeros_like(shift)
    values[f"{name}/bias"] = before * scale + shift
    inputs = [conv.inputs[0], f"{name}/weight", f"{name}/bias"]
    return Operator("Conv", inputs, norm.outputs, conv.attributes)


def merge_modulations(
    steps: list[Operator], values: dict[str, Any], outputs: Iterable[str]
) -> list[Operator]:
    """Take what multiplies and adds to a plain instance normalisation into it.

    So adaptive instance normalisation (Huang & Belongie 2017) is one operator, Modulation.
    """
    chains = Chains(steps, outputs)
    merged = {}
    gone: set[str] = set()
    for step in steps:
        scaled, bias = _split(step, "Add", "Mul", chains)
        norm, gain = _split(scaled, "Mul", "InstanceNormalization", chains)
        if scaled is None or norm is None or not _plain(norm, values):
            continue
        inputs = [norm.inputs[0], gain, bias]
        merged[step.outputs[0]] = Operator("Modulation", inputs, step.outputs, norm.attributes)
        gone.update((scaled.outputs[0], norm.outputs[0]))
    kept = (step for step in steps if step.outputs[0] not in gone)
    return [merged.get(step.outputs[0], step) for step in kept]


def _split(
    step: Operator | None, kind: str, wanted: str, chains: Chains
) -> tuple[Operator | None, str]:
    """Return the ``wanted`` operator that alone feeds a ``step`` of ``kind``, and the other input.

    The operator is None if there is no such one.
    """
    if step is not None and step.kind == kind:
        for name, other in (step.inputs, step.inputs[::-1]):
            if before := chains.before(name, wanted):
                return before, other
    return None, ""


def _plain(norm: Operator, values: dict[str, Any]) -> bool:
    """Whether an instance normalisation has no scale and no shift of its own."""
    gamma, beta = (values.get(name) for name in norm.inputs[1:])
    if not isinstance(gamma, Tensor) or not isinstance(beta, Tensor):
        return False
    return bool((gamma == 1).all()) and not bool(beta.any())
