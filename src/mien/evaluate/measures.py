"""The measures: what each is called, which way is better, and its values for a batch of pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from mien.evaluate import pixels, shape
from mien.evaluate.judges import Judges
from mien.evaluate.pixels import Scenes
from mien.evaluate.reading import Reading
from mien.stages.color import to_oklab

Best = Literal["high", "low", "one", "zero"]


@dataclass(frozen=True, slots=True)
class Measure:
    """One row of the table."""

    key: str
    title: str
    unit: str
    best: Best
    digits: int = 2
    geometric: bool = False
    """Whether it is a ratio, of which the geometric mean is taken."""


COMMON = (
    Measure("pose", "head pose error", "degrees", "low"),
    Measure("turn", "head turn error, by the mesh", "degrees", "low"),
    Measure("expression", "expression error", "% of eye distance", "low"),
    Measure("eyes", "... of the lids", "% of eye distance", "low"),
    Measure("brows", "... of the brows", "% of eye distance", "low"),
    Measure("lips", "... of the lips", "% of eye distance", "low"),
    Measure("gaze", "gaze error", "% of eye width", "low"),
    Measure("sharpness", "sharpness, by the target's", "ratio", "one", geometric=True),
    Measure("colour", "colour shift at the border", "Oklab x 100", "low"),
    Measure("seam", "gradient across the edge, by the target's", "ratio", "low", geometric=True),
    Measure("outside", "pixels changed outside the face", "pixels", "zero", digits=0),
)
"""Of every pair, whoever judges."""

KID = Measure("kid", "KID x 1000", "", "low")
"""Of all pairs together; the title gets the judge's name."""


def measures(judges: Judges) -> tuple[Measure, ...]:
    """Return all measures of a pair, those of identity first."""
    rows = []
    for judge in judges.identity:
        name = judge.name
        rows += [
            Measure(f"{name}.cosine", f"cosine to the source, {name}", "", "high", 3),
            Measure(f"{name}.top1", f"source found first, {name}", "%", "high", 1),
        ]
        if judge.contract.same_person is not None:
            accepted = f"taken for the source, {name}"
            rows.append(Measure(f"{name}.accepted", accepted, "%", "high", 1))
        rows += [
            Measure(f"{name}.target", f"cosine to the target, {name}", "", "low", 3),
            Measure(f"{name}.leak", f"leak of the target, {name}", "", "low", 3),
        ]
    return (*rows, *COMMON)


def identity_scores(
    judges: Judges,
    now: Reading,
    source: Reading,
    target: Reading,
    gallery: Mapping[str, Tensor],
    places: Tensor,
    strangers: Tensor,
) -> dict[str, Tensor]:
    """Return the measures of identity of K pairs, (K,) each.

    ``gallery`` has unit embeddings (G, D) by judge, one of each person; ``places`` (K,) says which
    is the source's. The leak is how much more like the target a result is than the source is:
    cos(result, target) - cos(source, target). It is NaN where both are one person and not
    ``strangers`` (K,).
    """
    scores = {}
    for judge in judges.identity:
        name, limit = judge.name, judge.contract.same_person
        made, wanted, was = (one.embeddings[name] for one in (now, source, target))
        to_source, to_target, apart = (
            functional.cosine_similarity(a, b)
            for a, b in ((made, wanted), (made, was), (wanted, was))
        )
        nearest = (functional.normalize(made) @ gallery[name].T).argmax(dim=1)
        scores[f"{name}.cosine"] = to_source
        scores[f"{name}.top1"] = (nearest == places) * 100.0
        if limit is not None:
            scores[f"{name}.accepted"] = ((made - wanted).norm(dim=1) < limit) * 100.0
        scores[f"{name}.target"] = to_target
        scores[f"{name}.leak"] = torch.where(strangers, to_target - apart, torch.nan)
    return scores


def face_scores(now: Reading, target: Reading) -> dict[str, Tensor]:
    """Return the measures of pose, expression and gaze of K pairs, (K,) each."""
    parts = shape.expression_error(now.mesh, target.mesh)
    return {
        "pose": shape.pose_error(now.pose, target.pose),
        "turn": shape.turn_error(now.mesh, target.mesh),
        "expression": parts["all"],
        **{name: parts[name] for name in ("eyes", "brows", "lips")},
        "gaze": shape.gaze_error(now.mesh, target.mesh),
    }


def pixel_scores(crops: Tensor, scene: Scenes) -> dict[str, Tensor]:
    """Return the measures of pixels of K pairs, (K,) each.

    ``crops`` (K, 3, S, S) are the results, cut at the same places as the scenes.
    """
    lab = scene.lab if crops is scene.crops else to_oklab(crops)
    return {
        "sharpness": pixels.sharpness(crops, scene),
        "colour": pixels.colour_shift(lab, scene),
        "seam": pixels.seam(lab, scene),
    }


def outside_scores(
    after: Sequence[Tensor], before: Sequence[Tensor], scene: Scenes
) -> dict[str, Tensor]:
    """Return how many pixels changed outside of the face, (K,), in K pictures (H, W, 3)."""
    rows = zip(after, before, scene.matrices, scene.outline, strict=True)
    return {"outside": torch.tensor([float(pixels.changed_outside(*row)) for row in rows])}
