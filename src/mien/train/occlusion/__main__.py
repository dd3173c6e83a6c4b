"""The command line: train for some minutes, score, keep; or write a kept network as ONNX."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from mien.nets.export import export
from mien.nets.occlusion import OCCLUSION_128, OcclusionNet
from mien.train.occlusion.bases import Bases
from mien.train.occlusion.learn import Learner, Recipe, train
from mien.train.occlusion.score import scores, sheet
from mien.train.packs import names
from mien.train.schedule import Visit

HELD_OUT = "heldout"
STATE, NOTES, SHEET = "occlusion.pt", "occlusion.json", "sheet.jpg"

RESERVE = 15.0
"""Seconds kept for scores and pictures."""


def run(given: argparse.Namespace) -> dict[str, Any]:
    """Train as asked; write the averaged network, its scores and a picture, and return the notes.

    ``given.minutes`` covers reading and scoring too.
    """
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - began:6.1f}s] {text}", flush=True)

    device = torch.device(given.device)
    found = names(given.data)
    learned = [path for path in found if not path.name.startswith(HELD_OUT)]
    held_out = [path for path in found if path.name.startswith(HELD_OUT)]
    bases = Bases.read(learned, given.nets, device, limit=given.limit)
    held = Bases.read(held_out, given.nets, device) if held_out else None
    say(f"{len(bases)} faces to learn from, {0 if held is None else len(held)} held out")
    recipe = Recipe(batch=given.batch, rate=given.rate, seed=given.seed)
    learner = Learner(OCCLUSION_128, recipe, device)
    if given.state is not None:
        weights = torch.load(given.state, map_location=device, weights_only=True)
        learner.network.load_state_dict(weights)
        learner.average.load_state_dict(weights)
        share = bases.ask(learner.average, learner.size)
        say(f"{share:.2%} of the bare faces are taken for hidden")
    seconds = None
    if given.minutes is not None:
        seconds = max(1.0, given.minutes * 60 - (time.monotonic() - began) - given.reserve)
    visit = Visit(start=given.start, stop=1.0, seconds=seconds, steps=given.steps)
    curve = train(learner, bases, visit, say)
    given.out.mkdir(parents=True, exist_ok=True)
    torch.save({k: v.cpu() for k, v in learner.average.state_dict().items()}, given.out / STATE)
    notes: dict[str, Any] = {"steps": learner.step, "recipe": asdict(recipe), "curve": curve}
    say(f"{learner.step} steps")
    if held is not None:
        sheet(learner.average, held, given.out / SHEET, learner.size)
        notes["scores"] = scores(learner.average, held, learner.size)
        for name, value in notes["scores"].items():
            say(f"{name}: {value:.4f}")
    (given.out / NOTES).write_text(json.dumps(notes, indent=1))
    return notes


def restored(path: Path) -> OcclusionNet:
    """Return the network that ``run`` wrote to ``path``, for use."""
    network = OcclusionNet(OCCLUSION_128)
    network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    return network.eval().requires_grad_(False)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Train the occlusion network, or export it.")
    add = parser.add_argument
    add("--data", type=Path, help="folder of packs; heldout* are for scores")
    add("--nets", type=Path, help="folder with facemesh.pt or facemesh.onnx")
    add("--out", type=Path, required=True, help="folder for what is made; or the ONNX file")
    add("--export", type=Path, metavar="STATE", help="write the network of a run to --out")
    add("--state", type=Path, help="weights to begin from")
    add("--from", dest="start", type=float, default=0.0, help="progress to begin at")
    add("--minutes", type=float, help="time for all of it")
    add("--steps", type=int, help="steps instead of minutes")
    add("--reserve", type=float, default=RESERVE, help="seconds of it kept for scores")
    usual = Recipe()
    add("--batch", type=int, default=usual.batch)
    add("--rate", type=float, default=usual.rate)
    add("--seed", type=int, default=usual.seed)
    add("--limit", type=int, help="pictures of each pack, for trials")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = parser.parse_args(arguments)
    if given.export is not None:
        size = export(restored(given.export), given.out)
        print(f"{given.out}: {size / 1e6:.2f} MB")
        return
    if given.data is None or given.nets is None or (given.minutes is None) == (given.steps is None):
        parser.error("--data, --nets, and either --minutes or --steps are needed")
    run(given)


if __name__ == "__main__":
    main()
