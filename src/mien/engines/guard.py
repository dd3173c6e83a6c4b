"""No black faces: what a network returns is looked at before anybody sees it.

Drivers and half precision are known to return NaN, zeros or one flat colour without an error. A
batch is checked row by row; the rows that fail are run once more in the engine's safe mode.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from mien.engines.protocol import Engine
from mien.errors import EngineError

log = logging.getLogger(__name__)

Check = Callable[[Tensor], str | None]
"""Looks at one row of an output and says what is wrong with it, or None."""

FLAT = 2 / 255
"""A picture whose standard deviation is below this share of the range of its values is blank."""


def run_guarded(
    engine: Engine, inputs: Mapping[str, Tensor], *, output: str, check: Check
) -> tuple[Tensor, tuple[str | None, ...]]:
    """Run a batch and return ``output`` and, for each row, what is wrong with it or None.

    Rows that fail ``check`` are run once more by ``engine.safer()``. A row that fails again is
    returned as zeros with its fault, for the caller to leave out.
    """
    size = len(next(iter(inputs.values())))
    rows, faults = _rows(engine, inputs, output, size, check)
    bad = [i for i, fault in enumerate(faults) if fault]
    if bad:
        log.warning(
            "%s on %s returned %s; trying the safe mode.",
            *(engine.model, engine.provider, "; ".join(sorted({faults[i] or "" for i in bad}))),
        )
        again = {name: value[bad] for name, value in inputs.items()}
        second, second_faults = _rows(engine.safer(), again, output, len(bad), check)
        for i, row, fault in zip(bad, second, second_faults, strict=True):
            rows[i], faults[i] = row, fault
    good = next((row for row, fault in zip(rows, faults, strict=True) if not fault), None)
    if good is None:
        return torch.zeros(size, 0), tuple(faults)
    kept = [
        torch.zeros_like(good) if fault else row for row, fault in zip(rows, faults, strict=True)
    ]
    return torch.stack(kept), tuple(faults)


def _rows(
    engine: Engine, inputs: Mapping[str, Tensor], output: str, size: int, check: Check
) -> tuple[list[Tensor], list[str | None]]:
    value = engine(inputs).get(output)
    if value is None:
        raise EngineError(f"{engine.model!r} has no output {output!r}.", model=engine.model)
    if value.ndim == 0 or len(value) != size:
        return [value] * size, [f"shape {tuple(value.shape)} for a batch of {size}"] * size
    return list(value), [check(row) for row in value]


def image_fault(row: Tensor, *, shape: tuple[int, ...], span: float) -> str | None:
    """Say why ``row`` cannot be a picture of ``shape`` with values ``span`` apart, or None."""
    if tuple(row.shape) != shape:
        return f"shape {tuple(row.shape)} instead of {shape}"
    if not bool(torch.isfinite(row).all()):
        return "values that are not finite"
    if float(row.std()) < FLAT * span:
        return "one flat colour"
    return None


def vector_fault(row: Tensor, *, shape: tuple[int, ...]) -> str | None:
    """Say why ``row`` cannot be a vector of ``shape`` with a direction, or None."""
    if tuple(row.shape) != shape:
        return f"shape {tuple(row.shape)} instead of {shape}"
    if not bool(torch.isfinite(row).all()):
        return "values that are not finite"
    if not bool(row.any()):
        return "nothing but zeros"
    return None
