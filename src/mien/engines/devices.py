"""PyTorch's devices by the names that the option ``provider`` uses for them."""

from __future__ import annotations

import re

import torch

from mien.errors import InvalidOption

TORCH_PROVIDERS = ("torch-cuda", "torch-cpu")
"""Our names of what PyTorch runs networks on; torch-cuda:1 is a certain GPU."""


def is_torch(provider: str) -> bool:
    """Return whether ``provider`` is PyTorch's to run; raises InvalidOption for torch-tpu, say."""
    if not str(provider).startswith("torch"):
        return False
    if not re.fullmatch(r"torch-cpu|torch-cuda(:\d{1,3})?", provider):
        raise InvalidOption("provider", provider, [*TORCH_PROVIDERS, "torch-cuda:NUMBER"])
    return True


def settled(provider: str) -> str:
    """Return ``provider`` with the number of a GPU, if that is what it means and there is one.

    Without a number the GPU with the most free memory is taken. Networks that work together must
    share one, so this is asked once for all of them.
    """
    if provider != "torch-cuda" or missing(provider):
        return provider
    count = torch.cuda.device_count()
    if count == 1:  # asking how much is free would take some of it
        return f"{provider}:0"
    return f"{provider}:{max(range(count), key=lambda gpu: torch.cuda.mem_get_info(gpu)[0])}"


def device_of(provider: str) -> torch.device:
    """Return the device that a provider of PyTorch's means; see ``settled``."""
    return torch.device(settled(provider).removeprefix("torch-"))


def missing(provider: str) -> str | None:
    """Say why PyTorch cannot run networks on ``provider`` here, or None if it can."""
    name, _, number = provider.partition(":")
    if name == "torch-cpu":
        return None
    if torch.version.cuda is None and torch.version.hip is None:
        return f"the installed PyTorch {torch.__version__} was built without CUDA."
    if not torch.cuda.is_available():
        return f"PyTorch {torch.__version__} sees no GPU: none is here, or its driver is too old."
    if number and int(number) >= torch.cuda.device_count():
        return (
            f"there is no GPU of that number; PyTorch counts {torch.cuda.device_count()}, from 0."
        )
    return None
