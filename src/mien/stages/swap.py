"""The swap: an aligned face receives another identity."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from mien.engines import Engine, numbers_faults, run_guarded
from mien.errors import SpaceMismatch, TemplateMismatch
from mien.models import SwapperContract
from mien.types import Crops

FLAT = 2 / 255
"""A picture is blank if no channel's standard deviation reaches this; faces have ten times more."""


class FaceSwap:
    """Runs a swap network on aligned crops."""

    def __init__(self, engine: Engine, contract: SwapperContract) -> None:
        self.engine, self.contract = engine, contract

    def __call__(
        self, crops: Crops, embeddings: Tensor, space: str
    ) -> tuple[Crops, tuple[str | None, ...]]:
        """Return swapped crops and, for each, what is wrong with it or None.

        ``embeddings`` is (K, D), unit, made by the network called ``space``. A crop with a fault is
        black and must not be used. Raises TemplateMismatch or SpaceMismatch when crops or
        embeddings were made for another network.
        """
        contract = self.contract
        if crops.template != contract.template:
            raise TemplateMismatch(expected=contract.template, found=crops.template)
        if space != contract.space:
            raise SpaceMismatch(expected=contract.space, found=space)
        pixels = contract.pixels.encode(crops.pixels)
        raw, faults = run_guarded(
            self.engine,
            {contract.target: pixels, contract.source: embeddings},
            output=contract.output,
            check=partial(self._faults, shape=tuple(pixels.shape[1:])),
        )
        if raw is None:
            return Crops(torch.zeros_like(crops.pixels), crops.matrices, crops.template), faults
        swapped = contract.pixels.decode(raw).clamp_(0, 1)
        for i, fault in enumerate(faults):
            if fault:
                swapped[i] = 0
        return Crops(swapped, crops.matrices, crops.template), faults

    def _faults(self, rows: Tensor, shape: tuple[int, ...]) -> list[str | None]:
        """Say of each of ``rows`` why it cannot be a picture of ``shape``, or None."""
        faults = numbers_faults(rows, shape)
        if all(faults):
            return faults
        # what counts is the picture that would be shown: values beyond its range are one colour
        shown = self.contract.pixels.decode(rows).clamp(0, 1).flatten(2)
        # on a CPU Tensor.std takes ten times as long
        spread = (shown - shown.mean(dim=2, keepdim=True)).square().mean(dim=2).amax(dim=1)
        flat = (spread < FLAT**2).tolist()
        return [
            fault or ("one flat colour" if blank else None)
            for fault, blank in zip(faults, flat, strict=True)
        ]
