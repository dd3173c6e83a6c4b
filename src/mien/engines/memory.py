"""The memory of a GPU: what may be taken of it, and what was."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import torch

from mien.budget import Budget
from mien.engines.choose import AUTO, shared
from mien.engines.devices import missing
from mien.engines.protocol import Engine
from mien.engines.pytorch import TorchEngine
from mien.errors import InvalidOption


def limit_memory(provider: str, gpu_memory: str | None) -> int | None:
    """Keep PyTorch to ``gpu_memory`` of the GPU of ``provider``; return it in bytes.

    PyTorch's limit is the process's, for each GPU one, and the last one holds. ONNX Runtime's is a
    network's own, and its runner must be given the bytes. None if nothing is said, or the GPU is
    not there: that is told when a network is opened. Raises InvalidOption for what cannot be, for
    more than the GPU has, and for a provider whose memory cannot be limited.
    """
    if gpu_memory is None:
        return None
    budget = Budget.read(gpu_memory)
    name, _, number = provider.partition(":")
    if name not in ("torch-cuda", "cuda", AUTO):
        raise InvalidOption(
            "gpu_memory",
            gpu_memory,
            f"None with the provider {provider!r}: leave it out, or take the provider torch-cuda, "
            "cuda or auto",
        )
    if name == AUTO and not missing("torch-cuda"):
        name, _, number = shared("torch-cuda").partition(":")
    here = missing(f"torch-cuda:{number or 0}") is None
    if name == "torch-cuda" and not here:
        return None
    device = torch.device("cuda", int(number or 0))
    total = torch.cuda.get_device_properties(device).total_memory if here else None
    wanted = budget.of(total)
    if name == "torch-cuda" and total is not None:
        torch.cuda.set_per_process_memory_fraction(wanted / total, device)
    return wanted


@dataclass(frozen=True, slots=True)
class Peak:
    """The most of a GPU's memory that PyTorch took at any time since this process began, bytes."""

    device: str
    """By PyTorch's name of it, such as 'cuda:0'."""

    name: str
    """What the GPU is called."""

    allocated: int
    """In tensors."""

    reserved: int
    """Taken from the GPU, to be used again: what others see as taken, without CUDA's own part."""

    @classmethod
    def of(cls, engines: Iterable[Engine]) -> Self | None:
        """Return the peak on the GPU on which PyTorch runs ``engines``, or None without one."""
        devices = (each.device for each in engines if isinstance(each, TorchEngine))
        device = next((device for device in devices if device.type == "cuda"), None)
        if device is None:
            return None
        return cls(
            str(device),
            torch.cuda.get_device_properties(device).name,
            torch.cuda.max_memory_allocated(device),
            torch.cuda.max_memory_reserved(device),
        )

    def report(self) -> dict[str, Any]:
        """Return it, ready for JSON."""
        return {
            "device": self.device,
            "name": self.name,
            "peak_bytes": {"allocated": self.allocated, "reserved": self.reserved},
        }
