"""The held-out test: how much of what is drawn is found, and what is found where nothing is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from mien.train.occlusion.bases import Bases, oval_depth
from mien.train.occlusion.canvas import Dice
from mien.train.occlusion.scene import NAMES, Batch, scene

ROWS = 32

REACH = 0.08
"""How far about a drawn thing its overlap is measured, by the crop's side."""

Network = Callable[[Tensor], Tensor]


@torch.no_grad()
def overlap(network: Network, held: Bases, kind: str, size: int, *, seed: int = 7) -> float:
    """Return intersection over union of what is hidden, with one ``kind`` before each face.

    Counted over all pixels within the faces' ovals where the answer is known and that are within
    REACH of what was drawn (farther away real hair hides faces too, unmarked; see
    ``false_alarms``), of all faces together. The same seed draws the same things.
    """
    reach = max(1, round(REACH * size))
    dice = Dice(seed, held.pixels.device)
    both = either = 0.0
    for part in torch.arange(len(held), device=held.pixels.device).split(ROWS):
        batch = scene(held, part, torch.full((len(part), 1), NAMES.index(kind)), size, dice)
        found, true = network(batch.pictures) < 0, batch.visible < 0.5
        near = functional.max_pool2d(batch.hides, 2 * reach + 1, 1, reach) > 0.1
        known = (batch.face > 0) & (batch.weight >= 1) & near
        both += float((found & true & known).sum())
        either += float(((found | true) & known).sum())
    return both / max(1.0, either)


@torch.no_grad()
def false_alarms(network: Network, held: Bases, size: int) -> Tensor:
    """Return which share (n,) of each bare face, where nothing real is suspected, is called hidden.

    The whole oval of the mesh is looked at. Real spectacles count against the network.
    """
    shares = []
    for part in torch.arange(len(held), device=held.pixels.device).split(ROWS):
        pictures = held.pixels[part].float().div(127.5).sub(1)
        pictures = functional.interpolate(pictures, (size, size), mode="area")
        seen = functional.interpolate(held.seen[part], (size, size), mode="nearest").amax(1, True)
        clean = (oval_depth(held.mesh[part], size) > 0) & (seen < 0.5)
        found = (network(pictures) < 0) & clean
        shares.append(found.sum(dim=(1, 2, 3)) / clean.sum(dim=(1, 2, 3)).clamp_min(1))
    return torch.cat(shares)


def scores(network: Network, held: Bases, size: int) -> dict[str, float]:
    """Return the overlap by kind, their mean, and false alarms: mean, median, 90 of 100."""
    found = {kind: overlap(network, held, kind, size) for kind in NAMES}
    alarms = false_alarms(network, held, size)
    found["mean"] = sum(found.values()) / len(found)
    found["false alarms, mean"] = float(alarms.mean())
    found["false alarms, median"] = float(alarms.median())
    found["false alarms, 90 of 100 below"] = float(alarms.quantile(0.9))
    return found


def painted(pictures: Tensor, visible: Tensor) -> Tensor:
    """Return pictures (n, 3, S, S) in [-1, 1] with what is not ``visible`` in red, in [0, 1]."""
    pictures = (pictures + 1) / 2
    red = pictures.new_tensor([0.9, 0.1, 0.1]).view(1, 3, 1, 1)
    return torch.lerp(pictures, red.expand_as(pictures), 0.65 * (1 - visible))


@torch.no_grad()
def sheet(
    network: Network,
    held: Bases,
    path: Path,
    size: int,
    *,
    kinds: Iterable[str] = NAMES,
    columns: int = 10,
    seed: int = 11,
) -> None:
    """Write a picture to look at: for each kind a row of faces, and what the network finds.

    The first two rows are bare faces. Only what lies within the oval is painted.
    """
    dice = Dice(seed, held.pixels.device)
    rows = torch.linspace(0, len(held) - 1, columns, device=held.pixels.device).long()
    lines = []
    for kind in (None, *kinds):
        number = -1 if kind is None else NAMES.index(kind)
        batch: Batch = scene(held, rows, torch.full((columns, 1), number), size, dice)
        found = torch.sigmoid(network(batch.pictures))
        lines.append((batch.pictures + 1) / 2)
        lines.append(painted(batch.pictures, 1 - (1 - found) * batch.face))
    grid = torch.cat([torch.cat(list(line), dim=2) for line in lines], dim=1)
    pixels = (grid.clamp(0, 1) * 255).round().byte().permute(1, 2, 0).cpu().numpy()
    Image.fromarray(np.ascontiguousarray(pixels)).save(path, quality=88)
