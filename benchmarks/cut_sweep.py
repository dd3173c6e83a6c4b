"""Time the candidates for the kernel that cuts faces out, block size by block size.

PYTHONPATH=src python benchmarks/cut_sweep.py
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from functools import partial
from time import perf_counter

import torch
from torch import Tensor

from mien.kernels import cut, cut_b, cut_c

HEIGHT, WIDTH = 1080, 1920
ENOUGH = 130
"""Seconds after which nothing new is begun."""

BANDWIDTH = 4.3e12
"""Bytes a second that an H200 copies."""

TILES = ((16, 8), (8, 8), (8, 16), (32, 4), (8, 4), (32, 1))


def span(low: float, high: float, scale: float, length: int) -> list[float]:
    """Return the numbers of ``Span.around``."""
    first = min(max(math.floor(low), 0), length - 1)
    last = min(max(math.ceil(high) + 1, first + 1), length)
    return [first, last, max(1, round((last - first) * scale))]


def face(x: float, y: float, size: int, scale: float, degrees: float) -> list[float]:
    """Return the row of a crop around (x, y)."""
    turn = math.radians(degrees)
    c, s = math.cos(turn) / scale, math.sin(turn) / scale
    middle = (size - 1) / 2
    back = [c, -s, x - (c - s) * middle, s, c, y - (s + c) * middle]
    half = (abs(c) + abs(s)) * size / 2 + 2 * max(1, 1 / scale)
    across = span(x - half, x + half, scale, WIDTH)
    down = span(y - half, y + half, scale, HEIGHT)
    return [*back, *across, *down, float(scale < 1)]


def whole(rows: int, columns: int) -> list[float]:
    """Return the row of a whole frame."""
    x, y = WIDTH / columns, HEIGHT / rows
    back = [x, 0, (x - 1) / 2, 0, y, (y - 1) / 2]
    return [*back, 0, WIDTH, columns, 0, HEIGHT, rows, 1]


def eight(size: int, scale: float) -> list[list[float]]:
    """Return the rows of eight crops, turned by up to 21 degrees."""
    places = [(240 + 480 * (i % 4), 270 + 540 * (i // 4)) for i in range(8)]
    return [face(x, y, size, scale, 6 * i - 21) for i, (x, y) in enumerate(places)]


CASES: dict[str, tuple[list[list[float]], int, int]] = {
    "8 crops of 256, scale 0.7": (eight(256, 0.7), 256, 256),
    "1 crop of 256, scale 0.7": (eight(256, 0.7)[1:2], 256, 256),
    "1 crop of 192, scale 0.43": (eight(192, 0.43)[1:2], 192, 192),
    "whole frame to 640 x 360": ([whole(360, 640)], 360, 640),
    "8 crops of 256, scale 1.6": (eight(256, 1.6), 256, 256),
    "1 crop of 256, scale 0.25": ([face(960, 540, 256, 0.25, 10)], 256, 256),
}


def candidates() -> dict[str, Callable[..., Tensor]]:
    """Return what is timed: the likely ones first."""
    found: dict[str, Callable[..., Tensor]] = {}

    def add(name: str, module: object, **options: object) -> None:
        def run(*given: object) -> Tensor:
            return module.cut_in(*given, **options)  # type: ignore[attr-defined, no-any-return]

        found[f"{name} {' '.join(f'{k}={v}' for k, v in options.items())}"] = run

    for taps in (6, 8, 4):
        for bits in (True, False):
            for across, down in TILES:
                add("words", cut_c, across=across, down=down, taps=taps, bits=bits)
    for across, down in TILES[:2]:
        for taps, lines in ((6, 2), (8, 2), (4, 2), (6, 3)):
            add("words", cut_c, across=across, down=down, taps=taps, lines=lines)
    for taps in (6, 8):
        for across, down in TILES[:2]:
            add("bytes", cut_b, across=across, down=down, taps=taps)
    # the likely tiles of all kinds before the others
    likely = [name for name in found if "across=16 down=8" in name or "across=8 down=8" in name]
    return {name: found[name] for name in [*likely, *(n for n in found if n not in likely)]}


def timed(action: Callable[[], Tensor]) -> float:
    """Return milliseconds of one call, of a graph of 20, the median of 20."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(20):
            action()
    for _ in range(3):
        graph.replay()
    times = []
    for _ in range(20):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 20)
    return float(statistics.median(times))


def floor(rows: list[list[float]], height: int, width: int) -> float:
    """Return milliseconds to read each source pixel once and to write the crops."""
    pixels = sum(
        min((r[7] - r[6]) * (r[10] - r[9]), height * width * abs(r[0] * r[4] - r[1] * r[3]))
        for r in rows
    )
    return (3 * pixels + 12 * len(rows) * height * width) / BANDWIDTH * 1e3


def main() -> None:
    began = perf_counter()
    frame = torch.randint(0, 256, (1, HEIGHT, WIDTH, 3), dtype=torch.uint8).cuda()
    given = {
        name: (frame, torch.tensor(rows, dtype=torch.float32).cuda(), height, width)
        for name, (rows, height, width) in CASES.items()
    }
    wanted = {name: cut.cut(*case) for name, case in given.items()}
    found: dict[str, list[tuple[float, str]]] = {
        name: [(timed(partial(cut.cut, *case)), "as it is")] for name, case in given.items()
    }
    print(f"as it is: {', '.join(f'{rows[0][0]:.4f}' for rows in found.values())}", flush=True)
    for label, run in candidates().items():
        if perf_counter() - began > ENOUGH:
            print("out of time before", label, flush=True)
            break
        shown = []
        for name, case in given.items():
            try:
                apart = float((run(*case) - wanted[name]).abs().max())
                if not apart < 1e-3:
                    print(f"WRONG by {apart:.2g}: {label}: {name}", flush=True)
                    continue
                found[name].append((timed(partial(run, *case)), label))
                shown.append(f"{found[name][-1][0]:.4f}")
            except Exception as error:  # noqa: BLE001 the compiler's errors share no base
                print(f"FAILED {label}: {next(iter(str(error).splitlines()), error)}", flush=True)
                break
        print(f"{perf_counter() - began:6.1f} s  {label}: {', '.join(shown)}", flush=True)
    for name, times in found.items():
        print(f"\n{name}", flush=True)
        for time, label in sorted(times)[:12]:
            print(f"  {time:.4f} ms  {label}")
        print(f"  {times[0][0]:.4f} ms  {times[0][1]}")
        print(f"  best {min(times)[0]:.4f} ms; reading and writing: {floor(*CASES[name]):.4f} ms")
    mean: dict[str, float] = {}
    for times in found.values():
        for time, label in times:
            mean[label] = mean.get(label, 0) + math.log(time / min(times)[0]) / len(found)
    full = [x for x in mean if all(any(x == y for _, y in times) for times in found.values())]
    print("\nhow much slower than the best of each case, geometric mean")
    for label in sorted(full, key=mean.__getitem__)[:12]:
        print(f"  {math.exp(mean[label]):.3f}  {label}", flush=True)


if __name__ == "__main__":
    main()
