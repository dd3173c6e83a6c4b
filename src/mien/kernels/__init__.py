"""Kernels in Triton. Each has an eager twin elsewhere: its test, and the way on a CPU."""

from __future__ import annotations

import torch
from torch import Tensor

from mien.kernels.fusing import fused, installed

__all__ = ["fused", "installed", "usable", "usable_in_networks"]


def usable(like: Tensor) -> bool:
    """Return whether the kernels run where ``like`` lies."""
    return like.is_cuda and installed()


def usable_in_networks(like: Tensor) -> bool:
    """Return whether the kernels for layers of networks may work on ``like``.

    They are for half precision, and have no gradients.
    """
    half = like.dtype in (torch.float16, torch.bfloat16)
    return half and not like.requires_grad and usable(like)
