"""Watermarks in files: which mark, if any, the pixels of a picture or a clip carry."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from torch import Tensor

from mien.engines import OnnxEngine
from mien.models import Catalogue, WatermarkContract
from mien.safety.watermark import Finder

WATERMARK = "mien-watermark"
"""The network that sees marks."""


def shipped(threads: int | None = None) -> Callable[[Tensor], Tensor]:
    """Return the extractor that ships, on the CPU: see ``Finder``.

    Raises WeightsMissing, WeightsCorrupt, EngineError.
    """
    card = Catalogue().card(WATERMARK, "watermark")
    contract = card.contract
    assert isinstance(contract, WatermarkContract)
    engine = OnnxEngine(WATERMARK, card.read, threads=threads)

    def extract(y: Tensor) -> Tensor:
        return engine({contract.input: y})[contract.output]

    return extract


@lru_cache(maxsize=1)
def finder() -> Finder:
    """Return what finds marks."""
    return Finder(shipped())
