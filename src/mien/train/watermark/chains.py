"""Chains of damage: what rows of a training batch go through, and fixed ones for the ruler.

Every row is seen first, as a crop, turned, or as it is; then a batch is cut into eight equal parts,
each with a kind of damage of its own, so that nothing is computed that is not used and shapes never
change.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

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

TURN, CROP = math.radians(8), 0.5
"""Greatest turn and least share of the side, beyond what is to be survived."""

Damage = Callable[[Tensor], Tensor]


class Chains:
    """Draws damage."""

    def __init__(self, dice: Dice, seed: int) -> None:
        self.dice = dice
        # sizes change shapes, which the device cannot choose without being waited for
        self._sizes = random.Random(seed)

    def view(self, x: Tensor) -> Tensor:
        """Crop and turn two thirds of the rows (n, C, S, S), all channels alike."""
        dice, n = self.dice, len(x)
        kind = dice.between(0, 1, n)
        turn = dice.between(-TURN, TURN, n) * (kind > 0.6)
        share = 1 - (1 - CROP) * dice.between(0, 1, n) * ((kind > 0.33) & (kind < 0.9))
        return seen(x, turn, share, dice.between(-1, 1, n, 2))

    def __call__(self, pictures: Tensor) -> Tensor:
        """Return pictures (n, 3, S, S) in [0, 1], damaged; n is a multiple of PARTS."""
        part = pictures.split(len(pictures) // PARTS)
        done = [
            self.dim(part[0]),
            self.coded(part[1]),
            self.coded(self.size(part[2])),
            self.light(self.size(part[3])),
            self.film(part[4]),
            self.film(self.size(part[5])),
            # a screenshot: shown at another size, in another light, coded
            self.coded(self.light(self.size(part[6]))),
            # a platform: another size, its codec, and a picture taken from that
            self.coded(self.film(self.size(part[7]))),
        ]
        return stored(torch.cat(done))

    def coded(self, x: Tensor) -> Tensor:
        """JPEG from quality 95 down to 40."""
        return jpeg(stored(x), self.dice.between(40, 95, len(x)))

    def light(self, x: Tensor) -> Tensor:
        """Change light, contrast and colours by up to a quarter."""
        light, contrast, gamma, colour = (
            1 + self.dice.between(-most, most, len(x)) for most in (0.25, 0.25, 0.2, 0.4)
        )
        return lit(x, light, contrast, colour, gamma)

    def dim(self, x: Tensor) -> Tensor:
        """Blur some rows, add noise to others; some stay as they are."""
        n = len(x)
        kind = self.dice.between(0, 1, n)
        x = blurred(x, self.dice.between(0, 2, n) * (kind < 0.35))
        deviation = self.dice.between(0, 0.03, n) * (kind > 0.65)
        return noisy(x, deviation, self.dice.normal(1, *x.shape))

    def size(self, x: Tensor) -> Tensor:
        """Resize all rows to one of a few sizes, and back."""
        return resized(x, x.shape[-1] * self._sizes.choice((4, 5, 6, 8, 10, 12)) // 8)

    def film(self, x: Tensor) -> Tensor:
        """Code as a film, from a QP of 16 to 32."""
        return filmed(stored(x), self.dice.between(16, 32, len(x)))


@dataclass(frozen=True, slots=True)
class Fixed:
    """Damage that is always the same: a view, of pictures and of their marks, and the rest."""

    rest: Damage
    turn: float = 0.0
    """In degrees."""

    share: float = 1.0
    at: float = 0.0

    def view(self, x: Tensor) -> Tensor:
        """Return (n, C, S, S) as they are seen."""
        place = torch.full((len(x), 2), self.at, device=x.device)
        return seen(x, _all(x, math.radians(self.turn)), _all(x, self.share), place)


def fixed() -> dict[str, Fixed]:
    """Return the ruler's damage by name."""

    def quality(value: float) -> Damage:
        return lambda x: jpeg(stored(x), _all(x, value))

    def quantiser(value: float) -> Damage:
        return lambda x: filmed(stored(x), _all(x, value))

    def light(light: float = 1, contrast: float = 1) -> Damage:
        return lambda x: lit(x, _all(x, light), _all(x, contrast), _all(x, 1.0), _all(x, 1.0))

    def half(x: Tensor) -> Tensor:
        return resized(x, x.shape[-1] // 2)

    def same(x: Tensor) -> Tensor:
        return x

    return {
        "none": Fixed(same),
        "JPEG 50": Fixed(quality(50)),
        "resize 0.5": Fixed(half),
        "resize 0.5, JPEG 50": Fixed(lambda x: quality(50)(half(x))),
        "crop 0.7": Fixed(same, share=0.7, at=0.6),
        "crop 0.7, JPEG 50": Fixed(quality(50), share=0.7, at=0.6),
        "turn 5": Fixed(same, turn=5),
        "light 0.8": Fixed(light(light=0.8)),
        "contrast 0.8": Fixed(light(contrast=0.8)),
        "blur": Fixed(lambda x: blurred(x, _all(x, 1.5))),
        "film 28": Fixed(quantiser(28)),
        "screenshot": Fixed(
            lambda x: quality(60)(light(light=1.1, contrast=0.9)(half(x))), share=0.85, at=-0.5
        ),
        "platform": Fixed(lambda x: quality(75)(quantiser(28)(half(x)))),
    }


def _all(x: Tensor, value: float) -> Tensor:
    return torch.full((len(x),), value, device=x.device)
