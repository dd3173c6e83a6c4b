"""How old people look, by an age network that the user gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from mien.engines import Engine
from mien.errors import InvalidOption
from mien.evaluate.cards import bare
from mien.evaluate.pixels import cut_each
from mien.geometry import fit_similarity, template
from mien.models import PixelFormat

PIXELS = PixelFormat(high=255.0, layout="NHWC")

SIZE, REACH = 224, 2.4
"""Side of the network's crop, and its half in distances between the eyes."""

YEARS = 100
"""The network says how likely each number of years is, from 0."""


@dataclass(frozen=True, slots=True)
class AgeJudge:
    """Estimates ages; the network's output is a distribution over years."""

    engine: Engine

    @classmethod
    def read(cls, path: Path, *, threads: int | None = None) -> AgeJudge:
        """Return the judge in an ONNX file. Raises InvalidOption if it is no age network."""
        engine, _ = bare(path, "age", threads)
        takes = [port.shape[1:] for port in engine.inputs]
        gives = [port.shape[1:] for port in engine.outputs]
        if takes != [(SIZE, SIZE, 3)] or (YEARS,) not in gives:
            allowed = f"a network from pictures ({SIZE}, {SIZE}, 3) to {YEARS} chances"
            raise InvalidOption("age", str(path), allowed)
        return cls(engine)

    def __call__(self, frames: Sequence[Tensor], points: Tensor) -> Tensor:
        """Return ages in years (K,) of faces with five ``points`` (K, 5, 2), one in each frame."""
        # turned upright: of a face on its side or head the network says 35 years, whoever it is
        crops = cut_each(frames, fit_similarity(points, _upright()), SIZE)
        (name,) = (port.name for port in self.engine.inputs)
        outputs = self.engine({name: PIXELS.encode(crops)}).values()
        chances = next(one for one in outputs if one.shape[1:] == (YEARS,))
        return (chances * torch.arange(float(YEARS))).sum(dim=1) / chances.sum(dim=1)


def _upright() -> Tensor:
    """Return where the crop has the five points of an upright face."""
    points = template("arcface_128").at(SIZE)
    enlarged = SIZE / (2 * REACH) / float((points[1] - points[0]).norm())
    return (points - points.mean(dim=0)) * enlarged + (SIZE - 1) / 2
