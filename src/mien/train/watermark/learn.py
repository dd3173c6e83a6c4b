"""Learning: the extractor, what it is shown, its loss, and the loop.

It learns to say, of a damaged picture, what the tile was that had been added: the mean of what it
might have been, which under little signal is what a matched filter wants to be given. The loss is
plain squared error; there is nothing to balance, and nothing else to learn.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from mien.errors import TrainingError
from mien.nets.watermark import (
    BITS,
    SIDE,
    Extractor,
    brightness,
    chips,
    composed,
    repeated,
    residual,
)
from mien.train.occlusion.canvas import Dice
from mien.train.schedule import Visit
from mien.train.watermark.chains import Chains
from mien.train.watermark.damage import shrunk, stored
from mien.train.watermark.pictures import Pictures
from mien.train.watermark.recipe import Recipe

MEASURES = ("loss", "alike", "psnr", "loud")
"""What is written down of steps: the loss, the correlation of guesses with tiles, PSNR in dB at the
loudness of the step, and that."""


def words(dice: Dice, count: int) -> Tensor:
    """Return raw bits (count, BITS) of -1 and 1."""
    return dice.picks(2, count, BITS).float() * 2 - 1


def marked(pictures: Tensor, tile: Tensor, loud: Tensor | float = 1.0) -> tuple[Tensor, Tensor]:
    """Return pictures (n, 3, S, S) in [0, 1] with marks, in 8 bits, and what is to be found there.

    That is the tile as it lies on the picture, float (n, 1, S, S).
    """
    side = pictures.shape[-1]
    y = brightness(shrunk(pictures, SIDE)) * 255
    change = residual(y, tile, loud=loud)
    lie = repeated(tile, SIDE, SIDE)
    change, lie = (
        functional.interpolate(x, (side, side), mode="bilinear", align_corners=False)
        for x in (change, lie)
    )
    return stored(pictures + change.round() / 255), lie


def looked_at(pictures: Tensor) -> Tensor:
    """Return pictures (n, 3, S, S) in [0, 1] as the extractor takes them."""
    return brightness(shrunk(pictures, SIDE)) * 255 - 128


class Learner:
    """The network on its way, and its average."""

    def __init__(self, recipe: Recipe, device: torch.device) -> None:
        torch.manual_seed(recipe.seed)
        self.recipe, self.device = recipe, device
        self.network = Extractor(recipe.shape).to(device)
        self.average = copy.deepcopy(self.network).eval().requires_grad_(False)
        self.optimiser = torch.optim.AdamW(
            self.network.parameters(), lr=recipe.rate, weight_decay=recipe.decay
        )
        self.step, self.progress = 0, 0.0
        self.dice = Dice(recipe.seed, device)
        self.chains = Chains(self.dice, recipe.seed)
        self.patterns = chips().float().to(device)
        self._run: Callable[[Tensor], Tensor] = self.network
        if recipe.compile:
            self._run = torch.compile(self.network)

    def learn(self, pictures: Tensor, progress: float) -> Tensor:
        """Take a step with pictures (n, 3, S, S) in [0, 1] and return the MEASURES, (4,)."""
        recipe = self.recipe
        self.progress = progress
        factor = min(1.0, (self.step + 1) / recipe.warm_up)
        factor *= 0.01 + 0.99 * (1 + math.cos(math.pi * min(1.0, progress))) / 2
        for group in self.optimiser.param_groups:
            group["lr"] = recipe.rate * factor
        loss, measures = self.losses(pictures)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), recipe.clip)
        self.optimiser.step()
        self.step += 1
        self._remember()
        return measures

    def losses(self, pictures: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss and the MEASURES."""
        recipe = self.recipe
        loud = recipe.loud ** max(0.0, 1 - self.progress / max(recipe.quiet, 1e-6))
        with torch.no_grad():
            tile = composed(self.patterns, words(self.dice, len(pictures)))
            shown, lie = marked(pictures, tile, loud)
            error = (shown - stored(pictures)).square().mean(dim=(1, 2, 3)).clamp_min(1e-9)
            both = self.chains.view(torch.cat([shown, lie], dim=1))
            seen, lie = both[:, :3], shrunk(both[:, 3:], SIDE)
            given = looked_at(self.chains(seen))
        autocast = torch.autocast(
            self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"
        )
        with autocast:
            found = self._run(given)
        found = found.float()
        loss = (found - lie).square().mean()
        with torch.no_grad():
            alike = correlation(found, lie).mean()
            psnr = (-10 * error.log10()).mean()
        values = [loss.detach(), alike, psnr, torch.full_like(alike, loud)]
        return loss, torch.stack(values)

    @torch.no_grad()
    def _remember(self) -> None:
        # a short memory at first: the first networks are not worth remembering
        kept = min(self.recipe.memory, (self.step + 1) / (self.step + 10))
        torch._foreach_lerp_(
            list(self.average.parameters()), list(self.network.parameters()), 1 - kept
        )

    def save(self, path: Path) -> None:
        """Write all that ``resume`` needs."""
        state = {
            "network": self.network.state_dict(),
            "average": self.average.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "step": self.step,
            "progress": self.progress,
        }
        part = path.with_name(path.name + ".part")
        torch.save(state, part)
        part.replace(path)

    def resume(self, path: Path) -> None:
        """Go on from what ``save`` wrote; pictures and damage are drawn anew.

        Raises TrainingError if the file is none, or of a network of another shape.
        """
        try:
            state = torch.load(path, map_location=self.device, weights_only=True)
            self.network.load_state_dict(state["network"])
            self.average.load_state_dict(state["average"])
            self.optimiser.load_state_dict(state["optimiser"])
            self.step, self.progress = state["step"], state["progress"]
        except Exception as error:  # noqa: BLE001 (torch's own errors share no base)
            advice = "Give a state that this command wrote, and the recipe of its run."
            raise TrainingError(path, f"it is no state of this run: {error}", advice) from None
        # other pictures than those already seen
        self.dice = Dice(self.recipe.seed + self.step, self.device)
        self.chains = Chains(self.dice, self.recipe.seed + self.step)


def correlation(a: Tensor, b: Tensor) -> Tensor:
    """Return the correlation of each row of (n, 1, H, W) with the other's, (n,)."""
    a, b = ((x - x.mean(dim=(1, 2, 3), keepdim=True)).flatten(1) for x in (a, b))
    alike: Tensor = (a * b).sum(dim=1) / (a.norm(dim=1) * b.norm(dim=1)).clamp_min(1e-9)
    return alike


def train(
    learner: Learner,
    pictures: Pictures,
    visit: Visit,
    note: Callable[[dict[str, float]], None],
    *,
    every: int = 50,
    aside: Callable[[], None] | None = None,
) -> None:
    """Learn until the visit is over; every ``every`` steps note the means and call ``aside``.

    Only then is the device waited for.
    """
    total = torch.zeros(len(MEASURES), device=learner.device)
    while visit.share < 1:
        progress = visit.progress
        total += learner.learn(pictures(learner.recipe.batch), progress)
        visit.done += 1
        if visit.done % every == 0:
            means = dict(zip(MEASURES, (total / every).tolist(), strict=True))
            note({"step": learner.step, "progress": progress} | means)
            total.zero_()
            if aside is not None:
                aside()
    learner.progress = visit.progress
