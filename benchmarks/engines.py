"""PyTorch's runner beside ONNX Runtime's: every network that ships, on the same input, in turn.

    python benchmarks/engines.py --provider torch-cpu

Each network runs alternately in both, so that a busy machine slows both alike; medians, and the
ratio taken round by round. Detectors see a noisy picture of 640 x 640, the others what their
cards say.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from time import perf_counter

import torch
from torch import Tensor

from mien import Catalogue
from mien.engines import Engine, open_engine
from mien.stages.trial import RoleTrial

SEARCHED = 640


def given(engine: Engine, batch: int, device: torch.device) -> dict[str, Tensor]:
    """Return noise for an engine's inputs, on ``device``."""
    draw = torch.Generator().manual_seed(0)
    shapes = {p.name: [batch, *(size or SEARCHED for size in p.shape[1:])] for p in engine.inputs}
    return {name: torch.rand(shape, generator=draw).to(device) for name, shape in shapes.items()}


def seconds(engine: Engine, inputs: Mapping[str, Tensor], wait: Callable[[], object]) -> float:
    start = perf_counter()
    engine(inputs)
    wait()
    return perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--provider", default="torch-cpu")
    parser.add_argument("--beside", default="cpu", help="what it is compared with")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    gpu = "cuda" in options.provider
    device = torch.device(options.provider.removeprefix("torch-") if gpu else "cpu")
    wait: Callable[[], object] = torch.cuda.synchronize if gpu else lambda: None
    rows = []
    for card in Catalogue():
        if card.role in ("age", "content", "watermark"):
            continue  # what refuses or finds marks runs on the CPU whatever the provider
        pair = [
            open_engine(
                card.name,
                card.read,
                provider=provider,
                threads=options.threads,
                trial=RoleTrial(card.contract),
            )
            for provider in (options.provider, options.beside)
        ]
        inputs = given(pair[0], options.batch, device)
        for engine in pair * 3:
            seconds(engine, inputs, wait)
        times = [
            tuple(seconds(engine, inputs, wait) for engine in pair) for _ in range(options.rounds)
        ]
        row = {
            "network": card.name,
            "ms": round(median(ours for ours, _ in times) * 1e3, 2),
            "beside_ms": round(median(theirs for _, theirs in times) * 1e3, 2),
            "ratio": round(median(ours / theirs for ours, theirs in times), 2),
            "precision": getattr(pair[0], "precision", "float32"),
        }
        rows.append(row)
        print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
