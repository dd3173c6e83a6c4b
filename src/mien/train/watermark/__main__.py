"""The command line: train for some minutes, score, keep and export."""

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
from mien.train.journal import Journal
from mien.train.packs import names, read_pack, read_packs
from mien.train.schedule import Visit
from mien.train.watermark.learn import Learner, train
from mien.train.watermark.pictures import Pictures
from mien.train.watermark.recipe import Recipe, changed
from mien.train.watermark.score import Score, scores

HELD_OUT = "heldout"
STATE, NOTES, LOG = "watermark.pt", "watermark.json", "watermark.jsonl"
FILE = "watermark.onnx"

RESERVE = 40.0
"""Seconds kept for scores and files."""

SAVED = 300.0
"""Seconds between states that are kept on the way."""


def run(given: argparse.Namespace) -> dict[str, Any]:
    """Train as asked; write the network, its state, scores and log, and return the notes.

    ``given.minutes`` covers reading and scoring too.
    """
    began = time.monotonic()
    given.out.mkdir(parents=True, exist_ok=True)
    journal = Journal(given.out / LOG, 0)
    device = torch.device(given.device)
    recipe = changed(Recipe(), given.set)
    found = names(given.data)
    learned = [path for path in found if not path.name.startswith(HELD_OUT)]
    held_out = [path for path in found if path.name.startswith(HELD_OUT)]
    pack = read_packs(learned, recipe.stored, device, limit=given.limit)
    journal.say(f"{len(pack)} faces to learn from, on {given.device}")
    learner = Learner(recipe, device)
    if given.resume is not None:
        learner.resume(given.resume)
        journal.say(f"resumed at step {learner.step}, progress {learner.progress:.3f}")
    pictures = Pictures(pack.pixels, recipe.side, learner.dice)
    seconds = None
    if given.minutes is not None:
        spent = time.monotonic() - began
        seconds = max(1.0, given.minutes * 60 - spent - given.reserve)
    visit = Visit(start=learner.progress, stop=given.to, seconds=seconds, steps=given.steps)
    last = time.monotonic()

    def aside() -> None:
        nonlocal last
        if time.monotonic() - last > SAVED:
            learner.save(given.out / STATE)
            last = time.monotonic()

    started = time.monotonic()
    train(
        learner, pictures, visit, lambda v: journal.note("step", v), every=given.every, aside=aside
    )
    taken = time.monotonic() - started
    learner.save(given.out / STATE)
    notes: dict[str, Any] = {
        "steps": learner.step,
        "seconds a step": taken / max(1, visit.done),
        "recipe": asdict(recipe),
    }
    if held_out:
        held = torch.cat(
            [
                read_pack(path, recipe.side, device, limit=given.held).pixels.float() / 255
                for path in held_out
            ]
        )
        ruler = scores(learner.average, held)
        notes["scores"] = {k: asdict(v) if isinstance(v, Score) else v for k, v in ruler.items()}
        for name, value in ruler.items():
            values = asdict(value) if isinstance(value, Score) else {"value": value}
            journal.note("score", {"of": name} | values)
    export(learner.average, given.out / FILE)
    (given.out / NOTES).write_text(json.dumps(notes, indent=1))
    journal.say(f"{learner.step} steps, {notes['seconds a step'] * 1000:.1f} ms each")
    return notes


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Train the watermark's extractor.")
    add = parser.add_argument
    add("--data", type=Path, required=True, help="folder of packs; heldout* are for scores")
    add("--out", type=Path, required=True, help="folder for what is made")
    add("--minutes", type=float, help="time for all of it")
    add("--steps", type=int, help="steps instead of minutes")
    add("--resume", type=Path, metavar="STATE", help="state to go on from")
    add("--to", type=float, default=1.0, help="progress at the end; below 1 to go on later")
    add("--reserve", type=float, default=RESERVE, help="seconds of the time kept for scores")
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="change the recipe")
    add("--limit", type=int, help="pictures of each pack, for trials")
    add("--held", type=int, default=64, help="held-out pictures of each pack")
    add("--every", type=int, default=50, help="steps between lines of the log")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = parser.parse_args(arguments)
    if (given.minutes is None) == (given.steps is None):
        parser.error("either --minutes or --steps is needed")
    run(given)


if __name__ == "__main__":
    main()
