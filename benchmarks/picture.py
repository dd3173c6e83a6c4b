"""Time of swapping a picture beside the bare sum of its networks, in one run.

    python benchmarks/picture.py [--rounds 15] [--json FILE]

Scenes of 1, 3 and 8 CC0 portraits at 720p and 2160p are swapped through the public API. The bare
sum replays the very inputs that the engine fed its networks during one such swap through plain
ONNX Runtime sessions: what a script that did nothing else would need. The sessions do not let
waiting threads spin, by far the faster setting here when several networks take turns. The networks
that refuse are no part of the sum. "Again" is the same picture once more, of which they remember
what they said. All are timed in turn, and ratios are taken round by round, so that a machine whose
speed drifts favours none.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort
import torch
from PIL import Image
from torch import Tensor

import mien
from mien.choice import Which
from mien.engines import OnnxEngine
from mien.models import Catalogue

PORTRAITS = Path(__file__).parent.parent / "examples" / "portraits"
SCENES = ((1, 720), (3, 720), (8, 720), (1, 2160), (3, 2160), (8, 2160))
Array = npt.NDArray[Any]


def scene(faces: int, height: int) -> Array:
    """Return a 16:9 picture with this many portraits in a row or in two."""
    width = height * 16 // 9
    picture = np.full((height, width, 3), 96, np.uint8)
    rows = 1 if faces <= 3 else 2
    columns = -(-faces // rows)
    side = min(width // columns, height // rows)
    files = sorted(PORTRAITS.glob("*.jpg"))
    for i in range(faces):
        with Image.open(files[i % len(files)]) as image:
            tile = np.array(image.convert("RGB").resize((side, side), Image.Resampling.LANCZOS))
        top, left = i // columns * side, i % columns * (width // columns)
        picture[top : top + side, left : left + side] = tile
    return picture


def record(work: Callable[[], object]) -> list[tuple[str, dict[str, Array]]]:
    """Run ``work`` and return the name and inputs of every network call in it."""
    calls: list[tuple[str, dict[str, Array]]] = []
    original = OnnxEngine.__call__

    def recording(self: OnnxEngine, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        calls.append((self.model, {k: v.numpy().copy() for k, v in inputs.items()}))
        return original(self, inputs)

    OnnxEngine.__call__ = recording  # type: ignore[method-assign]
    try:
        work()
    finally:
        OnnxEngine.__call__ = original  # type: ignore[method-assign]
    return calls


def seconds(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    swapper = mien.Swapper()
    source = PORTRAITS / "dev.jpg"
    identity = swapper.identity(source, consent="Generated portraits: no real person is shown.")
    settings = ort.SessionOptions()
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
    bare_sessions = {
        name: ort.InferenceSession(
            Catalogue().card(name).read(), settings, providers=["CPUExecutionProvider"]
        )
        for name in swapper.providers
    }
    guard = swapper._guard
    rows = []
    for faces, height in SCENES:
        picture = scene(faces, height)
        which: Which = "largest" if faces == 1 else "all"

        def whole(picture: Array = picture, which: Which = which) -> mien.Result:
            return swapper.swap(picture, identity, faces=which)

        def first(whole: Callable[[], mien.Result] = whole) -> None:
            guard.forget()
            whole()

        calls = [call for call in record(whole) if call[0] in bare_sessions]
        found = whole()
        if len(found.swapped.chosen) != faces:
            raise SystemExit(f"{len(found.swapped.chosen)} of {faces} faces were swapped")

        def bare(calls: list[tuple[str, dict[str, Array]]] = calls) -> None:
            for name, inputs in calls:
                bare_sessions[name].run(None, inputs)

        bare()
        times = [(seconds(first), seconds(whole), seconds(bare)) for _ in range(options.rounds)]
        stages = [whole().timings for _ in range(5)]
        rows.append(
            {
                "faces": faces,
                "height": height,
                "whole_ms": round(median(w for w, _, _ in times) * 1e3, 1),
                "again_ms": round(median(a for _, a, _ in times) * 1e3, 1),
                "bare_ms": round(median(b for _, _, b in times) * 1e3, 1),
                "ratio": round(median(w / b for w, _, b in times), 3),
                "again_ratio": round(median(a / b for _, a, b in times), 3),
                "stages_ms": {
                    name: round(median(s[name] for s in stages) * 1e3, 1) for name in stages[0]
                },
            }
        )
        row = rows[-1]
        shares = ", ".join(f"{k} {v}" for k, v in row["stages_ms"].items())  # type: ignore[attr-defined]
        print(
            f"{faces} face{'s' if faces > 1 else ' '} {height:>4}p  whole {row['whole_ms']:>7} ms  "
            f"again {row['again_ms']:>7} ms  bare {row['bare_ms']:>7} ms  "
            f"ratios {row['ratio']:.2f}, {row['again_ratio']:.2f}   ({shares})",
            flush=True,
        )
    if options.json:
        about = {
            "machine": platform.machine(),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "onnxruntime": ort.__version__,
            "rounds": options.rounds,
            "rows": rows,
        }
        options.json.write_text(json.dumps(about, indent=2) + "\n")


if __name__ == "__main__":
    main()
