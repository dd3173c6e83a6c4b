"""From a training state to the ONNX file that mien runs."""

from __future__ import annotations

from pathlib import Path

import torch

from mien.errors import TrainingError
from mien.nets.export import export
from mien.nets.swapper import Swapper
from mien.train.recipe import from_table
from mien.train.state import averaged


def restored(folder: Path) -> Swapper:
    """Return the averaged network of the training state in ``folder``, for use."""
    weights, notes = averaged(folder)
    try:
        swapper = Swapper(from_table(notes["recipe"]).swapper)
        swapper.load_state_dict(weights)
    except (RuntimeError, KeyError, ValueError, TypeError) as error:
        advice = "Was it made by another version of mien?"
        raise TrainingError(folder, "its network is not that of its recipe", advice) from error
    return swapper.eval().requires_grad_(False)


def deliver(folder: Path, out: Path, *, int8: bool = True) -> tuple[int, float]:
    """Write the averaged network of a state to ``out``.

    Returns the file's size in bytes and how far, at most, its output lies from the network's own
    for noise: up to 1e-3 is expected with float weights, more with int8.
    """
    import onnxruntime as ort

    swapper = restored(folder)
    size = export(swapper, out, int8=int8)
    shape = swapper.shape
    random = torch.Generator().manual_seed(0)
    target = torch.rand(1, 3, shape.size, shape.size, generator=random) * 2 - 1
    source = torch.nn.functional.normalize(torch.randn(1, shape.space, generator=random), dim=1)
    session = ort.InferenceSession(str(out), providers=["CPUExecutionProvider"])
    made = session.run(None, {"target": target.numpy(), "source": source.numpy()})[0]
    with torch.no_grad():
        wanted = swapper(target, source).numpy()
    return size, float(abs(made - wanted).max())
