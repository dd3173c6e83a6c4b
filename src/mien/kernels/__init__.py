"""Kernels in Triton. Each has an eager twin elsewhere: its test, and the way on a CPU."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

from torch import Tensor

from mien.kernels.fusing import fused

__all__ = ["fused", "installed", "usable"]


@cache
def installed() -> bool:
    """Return whether Triton is there; PyTorch's builds for CUDA on Linux bring it."""
    return find_spec("triton") is not None


def usable(like: Tensor) -> bool:
    """Return whether the kernels run where ``like`` lies."""
    return like.is_cuda and installed()
