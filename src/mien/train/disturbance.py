"""What embedders are shown of a picture is disturbed, each time anew.

A picture can please one embedder by patterns that no other one sees. Such patterns do not survive
being moved, blurred, greyed and covered in part; what does survive is what any embedder, and any
person, takes for identity. (Input diversity is how attacks on one network are made to hold for
others, Xie et al. 2019; here it is likeness that is to hold for others.)
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

LIGHT = 0.2
"""Greatest change of light and of contrast, in halves of the range."""

HOLE = (0.2, 0.45)
"""Least and greatest side of what is covered, in sides of the view."""


@dataclass(frozen=True, slots=True, eq=False)
class Disturbance:
    """One disturbance for each of N pictures."""

    view: Tensor
    """float32 (N, 2, 3): what is looked at, see ``geometry.views``."""

    light: Tensor
    """float32 (N, 1, 1, 1), added."""

    contrast: Tensor
    """float32 (N, 1, 1, 1), multiplied with."""

    grey: Tensor
    """float32 (N, 1, 1, 1): 1 where colours are taken away, else 0."""

    soft: Tensor
    """float32 (N, 1, 1, 1): 1 where every other pixel is lost, else 0."""

    hole: Tensor
    """float32 (N, 4): left, top, right, bottom of what is covered, edges at -1 and 1."""


def drawn(view: Tensor, share: float, random: torch.Generator) -> Disturbance:
    """Draw a disturbance for each of the views (N, 2, 3).

    ``share`` of the pictures are greyed, as many are blurred, and as many are covered.
    """
    count, device = len(view), view.device
    plain = torch.rand(4, count, 1, 1, 1, generator=random, device=device)
    light, contrast = (plain[:2] * 2 - 1) * LIGHT
    grey, soft = (plain[2:] < share).float()
    corner, side, wanted = torch.rand(3, 2, count, generator=random, device=device)
    side = (HOLE[0] + (HOLE[1] - HOLE[0]) * side) * (wanted[:1] < share)
    start = corner * (1 - side) * 2 - 1
    hole = torch.cat([start, start + 2 * side]).T
    return Disturbance(view, light, 1 + contrast, grey, soft, hole)


def disturbed(seen: Tensor, by: Disturbance) -> Tensor:
    """Return views (N, 3, S, S) in [-1, 1], disturbed; S is even. They may leave the range."""
    low = functional.interpolate(
        functional.avg_pool2d(seen, 2), scale_factor=2.0, mode="bilinear", align_corners=False
    )
    seen = seen + by.soft * (low - seen)
    seen = seen + by.grey * (seen.mean(dim=1, keepdim=True) - seen)
    seen = seen * by.contrast + by.light
    at = (torch.arange(seen.shape[-1], device=seen.device) + 0.5) * (2 / seen.shape[-1]) - 1
    left, top, right, bottom = by.hole.T[:, :, None]
    across, down = (at >= left) & (at < right), (at >= top) & (at < bottom)
    covered: Tensor = (down[:, :, None] & across[:, None])[:, None]
    return seen * ~covered
