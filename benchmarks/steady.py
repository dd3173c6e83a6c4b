"""How steady faces are in clips: jitter, lag, ids, flicker, and what watching costs.

    python benchmarks/steady.py [--clip FOLDER ...] [--rate 30] [--quick] [--json FILE]

The clips are made of the CC0 portraits, moved by known motions before a camera with noise, so the
truth is known; ``--clip`` adds folders of frames, in which only flicker and time are measured.
Flicker is that of the evaluation (second difference over time of what the swap changed, in Oklab
times 100, in crops held still by the unsmoothed landmarks).
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

import mien
from mien.evaluate.clips import flicker, read_clip
from mien.evaluate.moving import Actor, Place, actor, play, times
from mien.evaluate.pixels import SIZE, cut_each, scenes
from mien.geometry import apply, invert
from mien.loader import Loader
from mien.models import Catalogue, EmbedderContract
from mien.pipeline.watching import Sight, Watcher
from mien.stages.embed import Embedder
from mien.types import Frame

PORTRAITS = Path(__file__).parent.parent / "examples" / "portraits"
CONSENT = "Generated portraits: no real person is shown."
RATE = 30
WARM = 5
"""Frames at the beginning that do not count: the filter has seen nothing yet."""

Way = Callable[[float], Place | None]


def still(_: float) -> Place:
    return Place(320, 180)


MOTIONS: dict[str, Way] = {
    "30 px/s": lambda t: Place(200 + 30 * t, 180),
    "400 px/s": lambda t: Place(60 + 400 * t, 180),
    "stops at 300 px/s": lambda t: Place(100 + 300 * min(t, 0.7), 180),
    "shaken, 3 Hz by 12 px": lambda t: Place(320 + 12 * math.sin(6 * math.pi * t), 180),
    "nods by 15 degrees": lambda t: Place(320, 180, 1, 15 * math.sin(2 * math.pi * t)),
    "comes nearer, 30 %/s": lambda t: Place(320, 180, 1 + 0.3 * t),
}


def straight(x: float, y: float, speed: float) -> Way:
    return lambda t: Place(x + speed * t, y)


def portrait(name: str) -> Tensor:
    with Image.open(PORTRAITS / f"{name}.jpg") as image:
        return torch.from_numpy(np.array(image.convert("RGB")))


class Bench:
    """The networks, loaded once."""

    def __init__(self) -> None:
        loader = Loader(Catalogue(), "cpu", allow_fallback=False, threads=1)
        self.finder = loader.finder("yunet")
        self.embedder = Embedder(*loader.load("sface", EmbedderContract))
        self.swapper = mien.Swapper(threads=1)
        source = PORTRAITS / "dev.jpg"
        self.cast = self.swapper.cast(self.swapper.identity(source, consent=CONSENT))

    def watch(self, frames: Iterable[Frame], **options: Any) -> list[Sight]:
        """Return the faces in each frame; see Watcher for the options."""
        watcher = Watcher(self.finder, self.embedder, **options)
        return [watcher(frame) for frame in frames]

    def both(
        self,
        each: Actor,
        moments: Sequence[Fraction],
        noise: float,
        size: tuple[int, int] = (360, 640),
    ) -> list[Tensor]:
        """Return the mesh raw and smoothed, and the truth, (T, 468, 2) each."""
        clean = self.finder(next(iter(play([each], moments[:1], size=size))).view)
        assert clean.mesh is not None
        own = apply(invert(each.matrix(float(moments[0]))), clean.mesh[0, :, :2])
        truth = torch.stack([apply(each.matrix(float(t)), own) for t in moments])
        found = []
        for smooth in (False, True):
            sights = self.watch(
                play([each], moments, noise=noise, size=size), smooth=smooth, largest_only=True
            )
            meshes = [sight.faces.mesh for sight in sights if sight.faces.mesh is not None]
            found.append(torch.cat(meshes)[..., :2])
        return [*found, truth]


def jitter(found: Tensor, truth: Tensor) -> float:
    """Return the root mean square over time, points and axes of what moves beside the truth."""
    off = (found - truth)[WARM:]
    return float((off - off.mean(dim=0)).square().mean().sqrt())


def lag(smoothed: Tensor, raw: Tensor) -> float:
    """Return by how many pixels the whole face is away from where it was found, at most."""
    return float((smoothed - raw).mean(dim=1).norm(dim=-1)[WARM:].max())


def switches(sights: Sequence[Sight], paths: Sequence[Way], moments: Sequence[Fraction]) -> int:
    """Return how often the id changes of the face that is nearest to an actor, over all actors."""
    count = 0
    for path in paths:
        last = None
        for sight, moment in zip(sights, moments, strict=True):
            place = path(float(moment))
            if place is None or not len(sight.faces):
                continue
            middle = (sight.faces.boxes[:, :2] + sight.faces.boxes[:, 2:]) / 2
            away = (middle - torch.tensor([place.x, place.y])).norm(dim=1)
            if float(away.min()) > 25:
                continue
            number = int(sight.faces.ids[int(away.argmin())])
            count += last is not None and number != last
            last = number
    return count


def crossings(bench: Bench) -> list[dict[str, Any]]:
    rows = []
    for one, other in (("ben", "mei"), ("ada", "eva"), ("femi", "ben")):
        for speed in (100, 200, 400):
            seconds = 360 / (2 * speed) + 0.6
            first, second = straight(140, 190, speed), straight(500, 180, -speed)
            moments = times(seconds, RATE)
            actors = [actor(portrait(one), 260, first), actor(portrait(other), 240, second)]
            sights = bench.watch(play(actors, moments, noise=3))
            together = sum(len(sight.faces) < 2 for sight in sights)
            changed = switches(sights, (first, second), moments)
            rows.append(
                {"pair": f"{one} {other}", "px/s": speed, "hidden": together, "switches": changed}
            )
            print("crossing", rows[-1], flush=True)
    return rows


def flickers(bench: Bench, frames: list[Frame]) -> dict[str, float]:
    """Return the flicker of a clip swapped frame by frame, and by the clip's pipeline."""
    sights = bench.watch(frames, smooth=False, largest_only=True)
    kept = [i for i, sight in enumerate(sights) if len(sight.faces) and i >= WARM]
    faces = [sights[i].faces[0] for i in kept]
    points = torch.cat([face.points for face in faces])
    mesh = torch.cat([face.mesh for face in faces if face.mesh is not None])
    scene = scenes([frames[i].view for i in kept], points, mesh)
    inside = (scene.depth >= scene.soft).float()

    def score(done: list[Tensor]) -> float:
        crops = cut_each([done[i] for i in kept], scene.matrices, SIZE)
        return round(flicker(crops, scene.crops, inside), 3)

    alone = [
        torch.from_numpy(bench.swapper.swap(f.view.numpy(), bench.cast).pixels) for f in frames
    ]
    scores = {"each frame alone": score(alone)}
    for name, smooth in (("tracked", False), ("tracked and smoothed", True)):
        pipeline = bench.swapper.clip(bench.cast, smooth=smooth)
        copies = [replace(frame, pixels=frame.pixels.clone()) for frame in frames]
        scores[name] = score([done.frame.pixels for done in pipeline.run(copies)])
    return scores


def cost(bench: Bench, frames: list[Frame], rate: float) -> dict[str, float]:
    """Return milliseconds of one core that watching a frame takes, by how often is looked."""
    found = {}
    for every in (1, 4, 8):
        look = Fraction(every) / Fraction(rate).limit_denominator(1001)
        rounds = []
        for _ in range(3):
            start = process_time()
            bench.watch(frames, look=look)
            rounds.append((process_time() - start) / len(frames) * 1e3)
        found[f"look every {every}"] = round(median(rounds), 2)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--clip", type=Path, action="append", default=[])
    parser.add_argument("--rate", type=float, default=RATE, help="frames per second of the clips")
    parser.add_argument("--quick", action="store_true", help="no flicker, which needs swaps")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    bench, report = Bench(), dict[str, Any]()

    report["still"] = []
    for side, size in ((240, (360, 640)), (340, (360, 640)), (1100, (1080, 1920))):
        for noise in (2.0, 5.0):
            middle = straight(size[1] / 2, size[0] / 2, 0)
            raw, smoothed, truth = bench.both(
                actor(portrait("ben"), side, middle), times(1.2, RATE), noise, size
            )
            row: dict[str, Any] = {"side": side, "noise": noise}
            row |= {"raw px": round(jitter(raw, truth), 3)}
            row |= {"smoothed px": round(jitter(smoothed, truth), 3)}
            report["still"].append(row)
            print("still", row, flush=True)
    report["motion"] = []
    for name, path in MOTIONS.items():
        raw, smoothed, truth = bench.both(actor(portrait("ben"), 240, path), times(1.3, RATE), 3)
        row = {"motion": name, "lag px, at most": round(lag(smoothed, raw), 3)}
        row |= {"raw px": round(jitter(raw, truth), 3)}
        row |= {"smoothed px": round(jitter(smoothed, truth), 3)}
        report["motion"].append(row)
        print("motion", row, flush=True)
    report["crossings"] = crossings(bench)

    clips = {
        "one face, slow": list(
            play([actor(portrait("ben"), 260, MOTIONS["30 px/s"])], times(1.5, RATE), noise=3)
        ),
        "one face, still": list(
            play([actor(portrait("ben"), 260, still)], times(1.5, RATE), noise=3)
        ),
    }
    step = 1 / Fraction(options.rate).limit_denominator(1001)
    for folder in options.clip:
        read = read_clip(folder)
        clips[folder.name] = [Frame(pixels, time=i * step) for i, pixels in enumerate(read)]
    report["clips"] = {}
    for name, frames in clips.items():
        rate = 1 / float(frames[1].time - frames[0].time)  # type: ignore[operator]
        scores: dict[str, Any] = {"ms a frame": cost(bench, frames, rate)}
        if not options.quick:
            scores["flicker"] = flickers(bench, frames)
        report["clips"][name] = scores
        print(name, scores, flush=True)
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
