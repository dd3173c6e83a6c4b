"""Measure a 720p clip on a CPU, from pixels to pixels: stages, milliseconds, frames a second.

    python benchmarks/live_cpu.py [--frames 120] [--threads 1] [--at-once 1 2] [--json out.json]

The head of a bundled portrait sways, nods and comes nearer before a camera with noise. All frames
are made beforehand and kept, so nothing is decoded or encoded. First they are swapped one after
another, stage by stage; then, for each number of ``--at-once``, as ``mien swap`` does it: so many
are made at once while the next are watched. What comes out is compared. All times are medians. On a
machine that others use, trust those by the processor's clock, and of the others only ratios.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import pi, sin
from pathlib import Path
from time import perf_counter, process_time
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from PIL import Image

import mien
from mien.evaluate.moving import Place, actor, play, times
from mien.pipeline import Cast
from mien.types import Frame

PORTRAITS = Path(__file__).parent.parent / "examples" / "portraits"
CONSENT = "Generated: no real person is shown."
RATE = 25
NOISE = 2.0
"""Standard deviation of the camera's noise in codes."""

STAGES = ("track", "detect", "landmark", "embed", "align", "swap", "mask", "occlusion", "blend")
WARM = 10
"""Frames at the beginning that do not count: everything is done in them for the first time."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--frames", type=int, default=120)
    parser.add_argument("--size", default="1280x720")
    parser.add_argument("--model", default="mien-lite")
    parser.add_argument("--threads", type=int, default=1, help="of a network, and of PyTorch")
    parser.add_argument("--at-once", type=int, nargs="*", default=[1, 2], help="frames at once")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    width, height = map(int, options.size.split("x"))
    torch.set_num_threads(options.threads)
    swapper = mien.Swapper(model=options.model, threads=options.threads)
    cast = swapper.cast(swapper.identity(PORTRAITS / "dev.jpg", consent=CONSENT))
    clip = list(filmed(height, width, options.frames + WARM))
    print(f"{options.model}, {options.size}, {options.threads} thread(s) a network")
    rows: dict[str, Any] = {"model": options.model, "size": options.size}
    rows["threads"] = options.threads
    rows["one after another"], wanted = one_after_another(swapper, cast, clip)
    for count in options.at_once:
        rows[f"{count} at once"], found = at_once(swapper, cast, clip, count)
        if found != wanted:
            raise SystemExit(f"{count} at once: the frames are not those of one after another")
    rows["digest"] = wanted
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


def filmed(height: int, width: int, count: int) -> Iterator[Frame]:
    """Yield ``count`` frames in which a head moves as one does that speaks to a camera."""
    with Image.open(PORTRAITS / "ben.jpg") as image:
        portrait = torch.from_numpy(np.array(image.convert("RGB")))

    def path(t: float) -> Place:
        return Place(
            width * (0.5 + 0.08 * sin(2 * pi * t / 3)),
            height * (0.5 + 0.02 * sin(2 * pi * t / 0.9)),
            1 + 0.1 * sin(2 * pi * t / 4),
            6 * sin(2 * pi * t / 1.7),
        )

    head = actor(portrait, round(0.8 * height), path)
    yield from play([head], times(count / RATE, RATE), size=(height, width), noise=NOISE)


def copied(clip: Sequence[Frame]) -> list[Frame]:
    """Return the frames with pixels of their own, as swapping changes them."""
    return [replace(frame, pixels=frame.pixels.clone()) for frame in clip]


def digest(frames: Sequence[Frame]) -> str:
    """Return a sha256 of all pixels."""
    total = hashlib.sha256()
    for frame in frames:
        total.update(frame.pixels.numpy().tobytes())
    return total.hexdigest()


def one_after_another(
    swapper: mien.Swapper, cast: Cast, clip: Sequence[Frame]
) -> tuple[dict[str, float], str]:
    """Return milliseconds by stage and in all, by both clocks, and what was made."""
    rows: dict[str, float] = {}
    found = ""
    print(f"  {'one after another':<28}{'wall':>10}{'processor':>12}")
    both = []
    for name, clock in (("wall", perf_counter), ("processor", process_time)):
        frames, pipeline = copied(clip), swapper.clip(cast)
        each: list[dict[str, float]] = []
        with patch("mien.pipeline.stopwatch.perf_counter", clock):
            for frame in frames:
                began = clock()
                done = pipeline(frame)
                took = {"whole": clock() - began, **done.timings}
                took["other"] = took["whole"] - sum(done.timings.values())
                each.append(took)
        found = digest(frames)
        # what is not done in each frame would have a median of nothing
        seldom = {"detect", "embed"}
        both.append(
            {
                stage: (statistics.fmean if stage in seldom else statistics.median)(
                    [1e3 * took.get(stage, 0.0) for took in each[WARM:]]
                )
                for stage in (*STAGES, "other", "whole")
            }
        )
        rows |= {f"{stage}, {name}": value for stage, value in both[-1].items()}
    for stage in both[0]:
        print(f"  {stage:<28}{both[0][stage]:>10.2f}{both[1][stage]:>12.2f} ms")
    rows["frames a second"] = 1e3 / rows["whole, wall"]
    print(f"  {'frames a second':<28}{rows['frames a second']:>10.1f}", flush=True)
    return rows, found


def at_once(
    swapper: mien.Swapper, cast: Cast, clip: Sequence[Frame], count: int
) -> tuple[dict[str, float], str]:
    """Return what a frame takes when ``count`` are made at once, and what was made."""
    frames, pipeline = copied(clip), swapper.clip(cast)
    ends, began = [], process_time()
    for number, _ in enumerate(pipeline.run(frames, threads=count)):
        if number == WARM - 1:
            began = process_time()
        ends.append(perf_counter())
    each = len(frames) - WARM
    rows = {
        "whole, wall": 1e3 * (ends[-1] - ends[WARM - 1]) / each,
        "whole, processor": 1e3 * (process_time() - began) / each,
    }
    rows["frames a second"] = 1e3 / rows["whole, wall"]
    print(f"  {f'{count} at once, a frame':<28}{rows['whole, wall']:>10.2f}", end="")
    print(f"{rows['whole, processor']:>12.2f} ms")
    print(f"  {'frames a second':<28}{rows['frames a second']:>10.1f}", flush=True)
    return rows, digest(frames)


if __name__ == "__main__":
    main()
