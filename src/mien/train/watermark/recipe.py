"""The numbers of a run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from mien.nets.watermark import WatermarkShape


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A training run; the first seven are of the networks, see ``WatermarkShape``."""

    size: int = 256
    bits: int = 127
    width: int = 96
    depth: int = 5
    widths: tuple[int, int, int, int, int] = (32, 64, 128, 192, 256)
    floor: float = 42.5
    """PSNR in dB at the end; PSNR never is below it."""

    gain: float = 2.0
    side: int = 384
    """Side of the pictures that are marked and damaged; a multiple of 32."""

    stored: int = 256
    """Side at which pictures are kept."""

    batch: int = 64
    """Pictures of a step; a multiple of 8."""

    rate: float = 1e-3
    warm_up: int = 200
    decay: float = 1e-4
    """Weight decay (AdamW, Loshchilov & Hutter 2019)."""

    clip: float = 1.0
    """Greatest norm of the gradient."""

    memory: float = 0.998
    """How much of the averaged networks stays at each step."""

    loud_floor: float = 30.0
    """PSNR in dB at the beginning, when bits are to be learnt first."""

    loud_gain: float = 6.0
    """By how much bounds are multiplied at the beginning."""

    easy: float = 0.93
    """Share of right bits at which the task becomes harder."""

    pace: int = 1000
    """Steps that each half of the task, damage and quiet, takes at least to become hardest."""

    forced: tuple[float, float] = (0.15, 0.7)
    """Progress from which the task becomes harder in any case, and at which it is hardest."""

    picture: float = 0.05
    """Weight of the picture's loss once marks are quiet."""

    coarse: float = 1.0
    """How much the means of 4 x 4 pixels count in it beside single pixels."""

    presence: float = 0.2
    """Weight of the loss of whether there is a mark."""

    compile: bool = False
    seed: int = 0

    @property
    def shape(self) -> WatermarkShape:
        """The shape of the networks, at the end of the run."""
        return WatermarkShape(
            size=self.size,
            bits=self.bits,
            width=self.width,
            depth=self.depth,
            widths=self.widths,
            gain=self.gain,
            floor=self.floor,
        )

    def __post_init__(self) -> None:
        if self.side % 32 or self.batch % 8 or not self.batch:
            raise ValueError("side must be a multiple of 32, and batch one of 8")


def changed(recipe: Recipe, settings: Sequence[str]) -> Recipe:
    """Return the recipe with settings NAME=VALUE changed, values written as JSON.

    Raises ValueError for a name it has not and for a value of another kind.
    """
    usual = {field.name: getattr(recipe, field.name) for field in fields(recipe)}
    new: dict[str, Any] = {}
    for setting in settings:
        name, _, text = setting.partition("=")
        if name not in usual:
            raise ValueError(f"the recipe has no {name}")
        try:
            value = json.loads(text)
        except json.JSONDecodeError:
            value = text
        kind = type(usual[name])
        if kind is float and type(value) is int:
            value = float(value)
        if kind is tuple and isinstance(value, list) and len(value) == len(usual[name]):
            value = tuple(type(a)(b) for a, b in zip(usual[name], value, strict=True))
        if type(value) is not kind:
            raise ValueError(f"{name} cannot be {text!r}; usual is {usual[name]!r}")
        new[name] = value
    return replace(recipe, **new)
