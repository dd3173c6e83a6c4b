"""One visit to a training machine: load, resume, train, keep the state safe, score.

``python -m mien.train.visit --data DIR --nets DIR --out DIR --minutes 9 --to 0.3`` does the work of
a visit within the time given, loading and scoring included.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from mien.errors import TrainingError
from mien.nets.restore import restored
from mien.nets.swapper import MIEN_256
from mien.train import packs, state
from mien.train.adults import adults
from mien.train.bank import Bank
from mien.train.faces import Watchers
from mien.train.journal import Journal
from mien.train.loop import Trainer
from mien.train.recipe import Recipe, changed, read_recipe
from mien.train.schedule import Visit
from mien.train.scores import HeldOut

LOOK = 20
"""Steps between looks at the clock."""

SAVE_EVERY, SAY_EVERY = 180.0, 10.0
"""Seconds between checkpoints, and between lines of progress."""

HELD_OUT = "heldout"

LAST = 20.0
"""Seconds kept for the last checkpoint, until one has shown how long it takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a visit is to do."""

    data: Path
    """Folder of packs; those whose names begin with ``heldout`` are for scores only."""

    nets: Path
    """Folder with the frozen networks: see ``Watchers.read``."""

    out: Path
    """Gets the compact state, the log, scores and a grid of pictures."""

    state: Path | None = None
    """Folder of a compact state to begin from."""

    begin: Path | None = None
    """ONNX file of a delivered network to go on from, of the recipe's shape."""

    teacher: Path | None = None
    """ONNX file of a delivered mien-256 that the network is to match."""

    follow: Path | None = None
    """Folder into which the teacher's own run writes its state: at each checkpoint the teacher
    becomes what is there."""

    keep: Path | None = None
    """Folder on this machine for the whole state, from which the next visit resumes exactly."""

    minutes: float | None = None
    steps: int | None = None
    start: float | None = None
    """Progress to begin at; None goes on where the state is."""

    stop: float = 1.0
    limit: int | None = None
    """Pictures of each pack to use, for trials."""

    profile: bool = False
    """Print first what the time of a step goes into."""

    device: str = "cuda"


def run(order: Order, recipe: Recipe) -> dict[str, float]:
    """Do the visit and return the last scores (empty without held-out pictures)."""
    rank, device = _placed(order.device)
    journal = Journal(order.out / "log.jsonl", rank)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    begin = None if order.begin is None else restored(order.begin, recipe.swapper)
    teacher = None if order.teacher is None else restored(order.teacher, MIEN_256)
    size = recipe.swapper.size if teacher is None else teacher.shape.size
    watchers = Watchers.read(order.nets, device)
    pack = _training(order, size, watchers, recipe, device, journal)
    bank = Bank(pack, recipe, watchers, rank=rank)
    held = _held_out(order, recipe.swapper.size, watchers, device) if rank == 0 else None
    journal.say(bank.summary())
    trainer = Trainer(recipe, watchers, device, begin=begin, teacher=teacher)
    folders = [folder for folder in (order.state, order.keep) if folder is not None]
    before = state.load(trainer, folders) or {}
    start = before.get("progress", 0.0) if order.start is None else order.start
    journal.say(f"begins at step {trainer.step}, progress {start:.3f} to {order.stop:.3f}")
    check_identity_reaches_network(trainer, bank, journal)
    trainer.compile(bank)
    seconds = None if order.minutes is None else order.minutes * 60 - journal.seconds() - LAST
    visit = Visit(start, order.stop, seconds=seconds, steps=order.steps)
    try:
        return _Run(order, recipe, journal, bank, trainer, held, visit, before).go()
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


class _Run:
    """The loop of a visit."""

    def __init__(
        self,
        order: Order,
        recipe: Recipe,
        journal: Journal,
        bank: Bank,
        trainer: Trainer,
        held: HeldOut | None,
        visit: Visit,
        before: dict[str, Any],
    ) -> None:
        self.order, self.recipe, self.journal, self.visit = order, recipe, journal, visit
        self.bank, self.trainer, self.held = bank, trainer, held
        self.history: list[dict[str, Any]] = list(before.get("history", []))
        self.skipped = int(before.get("skipped", 0))
        self._sums: dict[str, Tensor] = {}
        self._steps, self._said = 0, time.monotonic()

    def go(self) -> dict[str, float]:
        saved = time.monotonic()
        progress, over = self._look()
        if self.order.profile:
            self.profile(progress)
        while not over:
            parts = self.trainer.learn(self.bank, progress)
            self.visit.done += 1
            self._steps += 1
            for name, value in parts.items():
                self._sums[name] = self._sums.get(name, torch.zeros_like(value)) + value
            if self.order.steps is not None or self.visit.done % LOOK == 0:
                progress, over = self._look()
                if time.monotonic() - self._said > SAY_EVERY or over:
                    self._say(progress)
                if time.monotonic() - saved > SAVE_EVERY and not over:
                    self.checkpoint(progress)
                    self.follow()
                    saved = time.monotonic()
        return self.checkpoint(progress)

    def follow(self) -> None:
        """Let the teacher be what its own run has come to, if it writes where we are to look."""
        teacher, folder = self.trainer.teacher, self.order.follow
        if teacher is None or folder is None:
            return
        try:
            weights, notes = state.averaged(folder)
            teacher.load_state_dict(weights)
        except (TrainingError, RuntimeError) as error:  # none yet, or being written just now
            self.journal.say(f"the teacher stays as it is: {error}")
            return
        self.journal.say(f"the teacher is that of step {notes['step']}")

    def profile(self, progress: float) -> None:
        """Take some steps and print the operators that took most of their time."""
        for _ in range(10):
            self.trainer.learn(self.bank, progress)
        with torch.profiler.profile() as watch:
            for _ in range(5):
                self.trainer.learn(self.bank, progress)
        by = "self_cuda_time_total" if self.bank.device.type == "cuda" else "self_cpu_time_total"
        averages = watch.key_averages()
        self.journal.say(averages.table(sort_by=by, row_limit=25, max_name_column_width=60))

    def _look(self) -> tuple[float, bool]:
        """Return the progress and whether the visit is over, the same for all processes."""
        progress, over = self.visit.progress, self.visit.share >= 1
        if not dist.is_initialized():
            return progress, over
        both = torch.tensor([progress, float(over)], device=self.bank.device, dtype=torch.float64)
        dist.broadcast(both, 0)
        return float(both[0]), bool(both[1])

    def _say(self, progress: float) -> None:
        means = {name: float(value) / self._steps for name, value in self._sums.items()}
        self.skipped += round(means.get("skipped", 0.0) * self._steps)
        spent = time.monotonic() - self._said
        ranks = dist.get_world_size() if dist.is_initialized() else 1
        means["rate"] = self._steps * self.recipe.batch * ranks / spent
        means["skipped"] = float(self.skipped)
        self.journal.note("step", {"step": self.trainer.step, "progress": progress} | means)
        self._sums, self._steps, self._said = {}, 0, time.monotonic()

    def checkpoint(self, progress: float) -> dict[str, float]:
        """Write the state, then scores and pictures: what is lost least gladly comes first."""
        scores: dict[str, float] = {}
        if self.held is not None or not dist.is_initialized() or dist.get_rank() == 0:
            notes = {
                "progress": progress,
                "recipe": self.recipe.table(),
                "skipped": self.skipped,
                "history": self.history,
            }
            size = state.save_compact(self.trainer, self.order.out, notes)
            self.journal.say(f"state of {size / 2**20:.1f} MiB written")
            if self.order.keep is not None:
                state.save_whole(self.trainer, self.order.keep, notes)
            if self.held is not None:
                scores = self.held.scores(self.trainer.average)
                at = {"step": self.trainer.step, "progress": progress}
                self.history.append(at | scores)
                self.journal.note("scores", at | scores)
                self.held.grid(self.trainer.average, self.order.out / "grid.jpg")
        self._said, self._steps, self._sums = time.monotonic(), 0, {}
        return scores


def check_identity_reaches_network(trainer: Trainer, bank: Bank, journal: Journal) -> None:
    """Print how strongly each loss pulls at the picture; raise if identity does not."""
    batch, given = trainer.lesson(bank, triplets=True)
    trainer.critics.eval()  # spectral norms are not to move: a resumed run repeats steps
    with trainer._mixed():
        out = trainer.swapper(given, batch.source).float()
    out = out * batch.valid + batch.truth * (1 - batch.valid)
    terms = trainer.terms(batch, out, bank, 1.0)
    pulls = {
        name: float(torch.autograd.grad(term, out, retain_graph=True)[0].norm())
        for name, term in terms.items()
    }
    trainer.critics.train()
    journal.note("pulls", {"step": trainer.step} | pulls)
    first = next(iter(trainer.swapper.parameters()))
    reached = torch.autograd.grad(terms["sface"], first)[0].norm()
    if not float(reached) > 0:
        raise RuntimeError("the identity loss has no gradient at the network's first layer")


def _training(
    order: Order,
    size: int,
    watchers: Watchers,
    recipe: Recipe,
    device: torch.device,
    journal: Journal,
) -> packs.Pack:
    parts = []
    for path in packs.names(order.data):
        if path.name.startswith(HELD_OUT):
            continue
        pack = packs.read_pack(path, size, device, limit=order.limit)
        limits = {"youngest": recipe.youngest, "labelled": recipe.youngest_labelled}
        parts.append(adults(pack, path, watchers.age, **limits))
        journal.say(f"{path.name}: {len(parts[-1])} of {len(pack)} are old enough")
    if parts and not any(map(len, parts)):
        advice = "See youngest in the recipe: it is meant to keep minors out."
        raise TrainingError(order.data, "nobody in its packs is estimated old enough", advice)
    return packs.joined(parts)


def _held_out(order: Order, size: int, watchers: Watchers, device: torch.device) -> HeldOut | None:
    found = [path for path in packs.names(order.data) if path.name.startswith(HELD_OUT)]
    if not found:
        return None
    return HeldOut(packs.read_packs(found, size, device, limit=order.limit), watchers)


def _placed(device: str) -> tuple[int, torch.device]:
    """Join the other processes, if torchrun started several; return the rank and the device."""
    if "RANK" not in os.environ:
        return 0, torch.device(device)
    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    if device == "cuda":
        local = int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(local)
        return dist.get_rank(), torch.device("cuda", local)
    return dist.get_rank(), torch.device(device)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a visit from the command line."""
    parser = argparse.ArgumentParser(description="One visit to a training machine.")
    add = parser.add_argument
    add("--data", type=Path, required=True, help="folder of packs; heldout* are for scores")
    add("--nets", type=Path, required=True, help="folder of the frozen networks")
    add("--out", type=Path, required=True, help="folder for state, log, scores and pictures")
    add("--state", type=Path, help="folder of a compact state to begin from")
    add("--begin", type=Path, help="delivered network (ONNX) to go on from")
    add("--teacher", type=Path, help="delivered mien-256 (ONNX) to match")
    add("--follow", type=Path, help="state that the teacher's own run writes: read again and again")
    add("--keep", type=Path, help="folder for the whole state, to go on exactly from")
    add("--config", type=Path, help="recipe (TOML)")
    add("--minutes", type=float, help="time for all of it")
    add("--steps", type=int, help="steps instead of minutes")
    add("--from", dest="start", type=float, help="progress to begin at")
    add("--to", dest="stop", type=float, default=1.0, help="progress to end at")
    add("--limit", type=int, help="pictures of each pack, for trials")
    add("--profile", action="store_true", help="print what the time of a step goes into")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    add("--set", nargs="*", default=[], metavar="NAME=VALUE", help="batch=32 weights.mesh=4 ...")
    given = vars(parser.parse_args(arguments))
    recipe = changed(read_recipe(given.pop("config")), given.pop("set"))
    run(Order(**given), recipe)


if __name__ == "__main__":
    main()
