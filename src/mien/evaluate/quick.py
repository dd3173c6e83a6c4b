"""The ruler's quick form, in seconds, for a network in training: crops in, scores out."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from mien.evaluate import measures as measuring
from mien.evaluate import pixels
from mien.evaluate.intervals import Interval, bootstrap
from mien.evaluate.judges import Judges
from mien.evaluate.reading import Reading, read
from mien.geometry import template
from mien.stages.color import match_color
from mien.stages.mask import face_mask

Swap = Callable[[Tensor, Tensor], Tensor]
"""Aligned crops (N, 3, S, S) in [0, 1] and unit embeddings (N, D) to swapped crops like them."""


def read_crops(judges: Judges, crops: Tensor) -> Reading:
    """Return what ``judges`` say of crops (N, 3, S, S) in [0, 1], aligned as arcface_128.

    It is the same at every checkpoint: read once and hand it to ``quick_scores``.
    """
    points = template(pixels.TEMPLATE).at(crops.shape[-1]).expand(len(crops), -1, -1)
    return read(judges, _frames(crops), points)


@torch.no_grad()
def quick_scores(
    swap: Swap,
    crops: Tensor,
    embeddings: Tensor,
    judges: Judges,
    *,
    reading: Reading | None = None,
    pairs: int = 64,
    blend: bool = True,
    seed: int = 0,
) -> dict[str, Interval]:
    """Return the scores of ``swap`` on held-out people, by measure, with intervals.

    ``crops`` (N, 3, S, S), RGB in [0, 1] and aligned as arcface_128, show N people, and
    ``embeddings`` (N, D) are theirs, unit, in the space that ``swap`` takes; both may be on any
    device. Person i gets the face of person i + 1, i + 2 and so on in turn, until there are
    ``pairs``. With ``blend`` the output is laid over the target with mien's mask and colour match,
    as in a picture; without, the network's output is judged as it is. Measures are those of
    :mod:`mien.evaluate.measures`; nothing is outside of the crop.
    """
    count = len(crops)
    reading = read_crops(judges, crops) if reading is None else reading
    chosen = [(i % count, (i + 1 + i // count) % count) for i in range(pairs)]
    chosen = [(target, source) for target, source in chosen if target != source]
    targets, sources = (list(column) for column in zip(*chosen, strict=True))
    shown = crops[targets].float()
    made = swap(shown, embeddings[sources]).float().clamp(0, 1).cpu()
    shown = shown.cpu()
    before = reading[targets]
    scene = pixels.scenes(_frames(shown), before.points, before.mesh, size=shown.shape[-1])
    if blend:
        mask = face_mask(scene.outline, shown.shape[-1])
        opacity = mask[:, None]
        made = match_color(made, shown, mask) * opacity + shown * (1 - opacity)
    now = read(judges, _frames(made), before.points, before=before)
    gallery = {name: functional.normalize(value) for name, value in reading.embeddings.items()}
    everybody = torch.ones(len(targets), dtype=torch.bool)
    scores = {
        **measuring.identity_scores(
            judges, now, reading[sources], before, gallery, torch.tensor(sources), everybody
        ),
        **measuring.face_scores(now, before),
        **measuring.pixel_scores(made, scene),
    }
    geometric = frozenset(row.key for row in measuring.measures(judges) if row.geometric)
    return bootstrap(scores, clusters=torch.tensor(sources), geometric=geometric, seed=seed)


def _frames(crops: Tensor) -> list[Tensor]:
    """Return crops (N, 3, S, S) in [0, 1] as pictures, uint8 (S, S, 3)."""
    pictures = (crops.detach().float().cpu() * 255).round().clamp(0, 255).to(torch.uint8)
    return list(pictures.permute(0, 2, 3, 1).contiguous())
