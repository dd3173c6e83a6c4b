"""The numbers of a run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from mien.nets.watermark import ExtractorShape


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A training run."""

    width: int = 64
    reach: tuple[int, ...] = (1, 2, 4, 1, 2, 4, 1)
    """Both are the network's, see ``ExtractorShape``."""

    side: int = 384
    """Side of the pictures that are marked and damaged; a multiple of 32."""

    stored: int = 256
    """Side at which pictures are kept."""

    batch: int = 64
    """Pictures of a step; a multiple of 8."""

    rate: float = 6e-4
    warm_up: int = 200
    decay: float = 1e-4
    """Weight decay (AdamW, Loshchilov & Hutter 2019)."""

    clip: float = 0.5
    """Greatest norm of the gradient."""

    memory: float = 0.998
    """How much of the averaged network stays at each step."""

    loud: float = 4.0
    """By how much marks are louder at the beginning, when it is to be learnt what they are."""

    quiet: float = 0.25
    """Progress at which they are as they will be."""

    compile: bool = False
    seed: int = 0

    @property
    def shape(self) -> ExtractorShape:
        """The shape of the network."""
        return ExtractorShape(width=self.width, reach=self.reach)

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
        if kind is tuple and isinstance(value, list) and all(type(each) is int for each in value):
            value = tuple(value)
        if type(value) is not kind:
            raise ValueError(f"{name} cannot be {text!r}; usual is {usual[name]!r}")
        new[name] = value
    return replace(recipe, **new)
