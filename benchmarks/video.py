"""Measure clips from file to file beside the bare sum of their parts, and that memory is flat.

    python benchmarks/video.py [--size 640x360] [--seconds 4] [--rounds 3] [--threads 2]
    python benchmarks/video.py --memory [--size 1920x1080] [--short 10] [--long 600] [--model NAME]

Speed: the same clip of a moving portrait is swapped from file to file and, in turn, its parts are
run alone, one after the other: decoding with PyAV, the four networks in plain ONNX Runtime as often
as the swap ran them, encoding the swapped frames with PyAV. Rounds alternate and the ratio is taken
round by round, as machines are noisy. Memory: peaks of two processes, a short and a long clip.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from time import perf_counter
from typing import Any

import av
import numpy as np
import torch
from PIL import Image
from torch import Tensor

import mien
from mien.engines import OnnxEngine
from mien.evaluate.moving import Place, actor, play, times
from mien.video import VideoReport, one_heap

PORTRAITS = Path(__file__).parent.parent / "examples" / "portraits"
CONSENT = "Generated: no real person is shown."
RATE = 25
LOOP = 2
"""Seconds after which a long clip repeats itself."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--size", default="640x360")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2, help="frames made at once")
    parser.add_argument("--model", default="mien-256")
    parser.add_argument("--memory", action="store_true", help="measure memory instead of speed")
    parser.add_argument("--short", type=float, default=10)
    parser.add_argument("--long", type=float, default=600)
    parser.add_argument("--peak-of", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    width, height = map(int, options.size.split("x"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.peak_of:
            clip = Path(options.peak_of[0])
            print(json.dumps(peak(clip, folder, options.threads, options.model)))
        elif options.memory:
            memory(folder, (width, height), (options.short, options.long), options)
        else:
            clip = film(folder / "in.mp4", (width, height), options.seconds)
            speed(clip, folder, options.rounds, options.threads, options.model)


def film(path: Path, size: tuple[int, int], seconds: float) -> Path:
    """Write a clip of a portrait, half as high as the picture, that sways before a background."""
    width, height = size
    with Image.open(PORTRAITS / "ben.jpg") as image:
        pixels = torch.from_numpy(np.array(image.convert("RGB")))
    turn = 2 * np.pi / LOOP

    def path_of(t: float) -> Place:
        x = 0.5 + 0.15 * float(np.sin(turn * t))
        return Place(width * x, height / 2, 1, 4 * float(np.cos(turn * t)))

    ben = actor(pixels, round(0.75 * height), path_of)
    loop = [
        av.VideoFrame.from_ndarray(frame.pixels.numpy(), "rgb24").reformat(format="yuv420p")
        for frame in play([ben], times(LOOP, RATE), size=(height, width))
    ]
    with av.open(str(path), "w") as output:
        stream = output.add_stream("libx264", rate=RATE, options={"preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for number in range(round(seconds * RATE)):
            frame = loop[number % len(loop)]
            frame.pts, frame.time_base = number, Fraction(1, RATE)
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return path


def ready(model: str) -> tuple[mien.Swapper, mien.Cast]:
    swapper = mien.Swapper(model=model)
    dev = swapper.identity(PORTRAITS / "dev.jpg", consent=CONSENT)
    return swapper, swapper.cast(dev)


# Speed


@contextmanager
def counted() -> Iterator[tuple[Counter[str], dict[str, tuple[OnnxEngine, Mapping[str, Tensor]]]]]:
    """Count how often each network runs in the block, and keep one of its inputs."""
    calls: Counter[str] = Counter()
    inputs: dict[str, tuple[OnnxEngine, Mapping[str, Tensor]]] = {}
    call = OnnxEngine.__call__

    def noted(engine: OnnxEngine, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        shape = "x".join(str(tuple(value.shape)) for value in given.values())
        key = f"{engine.model} {shape}"
        calls[key] += 1
        inputs.setdefault(key, (engine, {name: value.clone() for name, value in given.items()}))
        return call(engine, given)

    OnnxEngine.__call__ = noted  # type: ignore[method-assign,assignment]
    try:
        yield calls, inputs
    finally:
        OnnxEngine.__call__ = call  # type: ignore[method-assign]


def timed(action: Callable[[], object]) -> float:
    start = perf_counter()
    action()
    return perf_counter() - start


def speed(clip: Path, folder: Path, rounds: int, threads: int, model: str) -> None:
    swapper, cast = ready(model)
    out = folder / "out.mp4"

    def swap() -> VideoReport:
        return swapper.swap_video(clip, cast, output=out, threads=threads)

    with counted() as (calls, inputs):
        report = swap()
    with av.open(str(out)) as container:
        made = list(container.decode(video=0))

    def decode() -> None:
        with av.open(str(clip)) as container:
            container.streams.video[0].thread_type = "AUTO"
            for _ in container.decode(video=0):
                pass

    def networks() -> None:
        for key, count in calls.items():
            engine, given = inputs[key]
            for _ in range(count):
                engine(given)

    def encode() -> None:
        with av.open(str(folder / "bare.mp4"), "w") as output:
            stream = output.add_stream("libx264", rate=RATE)
            stream.width, stream.height = made[0].width, made[0].height
            stream.pix_fmt = "yuv420p"
            stream.codec_context.options = {"crf": "18"}
            for frame in made:
                frame.pict_type = 0
                output.mux(stream.encode(frame))
            output.mux(stream.encode(None))

    parts: dict[str, list[float]] = {"decode": [], "networks": [], "encode": []}
    wholes, to_sum, to_slowest = [], [], []
    for _ in range(rounds):
        wholes.append(timed(swap))
        for name, action in (("decode", decode), ("networks", networks), ("encode", encode)):
            parts[name].append(timed(action))
        alone = [each[-1] for each in parts.values()]
        to_sum.append(sum(alone) / wholes[-1])
        to_slowest.append(max(alone) / wholes[-1])
    frames = report.frames
    print(f"{made[0].width}x{made[0].height}, {frames} frames, {threads} made at once, CPU")
    print(f"file to file       {frames / statistics.median(wholes):7.1f} frames a second")
    for name, seconds in parts.items():
        print(f"{name:<10} alone   {frames / statistics.median(seconds):7.1f} frames a second")
    print(f"of the speed of the parts one after the other: {statistics.median(to_sum):.2f}")
    print(f"of the speed of the slowest part:              {statistics.median(to_slowest):.2f}")
    shares = ", ".join(f"{name} {share:.0%}" for name, share in report.shares.items())
    print(f"shares of the work: {shares}")


# Memory


def peak(clip: Path, folder: Path, threads: int, model: str) -> dict[str, Any]:
    """Return the peak memory of this process, in MB, after it swapped ``clip``."""
    one_heap()
    swapper, cast = ready(model)
    report = swapper.swap_video(clip, cast, output=folder / "out.mp4", threads=threads)
    unit = 1e3 if sys.platform == "linux" else 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    return {"frames": report.frames, "seconds": report.seconds, "peak": peak}


def memory(
    folder: Path, size: tuple[int, int], seconds: tuple[float, float], options: argparse.Namespace
) -> None:
    peaks = []
    for length in seconds:
        clip = film(folder / f"{length:g}.mp4", size, length)
        command = [sys.executable, __file__, "--peak-of", str(clip), "-"]
        command += ["--threads", str(options.threads), "--model", options.model]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        row = json.loads(done.stdout.splitlines()[-1])
        peaks.append(row["peak"])
        print(
            f"{size[0]}x{size[1]}, {row['frames']} frames: peak {row['peak']:.0f} MB, "
            f"{row['frames'] / row['seconds']:.1f} frames a second",
            flush=True,
        )
    print(f"the longer one needs {peaks[1] / peaks[0]:.3f} times as much")


if __name__ == "__main__":
    main()
