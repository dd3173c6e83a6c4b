"""Learning: the two networks, how hard their task is, the losses, and the loop.

Bits are learnt first, from loud marks and little damage. Then damage grows, then marks become
quiet: by how far the encoder's bounds reach, not by a loss that would have to be balanced against
that of the bits, so PSNR is at any time what it is meant to be. Within the bounds the picture's
loss says what is better to look at: changes by what is noticeable, and more so their means of 4 x 4
pixels, since the eye sees blotches on skies before it sees grain (Mannos & Sakrison 1974). A
discriminator would say more, and takes longer to learn than there is time.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from mien.errors import TrainingError
from mien.nets.watermark import Decoder, Encoder, brightness
from mien.train.occlusion.canvas import Dice
from mien.train.schedule import Visit
from mien.train.watermark.chains import PARTS, Chains
from mien.train.watermark.damage import shrunk, stored
from mien.train.watermark.pictures import Pictures
from mien.train.watermark.recipe import Recipe

MEASURES = ("loss", "bits", "presence", "picture", "right", "psnr", "level")
"""What is written down of steps: losses, the share of right bits, PSNR in dB, and the task."""


class Pair(nn.Module):
    """Both networks."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.encoder, self.decoder = Encoder(recipe.shape), Decoder(recipe.shape)
        self.decoder.match(self.encoder)


def marked(pictures: Tensor, residual: Tensor) -> Tensor:
    """Return pictures (n, 3, H, W) in [0, 1] with a residual in codes, enlarged, in 8 bits."""
    residual = functional.interpolate(
        residual, pictures.shape[2:], mode="bilinear", align_corners=False
    )
    return stored(pictures + residual / 255)


def looked_at(pictures: Tensor, size: int) -> Tensor:
    """Return pictures (n, 3, H, W) in [0, 1] as the networks take them, in [-1, 1]."""
    return shrunk(pictures, size) * 2 - 1


class Learner:
    """Two networks on their way, and their average."""

    def __init__(self, recipe: Recipe, device: torch.device) -> None:
        torch.manual_seed(recipe.seed)
        self.recipe, self.device = recipe, device
        pair: Any = Pair(recipe).to(device)
        self.pair: Pair = pair.to(memory_format=torch.channels_last)
        self.average = copy.deepcopy(self.pair).eval().requires_grad_(False)
        self.optimiser = torch.optim.AdamW(
            self.pair.parameters(), lr=recipe.rate, weight_decay=recipe.decay
        )
        self.step, self.progress = 0, 0.0
        self.level = torch.zeros((), device=device)
        """How hard the task is: 0 to 1, damage grows; 1 to 2, marks become quiet."""

        self.right = torch.full((), 0.5, device=device)
        """Running mean of the share of right bits."""

        self.dice = Dice(recipe.seed, device)
        self.chains = Chains(self.dice, recipe.seed)
        self._encode: Callable[..., Tensor] = self.pair.encoder
        self._decode: Callable[..., Tensor] = self.pair.decoder
        if recipe.compile:
            self._encode = torch.compile(self.pair.encoder)
            self._decode = torch.compile(self.pair.decoder)

    def learn(self, pictures: Tensor, progress: float) -> Tensor:
        """Take a step with pictures (n, 3, S, S) in [0, 1] and return the MEASURES, (7,)."""
        recipe = self.recipe
        self.progress = progress
        factor = min(1.0, (self.step + 1) / recipe.warm_up)
        factor *= 0.02 + 0.98 * (1 + math.cos(math.pi * min(1.0, progress))) / 2
        for group in self.optimiser.param_groups:
            group["lr"] = recipe.rate * factor
        self._level(progress)
        loss, measures = self.losses(pictures)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.pair.parameters(), recipe.clip)
        self.optimiser.step()
        self.step += 1
        self._remember()
        return measures

    def losses(self, pictures: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss and the MEASURES. One row of each part of the batch has no mark."""
        recipe, n = self.recipe, len(pictures)
        harsh, quiet = self.level.clamp(0, 1), (self.level - 1).clamp(0, 1)
        gain = recipe.loud_gain * (recipe.gain / recipe.loud_gain) ** quiet
        floor = recipe.loud_floor + (recipe.floor - recipe.loud_floor) * quiet
        bits = self.dice.picks(2, n, recipe.bits).float()
        has = torch.ones(n, device=self.device)
        if n > PARTS:
            has[:: n // PARTS] = 0
        small = looked_at(pictures, recipe.size).contiguous(memory_format=torch.channels_last)
        autocast = torch.autocast(
            self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"
        )
        with autocast:
            residual = self._encode(small, bits * 2 - 1, gain, 255 * 10 ** (-floor / 20))
        residual = residual.float() * has.view(-1, 1, 1, 1)
        shown = marked(pictures, residual)
        damaged = looked_at(self.chains(shown, harsh), recipe.size)
        with autocast:
            logits = self._decode(damaged.contiguous(memory_format=torch.channels_last))
        logits = logits.float()
        entropy = functional.binary_cross_entropy_with_logits(
            logits[:, :-1], bits, reduction="none"
        ).mean(dim=1)
        entropy = (entropy * has).sum() / has.sum()
        presence = functional.binary_cross_entropy_with_logits(logits[:, -1], has)
        picture = self._picture(small, residual)
        # that there is a mark is easily learnt, from one that says nothing: bits come first
        known = (5 * self.right - 3.5).clamp(0, 1)
        loss = entropy + recipe.presence * known * presence + recipe.picture * quiet * picture
        with torch.no_grad():
            hits = ((logits[:, :-1] > 0) == (bits > 0.5)).float().mean(dim=1)
            right = (hits * has).sum() / has.sum()
            # of pictures that have a mark, one by one, as it is reported
            error = (shown - stored(pictures)).square().mean(dim=(1, 2, 3)).clamp_min(1e-9)
            psnr = (-10 * error.log10() * has).sum() / has.sum()
            self.right.lerp_(right, 0.05)
        values = [loss, entropy, presence, picture, right, psnr, self.level]
        return loss, torch.stack([value.detach() for value in values])

    def _picture(self, small: Tensor, residual: Tensor) -> Tensor:
        with torch.no_grad():
            bound = self.pair.encoder.noticeable(brightness(small.float()))
        seen = residual / bound
        blotches = functional.avg_pool2d(seen, 4).square().mean()
        value: Tensor = seen.square().mean() + self.recipe.coarse * blotches
        return value

    @torch.no_grad()
    def _level(self, progress: float) -> None:
        """Make the task harder if it goes well, and in any case with time."""
        recipe = self.recipe
        begin, end = recipe.forced
        least = 2 * min(1.0, max(0.0, (progress - begin) / max(1e-6, end - begin)))
        self.level += (self.right > recipe.easy).float() / recipe.pace
        self.level.clamp_(least, 2.0)

    @torch.no_grad()
    def _remember(self) -> None:
        # a short memory at first: the first networks are not worth remembering
        kept = min(self.recipe.memory, (self.step + 1) / (self.step + 10))
        new = self.pair.state_dict()
        for name, value in self.average.state_dict().items():
            if value.is_floating_point():
                value.lerp_(new[name], 1 - kept)
            else:
                value.copy_(new[name])

    def save(self, path: Path) -> None:
        """Write all that ``resume`` needs, and the recipe."""
        state = {
            "pair": self.pair.state_dict(),
            "average": self.average.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "step": self.step,
            "progress": self.progress,
            "level": self.level,
            "right": self.right,
        }
        part = path.with_name(path.name + ".part")
        torch.save(state, part)
        part.replace(path)

    def resume(self, path: Path) -> None:
        """Go on from what ``save`` wrote; pictures and damage are drawn anew.

        Raises TrainingError if the file is none, or of networks of another shape.
        """
        try:
            state = torch.load(path, map_location=self.device, weights_only=True)
            self.pair.load_state_dict(state["pair"])
            self.average.load_state_dict(state["average"])
            self.optimiser.load_state_dict(state["optimiser"])
            self.step, self.progress = state["step"], state["progress"]
            self.level.copy_(state["level"])
            self.right.copy_(state["right"])
        except Exception as error:  # noqa: BLE001 (torch's own errors share no base)
            advice = "Give a state that this command wrote, and the recipe of its run."
            raise TrainingError(path, f"it is no state of this run: {error}", advice) from None
        # other pictures than those already seen
        self.dice = Dice(self.recipe.seed + self.step, self.device)
        self.chains = Chains(self.dice, self.recipe.seed + self.step)


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
