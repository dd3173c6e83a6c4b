"""How steady and how true what is kept before faces of clips is: flicker, overlap, lag, ghosts.

    python benchmarks/covered.py [--quick] [--json FILE]

A hand as the occlusion network's training draws it goes before a CC0 portrait, before a camera with
noise, so what is seen of the face is known. Each row tells of each frame alone, and steadied.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from steady import CONSENT, PORTRAITS, RATE, Way, portrait, still
from torch import Tensor
from torch.nn import functional

import mien
from mien.evaluate.clips import flicker
from mien.evaluate.moving import Actor, Place, actor, play, times
from mien.evaluate.pixels import SIZE, cut_each, scenes
from mien.geometry import apply, compose, invert, sample
from mien.pipeline import ClipPipeline, Policy
from mien.pipeline.covering import Coverer
from mien.pipeline.patch import shown as how_far
from mien.pipeline.watching import Watcher
from mien.stages.align import align
from mien.stages.mask import face_mask
from mien.train.occlusion.canvas import Dice, Site
from mien.train.occlusion.hands import hand
from mien.types import Frame

NOISE = 3.0
WARM = 5
AROUND = 4
"""Frames before and after an edge has passed in which a pixel must not change, to tell the lag."""

FACES: dict[str, Way] = {"still": still, "60 px/s": lambda t: Place(240 + 60 * t, 180)}
HANDS: dict[str, Way | None] = {
    "none": None,
    "still": lambda _: Place(340, 230),
    "60 px/s": lambda t: Place(270 + 60 * t, 220),
    "200 px/s": lambda t: Place(180 + 200 * t, 220),
    "600 px/s": lambda t: Place(-60 + 600 * t, 220),
    "300 px/s, then stops": lambda t: Place(130 + 300 * min(t, 0.7), 220),
    "gone at 0.6 s": lambda t: Place(340, 210) if t < 0.6 else None,
}


def drawn_hand(side: int, path: Way, seed: int = 0) -> Actor:
    """Return a hand in a picture of ``side`` pixels."""
    line = torch.linspace(-2.4, 2.4, 256)
    v, u = torch.meshgrid(line + 1.5, line, indexing="ij")
    site = Site(
        u=u[None],
        v=v[None],
        mesh=torch.zeros(1, 468, 2),
        pixel=torch.full((1, 1, 1), 4.8 / 256),
        skin=torch.tensor([[0.75, 0.55, 0.45]]),
        other=torch.tensor([[0.60, 0.42, 0.35]]),
        scraps=torch.zeros(1, 3, 256, 256),
        dice=Dice(seed, torch.device("cpu")),
    )
    layer = hand(site)
    planes = torch.cat([layer.colour, layer.alpha], dim=1)
    small = functional.interpolate(planes, (side, side), mode="bilinear", antialias=True)[0]
    pixels = (small[:3] * 255).round().clamp(0, 255).to(torch.uint8).permute(1, 2, 0)
    return Actor(pixels, path, head=False, opacity=small[3].clamp(0, 1))


@dataclass(frozen=True, eq=False)
class Masks:
    """What is seen of the face in T frames, (T, S, S) each."""

    alone: Tensor
    steadied: Tensor
    truth: Tensor
    shape: Tensor


def masks(swapper: mien.Swapper, frames: Sequence[Frame], before: Actor | None) -> Masks:
    """Return what is found and what is true of the one face of a clip."""
    pipeline = swapper.clip(swapper_cast(swapper)).pipeline
    occlusion, contract = pipeline.make.occlusion, pipeline.swap.contract
    assert occlusion is not None
    watcher = Watcher(pipeline.finder, pipeline.embedder, largest_only=True)
    coverers = [Coverer(occlusion, contract, smooth=smooth) for smooth in (False, True)]
    rows: list[tuple[Tensor, ...]] = []
    for frame in frames:
        sight = watcher(frame)
        face = sight.faces[[0]]
        crops = align(frame, face, contract)
        both = [
            how_far(each(frame, face, fresh=sight.fresh).seen(face, crops), crops.size)[0]
            for each in coverers
        ]
        assert face.mesh is not None
        assert frame.time is not None
        shape = face_mask(apply(crops.matrices, face.mesh[..., :2]), crops.size)[0]
        truth, time = torch.ones_like(shape), float(frame.time)
        if before is not None and before.path(time) is not None:
            back = invert(compose(crops.matrices, before.matrix(time)[None]))[0]
            shown = sample(before.layer()[:, 3:], back, crops.size, crops.size, outside="zeros")
            truth = 1 - shown[0, 0]
        rows.append((*both, truth, shape))
    return Masks(*(torch.stack(column) for column in zip(*rows, strict=True)))


def swapper_cast(swapper: mien.Swapper) -> mien.pipeline.Cast:
    return swapper.cast(swapper.identity(PORTRAITS / "dev.jpg", consent=CONSENT))


def unrest(found: Tensor, all_masks: Masks) -> float:
    """Return the flicker of a mask: as of a clip, what differs from the truth over time, x 100."""
    off = (found - all_masks.truth)[WARM:]
    jump = off[:-2] - 2 * off[1:-1] + off[2:]
    weights = all_masks.shape[WARM + 1 : -1]
    return 100 * math.sqrt(float((jump.square() * weights).sum() / weights.sum()))


def overlap(found: Tensor, all_masks: Masks) -> float:
    """Return the mean IoU of what is seen within the face."""
    within = all_masks.shape > 0.5
    a, b = (found > 0.5) & within, (all_masks.truth > 0.5) & within
    return float(((a & b).sum((1, 2)) / (a | b).sum((1, 2)).clamp_min(1)).mean())


def lag(found: Tensor, all_masks: Masks, *, seen: bool) -> float | None:
    """Return how many frames later than they are pixels are found hidden, or ``seen``, on average.

    Counted are those that change once within AROUND frames, in truth and as they are found.
    """
    truth, got = (all_masks.truth > 0.5) == seen, (found > 0.5) == seen
    lags: list[Tensor] = []
    for i in range(AROUND, len(truth) - AROUND):
        span = slice(i - AROUND, i + AROUND)
        at = ~truth[i - AROUND : i].any(dim=0) & truth[i : i + AROUND].all(dim=0)
        at &= (all_masks.shape[i] > 0.5) & ~got[i - AROUND] & got[i + AROUND - 1]
        lags.append((~got[span][:, at]).sum(dim=0).float() - AROUND)
    found_lags = torch.cat(lags)
    return round(float(found_lags.mean()), 2) if len(found_lags) > 50 else None


def flickers(swapper: mien.Swapper, frames: Sequence[Frame]) -> list[float]:
    """Return the evaluation's flicker of the swapped clip: masks each alone, and steadied."""
    cast, scores = swapper_cast(swapper), []
    for smooth in (False, True):
        pipeline = swapper.clip(cast)
        pipeline._coverer = _coverer(pipeline, smooth=smooth)
        copies = [replace(frame, pixels=frame.pixels.clone()) for frame in frames]
        done = list(pipeline.run(copies))[WARM:]
        faces = [each.faces[[0]] for each in done]
        points = torch.cat([face.points for face in faces])
        mesh = torch.cat([face.mesh for face in faces if face.mesh is not None])
        scene = scenes([frame.view for frame in frames[WARM:]], points, mesh)
        inside = (scene.depth >= scene.soft).float()
        crops = cut_each([each.frame.pixels for each in done], scene.matrices, SIZE)
        scores.append(round(flicker(crops, scene.crops, inside), 3))
    return scores


def ghosts(swapper: mien.Swapper) -> dict[str, float]:
    """Return by how many codes a hand is painted over by a held face: masks of old, and of now."""
    before = drawn_hand(420, lambda t: Place(700 - 500 * t if t < 0.8 else 300, 235))
    frames = list(play([actor(portrait("ben"), 260, still), before], times(1.4, RATE), noise=NOISE))
    off = {}
    for name in ("as it was", "as it is"):
        pipeline = swapper.clip(swapper_cast(swapper), policy=Policy("hold", hold=0.6, fade=0.2))
        if name == "as it was":
            pipeline._carried = lambda *_: ()  # type: ignore[method-assign]
        total, count = 0.0, 0.0
        for frame in frames:
            copy = replace(frame, pixels=frame.pixels.clone())
            done = pipeline(copy)
            assert frame.time is not None
            matrix = before.matrix(float(frame.time))
            alpha = sample(before.layer()[:, 3:], invert(matrix), 360, 640, outside="zeros")[0, 0]
            face = done.faces.boxes[0].round().int().tolist() if len(done.faces) else [0] * 4
            part = (slice(face[1], face[3]), slice(face[0], face[2]))
            bad = [event for event in pipeline.events if event.end == frame.time]
            if bad:
                change = (copy.pixels.float() - frame.pixels.float()).abs().mean(dim=2)
                total += float((change * alpha)[part].sum())
                count += float(alpha[part].sum())
        off[name] = round(total / max(count, 1), 2)
    return off


def _coverer(pipeline: ClipPipeline, *, smooth: bool) -> Coverer:
    networks = pipeline.pipeline
    assert networks.make.occlusion is not None
    return Coverer(networks.make.occlusion, networks.swap.contract, smooth=smooth)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="masks only, which need no swaps")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    swapper, rows = mien.Swapper(threads=1), []
    for face, way in FACES.items():
        for name, path in HANDS.items():
            before = None if path is None else drawn_hand(240, path)
            actors = [actor(portrait("ben"), 260, way), *([before] if before else [])]
            frames = list(play(actors, times(1.3, RATE), noise=NOISE))
            found = masks(swapper, frames, before)
            row: dict[str, Any] = {"face": face, "hand": name}
            both = (found.alone, found.steadied)
            row["mask flicker"] = [round(unrest(each, found), 2) for each in both]
            row["IoU"] = [round(overlap(each, found), 4) for each in both]
            row["lag, hidden"] = [lag(each, found, seen=False) for each in both]
            row["lag, seen"] = [lag(each, found, seen=True) for each in both]
            if not options.quick and name in ("none", "still", "60 px/s") and face == "still":
                row["flicker"] = flickers(swapper, frames)
            rows.append(row)
            print(row, flush=True)
    report: dict[str, Any] = {"masks": rows}
    if not options.quick:
        report["hand painted over by a held face, codes"] = ghosts(swapper)
        print(report["hand painted over by a held face, codes"])
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
