"""Nobody who may be a minor is learned from."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from mien.train.faces import Looker
from mien.train.packs import Pack

YOUNGEST, YOUNGEST_LABELLED = 33.0, 24.0
"""Least estimated age, in years, of people to learn from; and where labels say they are adults."""

LABELLED = "adults"
"""A pack with this in its name is of people whose age is known from labels to be 18 at least."""

LOOKED_AT = 128
"""Pictures at a time."""


def adults(
    pack: Pack,
    path: Path,
    looker: Looker,
    *,
    youngest: float = YOUNGEST,
    labelled: float = YOUNGEST_LABELLED,
) -> Pack:
    """Return the pictures of ``pack`` whose people are estimated old enough.

    How old that is depends on whether the pack at ``path`` is labelled. The estimate alone lets
    children through at 24 years: among FFHQ's pictures of 28 to 30 estimated
    years every sixth showed one, and hardly any from 30 on.
    """
    least = labelled if LABELLED in path.name else youngest
    return pack[estimated_ages(pack.pixels, looker) >= least]


@torch.no_grad()
def estimated_ages(pixels: Tensor, looker: Looker) -> Tensor:
    """Return how old faces look, in years, float32 (n,), in crops uint8 (n, 3, S, S)."""
    parts = [looker.ages(part.float().div_(127.5).sub_(1)) for part in pixels.split(LOOKED_AT)]
    return torch.cat(parts) if parts else torch.zeros(0, device=pixels.device)
