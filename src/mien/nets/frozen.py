"""ONNX graphs as frozen, differentiable PyTorch modules.

Losses need gradients through networks that are only to be had as ONNX files, and a GPU that PyTorch
has already needs no second runtime for them. Only the operators of face networks are known; an
unknown one is an error when the module is made, not when it runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mien.nets.graph import Graph, Operator
from mien.nets.merging import merge_batch_norms, merge_modulations
from mien.nets.operators import OPERATORS, TOLD, refusal
from mien.nets.separable import SEPARABLE, merge_separable
from mien.nets.siblings import merge_siblings

LINEAR = frozenset({"Conv", "DepthPoint", "Gemm", "MatMul", "PointDepth"})
RULES = {**OPERATORS, **SEPARABLE}

__all__ = ["FrozenNet", "Graph", "Operator"]


class FrozenNet(nn.Module):
    """Runs a graph. Its tensors are buffers: nothing in it learns, gradients pass through.

    Takes what the graph takes, float tensors of any batch size in the order of ``Graph.inputs``;
    returns its outputs. Nothing in a run waits for the device.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        unknown = {refusal(o.kind, o.attributes) for o in graph.operators} - {None}
        if unknown:
            raise ValueError(f"{', '.join(sorted(map(str, unknown)))}: not known")
        told = {
            step.inputs[place]
            for step in graph.operators
            for place in TOLD.get(step.kind, ())
            if place < len(step.inputs)
        }
        values = {name: _value(t, told=name in told) for name, t in graph.tensors.items()}
        # what hangs on no input, such as weights stored as int8 with a scale, is computed once
        steps = [step for step in graph.operators if not _folded(step, values)]
        steps = merge_batch_norms(steps, values)
        steps = merge_modulations(steps, values, graph.outputs)
        steps = merge_separable(steps, values, graph.outputs)
        self._steps = merge_siblings(steps, values)
        self._inputs, self._outputs = list(graph.inputs), list(graph.outputs)
        used = {name for step in self._steps for name in step.inputs} | set(self._outputs)
        tensors = {n: v for n, v in values.items() if n in used and isinstance(v, Tensor)}
        self._buffer_of = {name: f"value_{i}" for i, name in enumerate(tensors)}
        for name, buffer in self._buffer_of.items():
            self.register_buffer(buffer, tensors[name].contiguous())
        self._constants = {n: v for n, v in values.items() if n in used and n not in tensors}
        self._done_with = _last_readings(self._steps, self._outputs)

    @classmethod
    def read(cls, source: str | Path | bytes) -> FrozenNet:
        """Return the network in ``source`` (see Graph.read), in evaluation mode."""
        return cls(Graph.read(source)).eval()

    def lower(self, dtype: torch.dtype, *, exact_ends: bool) -> FrozenNet:
        """Store the tensors in ``dtype``, so that the network computes in it; return the network.

        Inputs are taken as they are and cast by the first operators that need it. With
        ``exact_ends`` the last linear operator before each output stays in float32, and what comes
        after it too: half precision cannot say a coordinate of 192 pixels better than to an eighth.
        """
        exact = _ends(self._steps, self._outputs) if exact_ends else set()
        for name, buffer in self._buffer_of.items():
            value = getattr(self, buffer)
            if value.is_floating_point() and name not in exact:
                setattr(self, buffer, value.to(dtype))
        return self

    def channels_last(self) -> FrozenNet:
        """Store kernels channels last, which convolutions then follow; return the network."""
        for buffer in self._buffer_of.values():
            value = getattr(self, buffer)
            if value.ndim == 4:
                setattr(self, buffer, value.contiguous(memory_format=torch.channels_last))
        return self

    def forward(self, *inputs: Tensor) -> list[Tensor]:
        """Return the graph's outputs for its ``inputs``."""
        values: dict[str, Any] = dict(zip(self._inputs, inputs, strict=True))
        values[""] = None

        def value(name: str) -> Any:
            if name in values:
                return values[name]
            if name in self._constants:
                return self._constants[name]
            return getattr(self, self._buffer_of[name])

        for step, done_with in zip(self._steps, self._done_with, strict=True):
            arguments = [value(name) for name in step.inputs]
            values[step.outputs[0]] = RULES[step.kind](arguments, step.attributes)
            for name in done_with:
                values.pop(name, None)
        return [value(name) for name in self._outputs]


def _value(tensor: Tensor, *, told: bool) -> Any:
    """Return a stored tensor as a float32 tensor, or as plain numbers if it says how to compute.

    What has no dimension is a number too: it is no work for a device to be told of.
    """
    if told or tensor.ndim == 0:
        return tensor.tolist()
    if tensor.is_floating_point():
        return tensor.float()
    # shapes are put together from lists of whole numbers; weights stored as such are int8
    return tensor.tolist() if tensor.ndim == 1 and tensor.dtype == torch.int64 else tensor


def _folded(step: Operator, values: dict[str, Any]) -> bool:
    """Compute ``step`` into ``values`` if it hangs on stored values only."""
    if not all(name in values for name in step.inputs):
        return False
    result = OPERATORS[step.kind]([values[name] for name in step.inputs], step.attributes)
    values[step.outputs[0]] = result
    return True


def _last_readings(steps: list[Operator], outputs: Iterable[str]) -> list[list[str]]:
    """Return, for each step, the values that nothing reads after it: their memory is free."""
    seen, done_with = set(outputs), []
    for step in reversed(steps):
        last = [name for name in dict.fromkeys(step.inputs) if name and name not in seen]
        seen.update(last)
        done_with.append(last)
    return done_with[::-1]


def _ends(steps: list[Operator], outputs: Iterable[str]) -> set[str]:
    """Return what the last linear operators before ``outputs`` read, and all that follow them."""
    behind, read = set(outputs), set()
    for step in reversed(steps):
        if not behind.isdisjoint(step.outputs):
            read.update(step.inputs)
            if step.kind not in LINEAR:
                behind.update(step.inputs)
    return read
