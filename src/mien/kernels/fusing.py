"""Many small steps as few kernels, by PyTorch's compiler.

A GPU takes two microseconds to start on the smallest piece of work. What lies between the networks
of a frame is hundreds of such pieces, and the compiler makes one of ten.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

from mien.kernels.running import usable

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

MOST = 256
"""Shapes and networks for which one piece of code is compiled."""


def fused(function: Callable[P, R]) -> Callable[P, R]:
    """Return ``function`` as it is, compiled where its first argument lies on a GPU.

    ``function`` takes a tensor first and waits for nothing. It is compiled anew for each shape,
    which takes seconds, and is kept on disk by PyTorch. Where the compiler fails, the function
    itself runs, and the log says so.
    """
    compiled: Callable[P, R] | None = None
    failed = False

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        nonlocal compiled, failed
        first = args[0]
        if failed or not (isinstance(first, torch.Tensor) and usable(first)):
            return function(*args, **kwargs)
        if compiled is None:  # a compiled module has no truth value
            compiled = torch.compile(function, dynamic=False)
        try:
            with _limits():
                return compiled(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 the compiler's errors share no base
            failed = True
            name = getattr(function, "__qualname__", type(function).__name__)
            log.warning("%s runs as it is, which is slower. It does not compile: %s", name, error)
            return function(*args, **kwargs)

    return run


@contextmanager
def _limits() -> Iterator[None]:
    """Let the code that all networks share be compiled for each of them, and quietly."""
    import torch._dynamo

    most = torch._dynamo.config.patch(recompile_limit=MOST, accumulated_recompile_limit=4 * MOST)
    with most, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of settings that are as we want them
        yield
