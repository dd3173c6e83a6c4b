"""Out of memory is no end: a batch that does not fit is run in parts that do."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from mien.engines.capturing import CAPTURING
from mien.errors import OutOfMemory

log = logging.getLogger(__name__)

Run = Callable[[Mapping[str, Tensor]], dict[str, Tensor]]

SAID = (
    "out of memory",  # CUDA
    "failed to allocate memory",  # ONNX Runtime's arena
    "is smaller than requested bytes",  # and with a limit
    "alloc_failed",  # cuDNN, cuBLAS
    "unable to find an engine",  # PyTorch, where no convolution of cuDNN's has the memory it needs
)
"""Parts of messages that mean it, in small letters."""


class Halving:
    """Runs the batches of one network, halved as often as they do not fit into memory.

    What fitted is remembered, so that only the first batch fails before it runs. May be called from
    several threads at once.
    """

    def __init__(self, model: str, provider: str) -> None:
        self._model, self._provider = model, provider
        self._most: int | None = None
        self._told = False
        self.failed = False
        """Whether, at some time, a single row did not fit."""

    def __call__(self, run: Run, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return what ``run`` returns for ``inputs``, joined if it had to be run in parts.

        All tensors are batch first. Raises OutOfMemory if a single row does not fit, or inputs that
        differ in their number of rows, and whatever else ``run`` raises.
        """
        first = next(iter(inputs.values()))
        size = rows = len(first)
        values = first.numel() // max(1, size)
        alike = all(value.shape[:1] == first.shape[:1] for value in inputs.values())
        if alike and self._most is not None:
            # in values, not rows: those of a detector may be of another size each time
            rows = min(size, max(1, self._most // max(1, values)))
        parts: list[dict[str, Tensor]] = []
        start, halved = 0, False
        while not parts or start < size:
            whole = rows >= size
            part = inputs if whole else {k: v[start : start + rows] for k, v in inputs.items()}
            try:
                parts.append(run(part))
            except Exception as error:
                if not no_memory(error):
                    raise
                # the frames that a traceback holds would keep what they have allocated
                fault = error.with_traceback(None)
            else:
                start += rows
                if halved:
                    self._remember(rows, values, size)
                continue
            with CAPTURING:
                torch.cuda.empty_cache()
            if rows <= 1 or not alike:
                self.failed = True
                raise OutOfMemory(
                    model=self._model, provider=self._provider, reason=str(fault)
                ) from fault
            rows, halved = rows // 2, True
        if len(parts) == 1:
            return parts[0]
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}

    def _remember(self, rows: int, values: int, size: int) -> None:
        self._most = rows * values
        if not self._told:
            self._told = True
            log.warning(
                "%s on %s has no memory for %d rows at once; %d are run at a time from now on.",
                *(self._model, self._provider, size, rows),
            )


def no_memory(error: Exception) -> bool:
    """Return whether an error of PyTorch's or of ONNX Runtime's says that memory ran out."""
    if isinstance(error, torch.OutOfMemoryError):
        return True
    # neither has a class of its own for it: ONNX Runtime's, and those of CUDA's libraries
    said = str(error).lower()
    return any(text in said for text in SAID)
