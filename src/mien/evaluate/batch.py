"""Pairs in work, and what was measured of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from mien.evaluate.people import Portrait
from mien.evaluate.pixels import Scenes, scenes
from mien.evaluate.protocol import Pair
from mien.evaluate.reading import Reading


@dataclass
class Tally:
    """What was measured of one variant, pair by pair."""

    values: dict[str, list[Tensor]] = field(default_factory=dict)
    embeddings: dict[str, list[Tensor]] = field(default_factory=dict)
    people: list[tuple[str, str]] = field(default_factory=list)
    """The two people of each pair."""

    def add(
        self, scores: Mapping[str, Tensor], now: Reading, people: Sequence[tuple[str, str]]
    ) -> None:
        """Add what was measured of some pairs, and who is in them."""
        for key, value in scores.items():
            self.values.setdefault(key, []).append(value)
        for name, value in now.embeddings.items():
            self.embeddings.setdefault(name, []).append(value)
        self.people += people

    def table(self) -> dict[str, Tensor]:
        """Return the values of all pairs, (N,) by measure."""
        return {key: torch.cat(parts) for key, parts in self.values.items()}


@dataclass
class Batch:
    """Some pairs, as they were and as they are."""

    pairs: list[Pair]
    sources: list[Portrait]
    targets: list[Portrait]
    before: list[Tensor]
    after: list[Tensor]

    def scene(self) -> Scenes:
        """Return the targets' faces as they were, cut out."""
        meshes = [one.faces.mesh for one in self.targets]
        outline = torch.cat([mesh for mesh in meshes if mesh is not None])
        points = torch.cat([one.faces.points for one in self.targets])
        return scenes(self.before, points, outline)
