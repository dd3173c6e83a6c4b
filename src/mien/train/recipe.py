"""The recipe: every number of a training run in one place, read from TOML."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from mien.nets.swapper import LITE, MIEN_256, SwapperShape
from mien.train.adults import YOUNGEST, YOUNGEST_LABELLED

SHAPES = {"mien-256": MIEN_256, "mien-lite": LITE}
"""The networks of which a recipe names one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """How much each loss counts."""

    sface: float = 12.0
    """1 - cosine to the source by the embedder that conditions the network."""

    feature: float = 24.0
    """The same by a second embedder, which the network never sees: what both agree on is identity
    rather than one network's blind spots."""

    look: float = 6.0
    """The same by what an age network sees in a face."""

    reconstruction: float = 20.0
    """L1 where the right answer is known, at several scales."""

    teacher: float = 20.0
    """The same where a teacher shows what it would do."""

    colour: float = 4.0
    """L1 of the picture at a sixteenth of its side: light, skin and background of the target."""

    context: float = 4.0
    """L1 outside the face."""

    features: float = 10.0
    """Discriminator's features: the deep ones everywhere, all where the right answer is known."""

    adversarial: float = 1.0
    mesh: float = 32.0
    """Shape of eyes, brows and lips, in distances between the eyes."""

    gaze: float = 3.0
    """1 - correlation of brightness within the eyes: where the irises are."""

    irises: float = 3.0
    """L1 of the eyes' colours, coarsely: they stay the target's."""

    rims: float = 0.05
    """How much more like spectacles than the target the output looks, in a detector's logit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """What a batch is made of, and where pictures come from."""

    same: float = 0.3
    """Rows whose source shows the target's person, while there are no triplets."""

    same_late: float = 0.2
    """The same once there are."""

    triplet: float = 0.3
    """Rows whose target is a swap made by the averaged network, and whose label is the original."""

    whole: float = 0.35
    """Targets that fill their crop with real picture."""

    small: float = 0.12
    """Targets of fewer pixels than the network's; the rest are cut at the forehead or the sides."""

    pairs: float = 0.4
    """Of the rows of the same person, those drawn from people with several pictures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases:
    """When things begin and end, in fractions of the whole planned run."""

    discriminator: float = 0.06
    """The discriminators begin to learn."""

    adversarial: float = 0.08
    """The network begins to learn from them, fully after as long again."""

    triplets: float = 0.35
    decay: float = 0.5
    """The learning rate begins to fall."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A training run. ``network`` is the one size knob: it names a shape in SHAPES."""

    network: str = "mien-256"
    shape: dict[str, Any] = field(default_factory=dict)
    """Changes to that shape, for experiments."""

    batch: int = 48
    """Rows of one step on each GPU."""

    rate: float = 3e-4
    """Adam's learning rate of the network."""

    rate_discriminator: float = 3e-4
    final: float = 0.1
    """What is left of the rates at the end."""

    warm_up: int = 150
    """Steps over which rates rise from nothing, also after a resume without optimiser state."""

    betas: tuple[float, float] = (0.0, 0.99)
    clip: float = 100.0
    """Greatest norm of the network's gradient."""

    average: float = 0.999
    """Decay of the weights' moving average, per step."""

    width: int = 48
    """Channels of the discriminators' first layer."""

    youngest: float = YOUNGEST
    """Least estimated age, in years, of people to learn from."""

    youngest_labelled: float = YOUNGEST_LABELLED
    """The same where labels say that they are adults."""

    balance: float = 0.5
    """How far sources are balanced over skin tones: 0 as they come, 1 all groups alike."""

    spectacles: float = 0.01
    """How often people with spectacles are sources, beside others."""

    jitter: float = 0.5
    """Share of targets that are moved, turned and scaled."""

    jitter_size: float = 0.02
    """Greatest shift, in sides, and change of scale; turns are up to as many half-turns."""

    colour_jitter: float = 0.08
    """Greatest change of brightness, contrast and saturation."""

    view_jitter: float = 0.05
    """The same as ``jitter_size``, for what the embedders are shown of the output."""

    disturbed: float = 0.3
    """Share of what they are shown that is greyed, blurred, or covered in part; as much of each."""

    bfloat16: bool = True
    frozen_bfloat16: bool = True
    """Whether the frozen embedders run in bfloat16 too."""

    compile: str = ""
    """Mode of ``torch.compile``, such as "default"; without one nothing is compiled."""

    seed: int = 0
    weights: Weights = field(default_factory=Weights)
    shares: Shares = field(default_factory=Shares)
    phases: Phases = field(default_factory=Phases)

    @property
    def swapper(self) -> SwapperShape:
        """The shape of the network."""
        return replace(SHAPES[self.network], **self.shape)

    def table(self) -> dict[str, Any]:
        """Return the recipe as plain values, which ``from_table`` takes."""
        return asdict(self)


PARTS = {"weights": Weights, "shares": Shares, "phases": Phases}


def from_table(table: dict[str, Any]) -> Recipe:
    """Return the recipe of a table of plain values.

    Raises ValueError for a name that it has not, and for a value of another kind or range.
    """
    values = {
        name: _part(PARTS[name], value) if name in PARTS else value for name, value in table.items()
    }
    if values.get("compile") is False:
        del values["compile"]  # states of before it named a mode
    recipe: Recipe = _part(Recipe, values)
    if recipe.network not in SHAPES:
        raise ValueError(f"network {recipe.network!r} is unknown; known: {', '.join(SHAPES)}")
    _part(SwapperShape, recipe.shape)
    shares = recipe.shares
    if not recipe.batch or not recipe.width:
        raise ValueError("batch and width are 1 at least")
    if max(recipe.betas) >= 1 or max(shares.same, shares.same_late + shares.triplet) > 1:
        raise ValueError("betas are below 1, and shares of a batch are 1 together at most")
    return recipe


def read_recipe(path: str | Path | None) -> Recipe:
    """Return the recipe in the TOML file ``path``, or the default one."""
    return Recipe() if path is None else from_table(tomllib.loads(Path(path).read_text("utf-8")))


def changed(recipe: Recipe, settings: Sequence[str]) -> Recipe:
    """Return the recipe with some settings NAME=VALUE changed, values written as JSON."""
    table = recipe.table()
    for setting in settings:
        name, _, text = setting.partition("=")
        place = table
        *path, last = name.split(".")
        for part in path:
            if not isinstance(place.get(part), dict):
                raise ValueError(f"the recipe has no {name}")
            place = place[part]
        try:
            place[last] = json.loads(text)
        except json.JSONDecodeError:
            place[last] = text
    return from_table(table)


def _part(kind: Any, table: Any) -> Any:
    """Return the table as a dataclass whose fields all have defaults, which say their kinds."""
    if not isinstance(table, dict):
        raise ValueError(f"{kind.__name__} is a table of values, not {table!r}")
    unknown = set(table) - {f.name for f in fields(kind)}
    if unknown:
        raise ValueError(f"{kind.__name__} has no {', '.join(sorted(unknown))}")
    usual = kind()
    return kind(**{name: _like(name, value, getattr(usual, name)) for name, value in table.items()})


def _like(name: str, value: Any, usual: Any) -> Any:
    """Return ``value`` if it is of the kind of ``usual``; numbers are finite and not negative."""
    match usual:
        case tuple():
            if isinstance(value, list | tuple) and len(value) == len(usual):
                return tuple(_like(name, *pair) for pair in zip(value, usual, strict=True))
        case float():
            if type(value) in (int, float) and math.isfinite(value) and value >= 0:
                return float(value)
        case int() if type(usual) is int:
            if type(value) is int and value >= 0:
                return value
        case _:
            if type(value) is type(usual):
                return value
    raise ValueError(f"{name} cannot be {value!r}; usual is {usual!r}")
