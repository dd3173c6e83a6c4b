"""Small feed-forward ONNX graphs as lists of operators and tensors.

A graph can be stored as a file of PyTorch's, which opens without ``onnx``.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

Shape = tuple[int | None, ...]
"""Sizes by dimension; None where any size goes."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One node of a graph."""

    kind: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]


def needed(operators: Iterable[Operator], outputs: Iterable[str]) -> list[Operator]:
    """Return those of ``operators``, in their order, that ``outputs`` hang on."""
    read, kept = set(outputs), []
    for operator in reversed(list(operators)):
        if not read.isdisjoint(operator.outputs):
            read.update(operator.inputs)
            kept.append(operator)
    return kept[::-1]


@dataclass(frozen=True, slots=True)
class Graph:
    """A network: operators in the order of their execution, and stored tensors by name."""

    operators: list[Operator]
    tensors: dict[str, Tensor]
    inputs: list[str]
    outputs: list[str]
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    """Of inputs and outputs, as far as the file says them."""

    @classmethod
    def read(cls, source: str | Path | bytes) -> Graph:
        """Return the graph in ``source``: an ONNX file, or one that ``save`` wrote.

        ``source`` is a path (of an ONNX file if it ends in ``.onnx``) or the content of a file. A
        damaged file raises what its reader raises: the errors of ``onnx`` and ``torch.load`` share
        no base.
        """
        if isinstance(source, bytes):
            # what torch.save writes is a zip archive; an ONNX file never begins like one
            archive = source.startswith(b"PK\x03\x04")
            return _from_torch(io.BytesIO(source)) if archive else _from_onnx(source)
        source = Path(source)
        return _from_onnx(source.read_bytes()) if source.suffix == ".onnx" else _from_torch(source)

    def until(self, *outputs: str) -> Graph:
        """Return the part of the graph that makes the values called ``outputs``.

        Raises ValueError if it makes no such value.
        """
        made = {name for operator in self.operators for name in operator.outputs}
        if missing := set(outputs) - made:
            raise ValueError(f"it has no value {', '.join(sorted(missing))}")
        kept = needed(self.operators, outputs)
        read = {*outputs, *(name for operator in kept for name in operator.inputs)}
        tensors = {name: value for name, value in self.tensors.items() if name in read}
        return Graph(kept, tensors, self.inputs, list(outputs), self.shapes)

    def save(self, path: str | Path) -> None:
        """Write the graph to ``path``, in which ``read`` needs no ``onnx``."""
        torch.save(
            {
                "operators": [asdict(operator) for operator in self.operators],
                "tensors": self.tensors,
                "inputs": self.inputs,
                "outputs": self.outputs,
                "shapes": dict(self.shapes),
            },
            path,
        )


def _from_torch(file: Path | io.BytesIO) -> Graph:
    stored = torch.load(file, weights_only=True)
    operators = [Operator(**fields) for fields in stored.pop("operators")]
    if "input" in stored:  # how files were written when a graph had one
        stored["inputs"] = [stored.pop("input")]
    return Graph(operators=operators, **stored)


def _from_onnx(content: bytes) -> Graph:
    import onnx
    from onnx import helper, numpy_helper

    graph = onnx.load_from_string(content).graph
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
    inputs = [port for port in graph.input if port.name not in tensors]
    shapes = {port.name: _shape(port) for port in (*inputs, *graph.output)}
    return Graph(
        operators, tensors, [port.name for port in inputs], [o.name for o in graph.output], shapes
    )


def _shape(port: Any) -> Shape:
    sizes = port.type.tensor_type.shape.dim
    return tuple(size.dim_value if size.HasField("dim_value") else None for size in sizes)
