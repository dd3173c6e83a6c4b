"""Opening a network on whatever the option ``provider`` says."""

from __future__ import annotations

import logging
from collections.abc import Callable

from mien.engines.devices import TORCH_PROVIDERS, is_torch
from mien.engines.onnx import PROVIDERS, OnnxEngine
from mien.engines.protocol import Engine
from mien.engines.pytorch import TorchEngine, Trial
from mien.errors import EngineUnavailable, InvalidOption

log = logging.getLogger(__name__)


def open_engine(
    model: str,
    read: Callable[[], bytes],
    *,
    provider: str = "cpu",
    threads: int | None = None,
    allow_fallback: bool = False,
    trial: Trial | None = None,
) -> Engine:
    """Return a network, opened by ONNX Runtime or by PyTorch; see OnnxEngine and TorchEngine.

    ``provider`` is one of PROVIDERS or TORCH_PROVIDERS, or torch-cuda:NUMBER. Where it cannot run,
    EngineUnavailable says why, unless ``allow_fallback``: then ONNX Runtime runs the network on the
    CPU, and a warning is logged. Raises InvalidOption and EngineError too.
    """
    if is_torch(provider):
        try:
            return TorchEngine(model, read, provider=provider, trial=trial, threads=threads)
        except EngineUnavailable as refusal:
            if not allow_fallback:
                raise
            log.warning("%s The CPU runs it instead, as allowed.", refusal)
            provider = "cpu"
    if provider not in PROVIDERS:
        raise InvalidOption("provider", provider, [*PROVIDERS, *TORCH_PROVIDERS])
    return OnnxEngine(
        model, read, provider=provider, threads=threads, allow_fallback=allow_fallback
    )
