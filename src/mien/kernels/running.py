"""Whether kernels of Triton's run on a GPU: it is tried, not guessed.

Triton may be there and be of no use: it needs a C compiler and Python's headers, which small
containers lack.
"""

from __future__ import annotations

import logging
from importlib.util import find_spec

import torch
from torch import Tensor

log = logging.getLogger(__name__)

_INSTALLED = find_spec("triton") is not None  # known beforehand: the compiler reads it, too

_runs: dict[int, bool] = {}
"""Whether kernels run, by the number of a GPU."""


def installed() -> bool:
    """Return whether Triton is there; PyTorch's builds for CUDA on Linux bring it."""
    return _INSTALLED


def usable(like: Tensor) -> bool:
    """Return whether the kernels run where ``like`` lies.

    Each GPU is tried once. Where they do not run the log says why, and their twins do the work.
    """
    if not like.is_cuda or not installed():
        return False
    number = like.device.index
    # the compiler only looks: whatever it compiles has run, or its first argument was asked about
    if number not in _runs and not torch.compiler.is_compiling():
        _runs[number] = _tried(like)
    return _runs.get(number, False)


def usable_in_networks(like: Tensor) -> bool:
    """Return whether the kernels for layers of networks may work on ``like``.

    They are for half precision, and have no gradients.
    """
    half = like.dtype in (torch.float16, torch.bfloat16)
    return half and not like.requires_grad and usable(like)


def _tried(like: Tensor) -> bool:
    try:
        from mien.kernels.trying import store_one

        store_one(torch.empty(1, device=like.device))  # nobody waits for it
    except Exception as error:  # noqa: BLE001 those of compilers and drivers share no base
        log.warning(
            "Pictures and networks take longer on %s: Triton's kernels do not run there. It needs "
            "a C compiler (gcc) and Python's headers. %s",
            *(like.device, error),
        )
        return False
    return True
