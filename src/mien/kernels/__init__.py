"""Kernels in Triton. Each has an eager twin elsewhere: its test, and the way on a CPU."""

from __future__ import annotations

from torch import Tensor

from mien.kernels.fusing import fused, installed

__all__ = ["fused", "installed", "usable"]


def usable(like: Tensor) -> bool:
    """Return whether the kernels run where ``like`` lies."""
    return like.is_cuda and installed()
