"""Learning: the loss, the averaged network, and the loop."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from mien.nets.occlusion import OcclusionNet, OcclusionShape
from mien.train.occlusion.bases import Bases
from mien.train.occlusion.canvas import Dice
from mien.train.occlusion.scene import Batch, chosen_kinds, scene
from mien.train.schedule import Visit


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The numbers of a run."""

    batch: int = 192
    rate: float = 2e-3
    warm_up: int = 100
    """Steps over which the rate rises."""

    decay: float = 1e-4
    """Weight decay (AdamW, Loshchilov & Hutter 2019)."""

    overlap: float = 0.5
    """Weight of the loss of overlap."""

    memory: float = 0.997
    """How much of the averaged network stays at each step."""

    ask: tuple[float, ...] = (0.35, 0.6, 0.8)
    """Progress at which the network is asked what it takes for hidden on the bare pictures."""

    seed: int = 0


def loss(logits: Tensor, batch: Batch, overlap: float) -> Tensor:
    """Return cross entropy plus ``overlap`` times one minus the soft overlap of what is hidden.

    The overlap (intersection over union, Rahman & Wang 2016) is that within faces, of the whole
    batch: of pictures with little hidden it would be mere noise.
    """
    logits, weight = logits.float(), batch.weight
    entropy = functional.binary_cross_entropy_with_logits(logits, batch.visible, reduction="none")
    entropy = (entropy * weight).sum() / weight.sum().clamp_min(1.0)
    inside = weight * batch.face
    found, true = torch.sigmoid(-logits), 1 - batch.visible
    both = (inside * found * true).sum()
    either = (inside * (found + true - found * true)).sum()
    return entropy + overlap * (1 - both / either.clamp_min(1.0))


class Learner:
    """A network on its way, and its average."""

    def __init__(self, shape: OcclusionShape, recipe: Recipe, device: torch.device) -> None:
        torch.manual_seed(recipe.seed)
        self.recipe, self.device = recipe, device
        network: Any = OcclusionNet(shape).to(device)
        self.network: OcclusionNet = network.to(memory_format=torch.channels_last)
        self.average = copy.deepcopy(self.network).eval().requires_grad_(False)
        self.optimiser = torch.optim.AdamW(
            self.network.parameters(), lr=recipe.rate, weight_decay=recipe.decay
        )
        self.size, self.step = shape.size, 0
        self._kinds = torch.Generator().manual_seed(recipe.seed)
        self._dice = Dice(recipe.seed, device)

    @torch.no_grad()
    def draw(self, bases: Bases) -> Batch:
        """Return a new batch."""
        rows = self._dice.rows(bases.share, self.recipe.batch)
        kinds = chosen_kinds(self.recipe.batch, self._kinds)
        return scene(bases, rows, kinds, self.size, self._dice)

    def learn(self, batch: Batch, progress: float) -> Tensor:
        """Take a step and return the loss."""
        recipe = self.recipe
        factor = min(1.0, (self.step + 1) / recipe.warm_up)
        factor *= 0.01 + 0.99 * (1 + math.cos(math.pi * min(1.0, progress))) / 2
        for group in self.optimiser.param_groups:
            group["lr"] = recipe.rate * factor
        pictures = batch.pictures.contiguous(memory_format=torch.channels_last)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            logits = self.network(pictures)
        value = loss(logits, batch, recipe.overlap)
        self.optimiser.zero_grad(set_to_none=True)
        value.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), 5.0)
        self.optimiser.step()
        self.step += 1
        self._remember()
        return value.detach()

    @torch.no_grad()
    def _remember(self) -> None:
        # a short memory at first: the first networks are not worth remembering
        kept = min(self.recipe.memory, (self.step + 1) / (self.step + 10))
        new = self.network.state_dict()
        for name, value in self.average.state_dict().items():
            if value.is_floating_point():
                value.lerp_(new[name], 1 - kept)
            else:
                value.copy_(new[name])


def train(
    learner: Learner,
    bases: Bases,
    visit: Visit,
    say: Callable[[str], None],
    *,
    every: int = 50,
) -> list[float]:
    """Learn until the visit is over; return the mean loss of every ``every`` steps."""
    asks = [at for at in learner.recipe.ask if at >= visit.start]
    curve: list[float] = []
    total = torch.zeros((), device=learner.device)
    while visit.share < 1:
        progress = visit.progress
        if asks and progress >= asks[0]:
            asks.pop(0)
            share = bases.ask(learner.average, learner.size)
            say(f"step {learner.step}: {share:.2%} of the bare faces are taken for hidden")
        total += learner.learn(learner.draw(bases), progress)
        visit.done += 1
        if visit.done % every == 0:
            curve.append(float(total) / every)
            total.zero_()
            say(f"step {learner.step} progress {progress:.3f} loss {curve[-1]:.4f}")
    return curve
