"""Measure the frames of a clip, from pixels to pixels and from file to file, stage by stage.

    python benchmarks/clips.py [--providers torch-cuda cpu] [--frames 300] [--json out.json]
    python benchmarks/clips.py --providers cpu --frames 4 --size 640x360     # a trial without a GPU

One large portrait in a scene that moves, H.264. From pixels to pixels frames come one after another
and two at a time, on the CPU and, where a GPU has all the networks, there. What every stage takes
is by the processor's clock: work that the GPU still owes is found in the stage that waits for it.
From file to file is what "mien swap" does, with its slow first frames, without loading.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from gpu import CONSENT, PORTRAITS, around, filmed
from nvdec import RATE, written
from torch import Tensor

import mien
from mien.pipeline import ClipPipeline
from mien.types import Frame
from mien.video import one_heap, share_cores

CPU = torch.device("cpu")
WARM = 24
"""Frames that are not timed: networks get their graphs, and the face its first embeddings."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--providers", nargs="*", default=["torch-cuda", "cpu"])
    parser.add_argument("--frames", type=int, default=300)
    parser.add_argument("--size", default="1920x1080")
    parser.add_argument("--model", default="mien-256")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    width, height = map(int, options.size.split("x"))
    frames = filmed(height, width, 1)
    rows: dict[str, Any] = {"size": options.size, "model": options.model, "frames": options.frames}
    one_heap()
    with tempfile.TemporaryDirectory() as name:
        clip = written(Path(name) / "in.mp4", frames, options)
        for provider in options.providers:
            swapper = mien.Swapper(model=options.model, provider=provider)
            share_cores(swapper.home)
            cast = swapper.cast(swapper.identity(PORTRAITS / "dev.jpg", consent=CONSENT))
            print(f"{provider}, {options.model}, {width} x {height}, frames at {swapper.home}")
            rows[provider] = {
                f"on {place}": in_memory(swapper.clip(cast), frames, place, options.frames)
                for place in dict.fromkeys([CPU, swapper.home])
            }
            report = swapper.swap_video(clip, cast, output=clip.with_name(f"{provider}.mp4"))
            rows[provider]["file to file"] = said(
                "file to file", report.seconds, report.frames, report.timings
            )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


def in_memory(
    clip: ClipPipeline, frames: list[Tensor], place: torch.device, count: int
) -> dict[str, Any]:
    """Return what frames take that lie at ``place``, copies of which are made there."""
    at = Fraction(0)

    def given(number: int) -> Iterator[Frame]:
        nonlocal at
        for pixels in around(frames, number):
            yield Frame(pixels.to(place, copy=True), time=at)
            at += Fraction(1, RATE)

    for _ in clip.run(given(WARM)):
        pass
    rows = {}
    for threads in (1, 2):
        spent: Counter[str] = Counter()
        began = perf_counter()
        for done in clip.run(given(count), threads=threads):
            spent.update(done.timings)
        if place.type == "cuda":
            torch.cuda.synchronize(place)
        name = f"frames on {place}, {threads} at once"
        rows[name] = said(name, perf_counter() - began, count, spent)
    return rows


def said(name: str, seconds: float, count: int, spent: Mapping[str, float]) -> dict[str, float]:
    """Print and return milliseconds a frame: of the whole, and of each stage in all threads."""
    row = {"whole": seconds * 1e3 / count}
    row |= {stage: taken * 1e3 / count for stage, taken in spent.items()}
    stages = ", ".join(f"{stage} {taken:.2f}" for stage, taken in row.items() if stage != "whole")
    print(f"  {name}: {row['whole']:.2f} ms, {count / seconds:.1f} a second ({stages})", flush=True)
    return row


if __name__ == "__main__":
    main()
