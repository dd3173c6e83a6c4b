"""The swap: an aligned face receives another identity."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from mien.engines import Engine, image_fault, run_guarded
from mien.errors import SpaceMismatch, TemplateMismatch
from mien.models import SwapperContract
from mien.types import Crops


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
        check = partial(
            image_fault,
            shape=tuple(pixels.shape[1:]),
            span=contract.pixels.high - contract.pixels.low,
        )
        raw, faults = run_guarded(
            self.engine,
            {contract.target: pixels, contract.source: embeddings},
            output=contract.output,
            check=check,
        )
        if all(faults):
            return crops, faults
        swapped = contract.pixels.decode(raw).clamp(0, 1)
        return Crops(swapped, crops.matrices, crops.template), faults
