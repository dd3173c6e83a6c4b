"""Chains of damage: what rows of a training batch go through, and fixed ones for the ruler.

A batch is cut into eight equal parts, each with a kind of damage of its own, so that nothing is
computed that is not used and shapes never change. ``harsh``, a tensor of 0 to 1, says how far the
ranges reach: it grows over the run.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import torch
from torch import Tensor

from mien.train.occlusion.canvas import Dice
from mien.train.watermark.damage import (
    blurred,
    filmed,
    jpeg,
    lit,
    noisy,
    resized,
    seen,
    stored,
)

PARTS = 8

TURN, CROP = math.radians(7), 0.65
"""Greatest turn and least share of the side, a little beyond what is to be survived."""

Damage = Callable[[Tensor], Tensor]


class Chains:
    """Draws damage."""

    def __init__(self, dice: Dice, seed: int) -> None:
        self.dice = dice
        # sizes change shapes, which the device cannot choose without being waited for
        self._sizes = random.Random(seed)

    def __call__(self, pictures: Tensor, harsh: Tensor) -> Tensor:
        """Return pictures (n, 3, S, S) in [0, 1], damaged; n is a multiple of PARTS."""
        part = pictures.split(len(pictures) // PARTS)
        done = [
            part[0],
            self.coded(part[1], harsh),
            self.turned(part[2], harsh),
            self.light(part[3], harsh),
            self.size(self.dim(part[4], harsh)),
            self.film(part[5], harsh),
            # a screenshot: cropped, shown at another size, in another light, coded
            self.coded(self.light(self.size(self.turned(part[6], harsh)), harsh), harsh),
            # a platform: another size, its codec, and a picture taken from that
            self.coded(self.film(self.size(part[7]), harsh), harsh),
        ]
        return stored(torch.cat(done))

    def coded(self, x: Tensor, harsh: Tensor) -> Tensor:
        """JPEG from quality 98 down to 45."""
        low = self.dice.between(0, 1, len(x))
        return jpeg(stored(x), 98 - 53 * low * harsh)

    def turned(self, x: Tensor, harsh: Tensor) -> Tensor:
        """Crop some rows, turn others, and do both to the rest."""
        n = len(x)
        kind = self.dice.between(0, 1, n)
        turn = self.dice.between(-TURN, TURN, n) * harsh * (kind > 0.35)
        share = 1 - (1 - CROP) * self.dice.between(0, 1, n) * harsh * (kind < 0.75)
        aspect = torch.exp(self.dice.between(-0.6, 0.6, n))
        return seen(x, turn, share, self.dice.between(-1, 1, n, 2), aspect)

    def light(self, x: Tensor, harsh: Tensor) -> Tensor:
        """Change light, contrast and colours by up to a quarter."""
        light, contrast, gamma, colour = (
            1 + self.dice.between(-most, most, len(x)) * harsh for most in (0.25, 0.25, 0.2, 0.4)
        )
        return lit(x, light, contrast, colour, gamma)

    def dim(self, x: Tensor, harsh: Tensor) -> Tensor:
        """Blur some rows, add noise to others."""
        n = len(x)
        kind = self.dice.chance(0.5, n)
        x = blurred(x, self.dice.between(0, 2, n) * harsh * kind)
        deviation = self.dice.between(0, 0.03, n) * harsh * (1 - kind)
        return noisy(x, deviation, self.dice.normal(1, *x.shape))

    def size(self, x: Tensor) -> Tensor:
        """Resize all rows to one of a few sizes, and back."""
        return resized(x, x.shape[-1] * self._sizes.choice((4, 5, 6, 8, 10, 12)) // 8)

    def film(self, x: Tensor, harsh: Tensor) -> Tensor:
        """Code as a film, from a QP of 14 to 33."""
        return filmed(stored(x), 14 + self.dice.between(0.2, 1, len(x)) * (4 + 15 * harsh))


def fixed(device: torch.device) -> dict[str, Damage]:
    """Return the ruler's damage by name: the bars that marks are to pass, always the same."""

    def all_of(x: Tensor, value: float) -> Tensor:
        return torch.full((len(x),), value, device=device)

    def view(turn: float, share: float, at: float) -> Damage:
        def looked(x: Tensor) -> Tensor:
            place = torch.full((len(x), 2), at, device=device)
            angle = all_of(x, math.radians(turn))
            return seen(x, angle, all_of(x, share), place, all_of(x, 1.0))

        return looked

    def light(light: float = 1, contrast: float = 1) -> Damage:
        return lambda x: lit(
            x, all_of(x, light), all_of(x, contrast), all_of(x, 1.0), all_of(x, 1.0)
        )

    def chain(*parts: Damage) -> Damage:
        def done(x: Tensor) -> Tensor:
            for part in parts:
                x = part(x)
            return x

        return done

    def quality(value: float) -> Damage:
        return lambda x: jpeg(stored(x), all_of(x, value))

    def quantiser(value: float) -> Damage:
        return lambda x: filmed(stored(x), all_of(x, value))

    def half(x: Tensor) -> Tensor:
        return resized(x, x.shape[-1] // 2)

    return {
        "none": lambda x: x,
        "JPEG 75": quality(75),
        "JPEG 50": quality(50),
        "resize 0.5": half,
        "resize 2": lambda x: resized(x, x.shape[-1] * 2),
        "crop 0.7": view(0, 0.7, 0.6),
        "turn 5": view(5, 1, 0),
        "light 1.2": light(light=1.2),
        "light 0.8": light(light=0.8),
        "contrast 1.2": light(contrast=1.2),
        "contrast 0.8": light(contrast=0.8),
        "blur": lambda x: blurred(x, all_of(x, 1.5)),
        "film 28": quantiser(28),
        "film 33": quantiser(33),
        "screenshot": chain(view(0, 0.85, -0.5), half, light(light=1.1, contrast=0.9), quality(60)),
        "platform": chain(half, quantiser(28), quality(75)),
    }
