"""A trained network as an ONNX file, with weights stored as int8."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from mien.nets.int8 import store_as_int8
from mien.nets.occlusion import OcclusionNet
from mien.nets.swapper import Swapper
from mien.nets.watermark import SIDE, Extractor

if TYPE_CHECKING:
    from onnx import ModelProto

OPSET = 17

Exported = Swapper | OcclusionNet | Extractor


def to_onnx(network: Exported) -> ModelProto:
    """Return ``network`` as an ONNX model of any batch size.

    A swapper's inputs are ``target`` and ``source``, its output is ``output``; an occlusion
    network's are ``crop`` and ``logit``; a watermark extractor's, which takes pictures of any size,
    ``brightness`` and ``tile``. The network is taken in float32 and on the CPU.
    """
    import onnx

    axes = {0: "N"}
    if isinstance(network, Extractor):
        dummy: tuple[torch.Tensor, ...] = (torch.zeros(2, 1, SIDE, SIDE),)
        names, output = ["brightness"], "tile"
        axes |= {2: "H", 3: "W"}
    else:
        dummy = (torch.zeros(2, 3, network.shape.size, network.shape.size),)
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
            dynamic_axes=dict.fromkeys([*names, output], axes),
        )
        model = onnx.load(path)
    onnx.checker.check_model(model)
    return model


def export(network: Exported, path: str | Path, *, int8: bool = True) -> int:
    """Write ``network`` to ``path`` and return the file's size in bytes."""
    model = to_onnx(network)
    if int8:
        store_as_int8(model)
    content: bytes = model.SerializeToString()
    Path(path).write_bytes(content)
    return len(content)
