"""The ruler: how much of held-out pictures' marks is found after fixed damage."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mien.nets.watermark import SIDE, Extractor, chips, composed
from mien.train.occlusion.canvas import Dice
from mien.train.watermark.chains import fixed
from mien.train.watermark.damage import shrunk, stored
from mien.train.watermark.learn import correlation, looked_at, marked, words

ROWS = 16


@dataclass(frozen=True, slots=True)
class Score:
    """What came back after one kind of damage."""

    alike: float
    """Mean correlation of what is found with what was added."""

    least: float
    """That of the worst picture."""


@torch.no_grad()
def scores(network: Extractor, pictures: Tensor, *, seed: int = 7) -> dict[str, Score | float]:
    """Return a score by kind of damage, and PSNR in dB.

    ``pictures`` are float (n, 3, S, S) in [0, 1], S a multiple of 32. How many payloads come back
    is for benchmarks/watermark.py to say, with real codecs.
    """
    device = pictures.device
    tile = composed(chips().to(device), words(Dice(seed, device), len(pictures)))
    shown, lie, noise = [], [], []
    for rows, row_tiles in zip(pictures.split(ROWS), tile.split(ROWS), strict=True):
        made, there = marked(rows, row_tiles)
        shown.append(made)
        lie.append(there)
        noise.append((made - stored(rows)).square().mean(dim=(1, 2, 3)))
    psnr = -10 * torch.cat(noise).clamp_min(1e-9).log10()
    found: dict[str, Score | float] = {
        "psnr": float(psnr.mean()),
        "psnr, least": float(psnr.min()),
    }
    for name, damage in fixed().items():
        alike = torch.cat(
            [
                correlation(
                    network(looked_at(stored(damage.rest(damage.view(rows))))).float(),
                    shrunk(damage.view(there), SIDE),
                )
                for rows, there in zip(shown, lie, strict=True)
            ]
        )
        found[name] = Score(float(alike.mean()), float(alike.min()))
    return found
