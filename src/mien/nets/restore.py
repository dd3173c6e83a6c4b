"""A swapper from the ONNX file it was delivered as, to train on or to learn from."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from mien.errors import TrainingError
from mien.nets.swapper import Swapper, SwapperShape

ADVICE = "Give a file that 'mien train export' wrote, of the network that the recipe names."


def restored(path: str | Path, shape: SwapperShape) -> Swapper:
    """Return the network of ``shape`` that ``mien.nets.export`` wrote to ``path``.

    It is in evaluation mode, whether weights were stored as int8 or not. Raises TrainingError if
    the file cannot be read, or its weights are not those of the shape.
    """
    path = Path(path)
    try:
        weights = _joined(_stored(path))
    except Exception as error:  # what onnx raises on damaged files shares no base
        raise TrainingError(path, f"it is no ONNX file ({type(error).__name__})", ADVICE) from error
    swapper = Swapper(shape)
    missing = swapper.state_dict().keys() - weights.keys()
    if missing:
        said = f"it lacks weights of the recipe's network, such as {min(missing)}"
        raise TrainingError(path, said, ADVICE)
    try:
        swapper.load_state_dict({name: weights[name] for name in swapper.state_dict()})
    except RuntimeError as error:
        raise TrainingError(path, "its network is of another shape", ADVICE) from error
    return swapper.eval().requires_grad_(False)


def _stored(path: Path) -> dict[str, Tensor]:
    import onnx
    from onnx import numpy_helper

    tensors = onnx.load(path).graph.initializer
    return {t.name: torch.from_numpy(numpy_helper.to_array(t).copy()) for t in tensors}


def _joined(stored: dict[str, Tensor]) -> dict[str, Tensor]:
    """Multiply what is stored as int8 by its scales."""
    weights = {}
    for name, value in stored.items():
        plain = name.removesuffix("_int8")
        weights[plain] = value.float() if plain == name else value * stored[f"{plain}_scale"]
    return weights
