"""A trained network as an ONNX file, with weights stored as int8.

The weights of large layers are stored as one int8 a value and one float scale an output channel,
with a Cast and a Mul that the runtime folds when it loads the file: a quarter of the bytes, float
arithmetic as before.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from mien.nets.occlusion import OcclusionNet
from mien.nets.swapper import Swapper

if TYPE_CHECKING:
    from onnx import ModelProto

OPSET = 17
SMALL = 2048
"""Tensors with fewer values stay float."""


def to_onnx(network: Swapper | OcclusionNet) -> ModelProto:
    """Return ``network`` as an ONNX model of any batch size.

    A swapper's inputs are ``target`` and ``source``, its output is ``output``; an occlusion
    network's are ``crop`` and ``logit``. The network is taken in float32 and on the CPU.
    """
    import onnx

    size = network.shape.size
    dummy: tuple[torch.Tensor, ...] = (torch.zeros(2, 3, size, size),)
    names, output = ["crop"], "logit"
    if isinstance(network, Swapper):
        dummy = (*dummy, torch.zeros(2, network.shape.space))
        names, output = ["target", "source"], "output"
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        # the newer exporter needs packages of its own and writes the same operators
        warnings.simplefilter("ignore")
        path = Path(folder) / "network.onnx"
        torch.onnx.export(
            network.float().cpu().eval(),
            dummy,
            path,
            dynamo=False,
            opset_version=OPSET,
            input_names=names,
            output_names=[output],
            dynamic_axes={name: {0: "N"} for name in [*names, output]},
        )
        model = onnx.load(path)
    onnx.checker.check_model(model)
    return model


def store_as_int8(model: ModelProto) -> int:
    """Store the large weights of ``model`` as int8, in place; return how many tensors that were."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    graph = model.graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    before = []
    for node in graph.node:
        if node.op_type not in ("Conv", "Gemm", "MatMul") or node.input[1] not in stored:
            continue
        name = node.input[1]
        weight = numpy_helper.to_array(stored[name])
        if weight.size < SMALL or weight.dtype != np.float32:
            continue
        transposed = any(a.name == "transB" and a.i for a in node.attribute)
        across = 0 if node.op_type == "Conv" or transposed else weight.ndim - 1
        values, scale = quantise(weight, across)
        graph.initializer.remove(stored.pop(name))
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
    return len(before) // 2


def quantise(
    weight: npt.NDArray[np.float32], across: int
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Return int8 values and float32 scales, one for each index of axis ``across``.

    Values times scales is nearest to ``weight``; scales have its dimensions, of length 1 elsewhere.
    """
    others = tuple(axis for axis in range(weight.ndim) if axis != across)
    scale = np.abs(weight).max(axis=others, keepdims=True) / 127
    scale = np.maximum(scale, np.finfo(np.float32).tiny).astype(np.float32)
    return np.rint(weight / scale).clip(-127, 127).astype(np.int8), scale


def export(network: Swapper | OcclusionNet, path: str | Path, *, int8: bool = True) -> int:
    """Write ``network`` to ``path`` and return the file's size in bytes."""
    model = to_onnx(network)
    if int8:
        store_as_int8(model)
    content: bytes = model.SerializeToString()
    Path(path).write_bytes(content)
    return len(content)
