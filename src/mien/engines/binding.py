"""Networks on tensors where they are: ONNX Runtime reads and writes the memory of a GPU itself."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import onnxruntime as ort
import torch
from torch import Tensor

KINDS: Mapping[str, tuple[torch.dtype, Any]] = MappingProxyType(
    {
        "tensor(float)": (torch.float32, np.float32),
        "tensor(float16)": (torch.float16, np.float16),
        "tensor(double)": (torch.float64, np.float64),
        "tensor(int64)": (torch.int64, np.int64),
        "tensor(int32)": (torch.int32, np.int32),
        "tensor(uint8)": (torch.uint8, np.uint8),
        "tensor(bool)": (torch.bool, np.bool_),
    }
)
"""By ONNX Runtime's name of a type: PyTorch's and NumPy's."""

MOST_LEARNT = 256

Shape = tuple[int, ...]


class Bound:
    """A session that runs on tensors of one device, without a copy.

    The outputs' memory is PyTorch's. Their shapes are learnt, for each new shape of the inputs, by
    running once with memory of ONNX Runtime's; they must not depend on the values.
    """

    def __init__(self, session: ort.InferenceSession, device: torch.device) -> None:
        self._session, self.device = session, device
        self._inputs = {port.name: port.type for port in session.get_inputs()}
        self._outputs = {port.name: port.type for port in session.get_outputs()}
        unknown = {*self._inputs.values(), *self._outputs.values()} - KINDS.keys()
        if unknown:
            raise TypeError(f"values of the type {', '.join(sorted(unknown))} cannot be bound")
        self._learnt: dict[tuple[Shape, ...], list[Shape]] = {}
        self._lock = threading.Lock()

    def __call__(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Run a batch; the outputs are on the device of the session."""
        if wrong := inputs.keys() ^ self._inputs.keys():
            raise ValueError(f"inputs are missing or not known: {', '.join(sorted(wrong))}")
        held = {
            name: value.detach().to(self.device, KINDS[self._inputs[name]][0]).contiguous()
            for name, value in inputs.items()
        }
        key = tuple(tuple(held[name].shape) for name in self._inputs)
        shapes = self._learnt.get(key) or self._learn(key, held)
        outputs = {
            name: torch.empty(shape, dtype=KINDS[kind][0], device=self.device)
            for (name, kind), shape in zip(self._outputs.items(), shapes, strict=True)
        }
        binding = self._bound(held)
        for name, value in outputs.items():
            binding.bind_output(name, *self._memory(value, self._outputs[name]))
        self._run(binding)
        return outputs

    def _learn(self, key: tuple[Shape, ...], held: Mapping[str, Tensor]) -> list[Shape]:
        binding = self._bound(held)
        for name in self._outputs:
            binding.bind_output(name, self.device.type, self.device.index or 0)
        self._run(binding)
        shapes = [tuple(value.shape()) for value in binding.get_outputs()]
        with self._lock:
            if len(self._learnt) >= MOST_LEARNT:
                self._learnt.clear()
            self._learnt[key] = shapes
        return shapes

    def _bound(self, held: Mapping[str, Tensor]) -> ort.IOBinding:
        binding = self._session.io_binding()
        for name, value in held.items():
            binding.bind_input(name, *self._memory(value, self._inputs[name]))
        return binding

    def _memory(self, value: Tensor, kind: str) -> tuple[str, int, Any, Shape, int]:
        number = self.device.index or 0
        return self.device.type, number, KINDS[kind][1], tuple(value.shape), value.data_ptr()

    def _run(self, binding: ort.IOBinding) -> None:
        if self.device.type == "cuda":
            # ONNX Runtime has a stream of its own. What PyTorch was told to do before must be done:
            # it makes the inputs, and may still use memory that the outputs were given.
            torch.cuda.current_stream(self.device).synchronize()
        self._session.run_with_iobinding(binding)  # returns when its own stream is done
