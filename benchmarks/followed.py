"""How steady, and how often followed, the faces of a steadied replay are.

    python benchmarks/followed.py [--rate 30] [--seconds 1.5] [--json out.json]

The clips are those of steady.py: a CC0 portrait, moved by known motions before a camera with noise,
so the truth is known. Each goes through a replay whose frames are all made from the detector's
places on, and through one that follows faces where nothing new is in sight. The networks that find
faces are those that ship; what is laid over them does not matter here, and is a mere negative.
Runs on a CPU, step by step. Times are for a GPU: see gpu.py.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import torch
from steady import MOTIONS, Way, jitter, portrait, still
from torch import Tensor

from mien.evaluate.moving import Actor, Place, actor, play, times
from mien.geometry import apply, invert
from mien.loader import Loader
from mien.models import Catalogue, DetectorContract, MeshContract
from mien.pipeline import FaceFinder
from mien.replay.frame import Part, WholeFrame
from mien.replay.graph import Replay

WAYS: dict[str, Way] = {
    "still": still,
    **MOTIONS,
    "shaken, 3 Hz by 40 px": lambda t: Place(320 + 40 * math.sin(6 * math.pi * t), 180),
    "comes and goes": lambda t: None if 0.5 <= t % 1 < 0.75 else Place(320, 180),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rate", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--noise", type=float, nargs="*", default=[2.0, 5.0])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    loader = Loader(Catalogue(), "cpu", allow_fallback=False, threads=1)
    parts = {
        "detector": Part(*loader.load("yunet", DetectorContract)),
        "mesh": Part(*loader.load("facemesh", MeshContract)),
        "swapper": Part(negative, Catalogue().card("mien-lite").contract),
    }
    finder = loader.finder("yunet")
    rows = []
    print("motion, noise: jitter looked for, followed (px); frames followed, made twice; missed")
    with torch.inference_mode():
        for name, way in WAYS.items():
            for noise in options.noise:
                row = {"motion": name, "noise": noise}
                rows.append(row | measured(parts, finder, way, noise, options))
                print("  {motion}, {noise:g}: {looked_for:.3f}, {followed:.3f}; "
                      "{share:.0%}, {twice:.0%}; missed {missed}".format(**rows[-1]),
                      flush=True)  # fmt: skip
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


def negative(inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {"output": -inputs["target"]}


def measured(
    parts: Mapping[str, Part],
    finder: FaceFinder,
    way: Way,
    noise: float,
    options: argparse.Namespace,
) -> dict[str, Any]:
    """Return what the points of a face tremble in both replays, and how often one follows."""
    head = actor(portrait("ben"), 240, way)
    moments = times(options.seconds, options.rate)
    found: dict[bool, list[Tensor | None]] = {}
    meanwhile = None
    for follow in (False, True):
        whole = WholeFrame(parts, height=360, width=640, slots=1, steady=True)
        blank = torch.zeros(360, 640, 3, dtype=torch.uint8)
        replay = Replay(whole, torch.zeros(1, 128), None, frame=blank, follow=follow)
        outcomes = replay.stream(play([head], moments, noise=noise, size=(360, 640)))
        found[follow] = [each.points[0].clone() if int(each.ids[0]) >= 0 else None
                         for each in outcomes]  # fmt: skip
        meanwhile = replay.foresight
    assert meanwhile is not None
    both = [i for i, pair in enumerate(zip(*found.values(), strict=True)) if None not in pair]
    points = {follow: together(row, both) for follow, row in found.items()}
    truth = true_points(finder, head, [float(moments[i]) for i in both])
    seen = [way(float(moment)) is not None for moment in moments]
    return {
        "looked_for": jitter(points[False], truth),
        "followed": jitter(points[True], truth),
        "missed": [
            sum(there for there, each in zip(seen, row, strict=True) if each is None)
            for row in found.values()
        ],
        "share": (meanwhile.followed - meanwhile.in_vain) / len(moments),
        "twice": meanwhile.in_vain / len(moments),
    }


def together(found: list[Tensor | None], which: list[int]) -> Tensor:
    """Return what was ``found`` in some frames, (T, 5, 2)."""
    return torch.stack([each for i in which if (each := found[i]) is not None])


def true_points(finder: FaceFinder, head: Actor, moments: list[float]) -> Tensor:
    """Return the five points (T, 5, 2) at ``moments``, as they are found in a frame without noise.

    What is found amid the clip is moved along.
    """
    amid = Fraction(moments[len(moments) // 2])
    clean = finder(next(iter(play([head], [amid], size=(360, 640)))).view)
    own = apply(invert(head.matrix(float(amid))), clean.points[0])
    return torch.stack([apply(head.matrix(t), own) for t in moments])


if __name__ == "__main__":
    main()
