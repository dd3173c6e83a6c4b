"""Measure frames that never touch the host: decoded by NVDEC and swapped by the replay.

    python benchmarks/nvdec.py [--frames 300] [--model mien-256] [--json out.json]
    python benchmarks/nvdec.py --device cpu --frames 2 --size 640x360    # a trial without a GPU

The clip is H.264, made here of the bundled portraits in a scene that moves. Frames a second are the
median of passes through all of it, from opening the decoder to the end of the GPU's work. Colours
are compared to those of the CPU's decoder, in codes of 255. With "--device cpu" that takes the
place of NVDEC, so that nothing but the script is tried.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import partial
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

import av
import torch
from gpu import CONSENT, PORTRAITS, around, filmed, opened
from torch import Tensor

import mien
from mien.media.clip import Clip
from mien.replay.frame import WholeFrame
from mien.replay.graph import Replay
from mien.replay.nvdec import BATCH, NvdecFrames

RATE = 25
BT709 = 1
COMPARED = 16
"""Frames whose colours are compared."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--frames", type=int, default=300)
    parser.add_argument("--size", default="1920x1080")
    parser.add_argument("--model", default="mien-256")
    parser.add_argument("--faces", type=int, nargs="*", default=[1])
    parser.add_argument("--batch", type=int, default=BATCH, help="frames decoded at once")
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 8], help="swapped at once")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    width, height = map(int, options.size.split("x"))
    device = torch.device(options.device)
    machine = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    rows: dict[str, Any] = {"machine": machine, "torch": torch.__version__, "size": options.size}
    print(f"{machine}, PyTorch {torch.__version__}, {options.model}, {width} x {height}")
    swapper = mien.Swapper(model=options.model)
    dev = swapper.identity(PORTRAITS / "dev.jpg", consent=CONSENT)
    with tempfile.TemporaryDirectory() as folder:
        for faces in options.faces:
            path = written(Path(folder) / f"{faces}.mp4", filmed(height, width, faces), options)
            rows[f"{faces} faces"] = measured(options, device, path, faces, dev)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


def written(path: Path, frames: list[Tensor], options: argparse.Namespace) -> Path:
    """Write a clip of ``options.frames`` frames, which come round again, in BT.709."""
    height, width = frames[0].shape[:2]
    with av.open(str(path), "w") as output:
        stream = output.add_stream("libx264", rate=RATE)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.codec_context.options = {"preset": "veryfast", "crf": "18"}
        stream.codec_context.colorspace = BT709
        for number, pixels in enumerate(around(frames, options.frames)):
            frame = av.VideoFrame.from_ndarray(pixels.numpy(), "rgb24")
            frame = frame.reformat(format="yuv420p", dst_colorspace=BT709)
            frame.pts, frame.time_base = number, Fraction(1, RATE)
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return path


def measured(
    options: argparse.Namespace,
    device: torch.device,
    path: Path,
    faces: int,
    dev: mien.Identity,
) -> dict[str, Any]:
    rows: dict[str, Any] = {}

    def say(name: str, value: float, unit: str) -> None:
        rows[name] = value
        print(f"  {name:<44}{value:10.3f} {unit}", flush=True)

    print(f"{faces} face(s), {path.stat().st_size / 1e6:.1f} MB")
    on_gpu = device.type == "cuda"
    frames: Iterable[Tensor] = OnCpu(path)
    if on_gpu:
        frames = NvdecFrames(path, device=device.index or 0, batch=options.batch)
    began = perf_counter()
    first = next(iter(frames)).clone()
    say("to the first frame", (perf_counter() - began) * 1e3, "ms")
    mean, most = colour_difference(frames, OnCpu(path))
    say("colours beside the CPU's decoder, mean", mean, "codes")
    say("colours beside the CPU's decoder, at most", most, "codes")

    def passes(name: str, work: Callable[[], int]) -> None:
        times = []
        for _ in range(options.passes):
            began = perf_counter()
            count = work()
            if on_gpu:
                torch.cuda.synchronize(device)
            times.append((perf_counter() - began) / count)
        say(name, 1 / statistics.median(times), "frames a second")

    whole = WholeFrame(
        opened(options.model, device),
        height=first.shape[0],
        width=first.shape[1],
        slots=faces,
        who="largest" if faces == 1 else "all",
    ).to(device)
    passes("decoded", lambda: sum(1 for _ in frames))
    for batch in options.batches:
        replay = Replay(whole, dev.embedding[None].to(device), None, frame=first, batch=batch)
        say("faces swapped", float((replay(replay.blank()).roles[0] >= 0).sum()), "")
        alone = f"computed, {batch} at once"
        passes(alone, partial(run, replay, list(around([first], options.frames))))
        passes(f"decoded and {alone}", partial(run, replay, frames))
    if on_gpu:
        say("peak of memory", torch.cuda.max_memory_allocated(device) / 1e6, "MB")
    return rows


class OnCpu:
    """The frames of a clip as mien decodes them on the CPU."""

    def __init__(self, path: Path) -> None:
        self._clip = Clip(path)

    def __iter__(self) -> Iterator[Tensor]:
        for frame in self._clip.frames():
            yield frame.picture().pixels


def run(replay: Replay, frames: Iterable[Tensor]) -> int:
    """Swap all frames, whose outcomes stay where they are; return how many there were.

    Where the last are too few for a batch, the last of them fills it up.
    """
    count, source = 0, iter(frames)
    while batch := list(islice(source, replay.batch)):
        count += len(batch)
        batch += batch[-1:] * (replay.batch - len(batch))
        outcome = replay(torch.stack(batch))
        assert outcome.pixels.device == batch[0].device
    return count


def colour_difference(frames: Iterable[Tensor], others: Iterable[Tensor]) -> tuple[float, float]:
    """Return by how much the first frames differ, on average and at most, in codes of 255."""
    means, most = [], 0
    for number, (frame, other) in enumerate(zip(frames, others, strict=True)):
        if number < COMPARED:
            off = (frame.cpu().short() - other.short()).abs()
            means.append(float(off.float().mean()))
            most = max(most, int(off.max()))
    return statistics.fmean(means), float(most)


if __name__ == "__main__":
    main()
