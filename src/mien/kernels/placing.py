"""Kernels start where their first argument lies, and not on whichever GPU is the current one."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import torch
from torch import Tensor

P = ParamSpec("P")
R = TypeVar("R")


def placed(function: Callable[Concatenate[Tensor, P], R]) -> Callable[Concatenate[Tensor, P], R]:
    """Return ``function``, which starts kernels of Triton's, such that the GPU is the right one."""

    @wraps(function)
    def run(first: Tensor, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with torch.cuda.device_of(first):
            return function(first, *args, **kwargs)

    return run
