"""Measure what working on many pictures gains, and that memory stays flat.

python benchmarks/many.py [--pictures 200] [--side 1080] [--format .jpg]

The same pictures one after the other (read, swap, save) and with reading and writing overlapped, in
turn; and the resident memory after 20 pictures and after all.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from pathlib import Path
from time import perf_counter

from PIL import Image

import mien
from mien.batch import swap_files
from mien.plan import Job

PORTRAITS = Path(__file__).parent.parent / "examples" / "portraits"
ROUNDS = 5
CHUNK = 20


def resident() -> float:
    """Return the memory this process occupies, in MB (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=int, default=200)
    parser.add_argument("--side", type=int, default=1080)
    parser.add_argument("--format", default=".jpg")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        run(Path(name), options.pictures, options.side, options.format)


def run(folder: Path, pictures: int, side: int, suffix: str) -> None:
    targets = []
    for i, path in enumerate(sorted(PORTRAITS.glob("*.jpg"))):
        with Image.open(path) as image:
            targets.append(folder / f"target{i}{suffix}")
            image.resize((side, side)).save(targets[-1])
    swapper = mien.Swapper()
    dev = swapper.identity(PORTRAITS / "dev.jpg", consent="Generated: no real person is shown.")
    cast = swapper.cast(dev)

    def jobs(count: int) -> list[Job]:
        return [
            Job(targets[i % len(targets)], None, folder / f"out{i}{suffix}") for i in range(count)
        ]

    def one_by_one() -> None:
        for job in jobs(CHUNK):
            swapper.swap(job.target, cast).save(job.output)

    def overlapped(count: int = CHUNK) -> list[float]:
        memory = []
        for outcome in swap_files(swapper, jobs(count), lambda _: cast):
            if outcome.error is not None:
                raise outcome.error
            memory.append(resident())
        return memory

    one_by_one()
    ratios = []
    for _ in range(ROUNDS):
        start = perf_counter()
        one_by_one()
        middle = perf_counter()
        overlapped()
        ratios.append((middle - start) / (perf_counter() - middle))
    memory = overlapped(pictures)
    print(f"{side} px {suffix}: overlapped is {statistics.median(ratios):.2f} times as fast")
    print(f"memory after 20 pictures {memory[19]:.0f} MB, after {pictures} {memory[-1]:.0f} MB")


if __name__ == "__main__":
    main()
