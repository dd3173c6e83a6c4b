"""No black faces: what a network returns is looked at before anybody sees it.

Drivers and half precision are known to return NaN, zeros or one flat colour without an error. What
fails is run once more in the engine's safe mode, and so is what a GPU has no memory for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from mien.engines.protocol import Engine
from mien.errors import BadOutput, EngineError, OutOfMemory

log = logging.getLogger(__name__)

Check = Callable[[Tensor], list[str | None]]
"""Looks at the rows of an output and says of each what is wrong with it, or None."""


def run_finite(engine: Engine, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Run a batch and return all outputs, on the CPU, every value of which is finite.

    It is for outputs that somebody looks at number by number. Raises BadOutput when the safe mode,
    too, returns values that are not.
    """
    outputs = _on_cpu(_outputs(engine, inputs))
    if not _finite(outputs):
        log.warning(
            "%s on %s returned values that are not finite; trying the safe mode.",
            *(engine.model, engine.provider),
        )
        outputs = _on_cpu(_outputs(engine.safer(), inputs))
        if not _finite(outputs):
            reason = "values that are not finite"
            raise BadOutput(model=engine.model, provider=engine.provider, reason=reason)
    return outputs


def run_guarded(
    engine: Engine, inputs: Mapping[str, Tensor], *, output: str, check: Check
) -> tuple[Tensor | None, tuple[str | None, ...]]:
    """Run a batch and return ``output`` and, for each row, what is wrong with it or None.

    Rows that fail ``check`` are run once more by ``engine.safer()``. A row that fails again is
    returned as zeros with its fault, for the caller to leave out; if all do, there is no output.
    """
    size = len(next(iter(inputs.values())))
    value, faults = _checked(engine, inputs, output, size, check)
    bad = [i for i, fault in enumerate(faults) if fault]
    if not bad:
        return value, tuple(faults)
    log.warning(
        "%s on %s returned %s; trying the safe mode.",
        *(engine.model, engine.provider, "; ".join(sorted({faults[i] or "" for i in bad}))),
    )
    rows = _rows(value, size)
    again = {name: value[bad] for name, value in inputs.items()}
    second, second_faults = _checked(engine.safer(), again, output, len(bad), check)
    for i, row, fault in zip(bad, _rows(second, len(bad)), second_faults, strict=True):
        rows[i], faults[i] = row, fault
    good = next((row for row, fault in zip(rows, faults, strict=True) if not fault), None)
    if good is None:
        return None, tuple(faults)
    kept = [
        torch.zeros_like(good) if fault else row for row, fault in zip(rows, faults, strict=True)
    ]
    return torch.stack(kept), tuple(faults)


def numbers_faults(rows: Tensor, shape: tuple[int, ...]) -> list[str | None]:
    """Say of each of ``rows`` why it is not an array of ``shape`` with finite values, or None."""
    if tuple(rows.shape[1:]) != shape:
        return [f"shape {tuple(rows.shape[1:])} instead of {shape}"] * len(rows)
    # one value that is not finite makes a sum so, and sums are made in one pass; they may overflow
    sums = torch.isfinite(rows.flatten(1).sum(dim=1)).tolist()
    return [
        None if finite or bool(torch.isfinite(row).all()) else "values that are not finite"
        for row, finite in zip(rows, sums, strict=True)
    ]


def _checked(
    engine: Engine, inputs: Mapping[str, Tensor], output: str, size: int, check: Check
) -> tuple[Tensor, list[str | None]]:
    value = _outputs(engine, inputs).get(output)
    if value is None:
        raise EngineError(f"{engine.model!r} has no output {output!r}.", model=engine.model)
    if value.ndim == 0 or len(value) != size:
        return value, [f"shape {tuple(value.shape)} for a batch of {size}"] * size
    return value, check(value)


def _rows(value: Tensor, size: int) -> list[Tensor]:
    """Return the rows of a batch; of what is none, as many times the whole of it."""
    return list(value) if value.ndim and len(value) == size else [value] * size


def _outputs(engine: Engine, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Run a batch, in the safe mode if there is no memory for a row of it."""
    try:
        return engine(inputs)
    except OutOfMemory as error:
        log.warning("%s Trying the safe mode.", error)
    return engine.safer()(inputs)


def _on_cpu(outputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.cpu() for name, value in outputs.items()}


def _finite(outputs: Mapping[str, Tensor]) -> bool:
    return all(map(_finite_sum, outputs.values()))


def _finite_sum(value: Tensor) -> bool:
    # one value that is not finite makes the sum so, and a sum is made in one pass
    return bool(torch.isfinite(value.sum()))
