"""A run's state in files: whole for the next run on this machine, compact to be carried away.

The compact state is a few pieces small enough for any transfer. It holds the averaged network as
float16, the network as int8 differences from it, and the discriminators as float16; optimisers
start anew from it, with a warm-up. The whole state resumes exactly.
"""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mien.errors import TrainingError
from mien.train.loop import Trainer

PIECE = 15 * 2**20
"""Bytes of a piece at most."""

WHOLE, MANIFEST, STEM = "whole.pt", "state.json", "state"

State = dict[str, Tensor]


def save_whole(trainer: Trainer, folder: Path, notes: dict[str, Any]) -> None:
    """Write everything that ``load`` needs to go on as if nothing had happened."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {
        "swapper": trainer.swapper.state_dict(),
        "average": trainer.average.state_dict(),
        "critics": trainer.critics.state_dict(),
        "optimiser": trainer.optimiser.state_dict(),
        "optimiser_critics": trainer.optimiser_critics.state_dict(),
        "since_start": trainer.since_start,
        "notes": notes | {"step": trainer.step},
    }
    torch.save(state, folder / f"{WHOLE}.new")
    (folder / f"{WHOLE}.new").replace(folder / WHOLE)


def save_compact(trainer: Trainer, folder: Path, notes: dict[str, Any]) -> int:
    """Write the compact state in pieces and return its size in bytes.

    The state before stays whole until all of this one is written; who reads between the renames
    finds pieces that do not fit, and is told so.
    """
    folder.mkdir(parents=True, exist_ok=True)
    average = {name: value.half() for name, value in trainer.average.state_dict().items()}
    ahead = {
        name: _difference(value.float(), average[name].float())
        for name, value in trainer.swapper.state_dict().items()
    }
    buffer = io.BytesIO()
    torch.save(
        {
            "average": _on_cpu(average),
            "ahead": {name: _on_cpu(parts) for name, parts in ahead.items()},
            "critics": _on_cpu({k: v.half() for k, v in trainer.critics.state_dict().items()}),
        },
        buffer,
    )
    content = buffer.getvalue()
    pieces = [content[i : i + PIECE] for i in range(0, len(content), PIECE)]
    manifest = notes | {
        "step": trainer.step,
        "pieces": len(pieces),
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    files = {f"{STEM}.{index}": piece for index, piece in enumerate(pieces)}
    files[MANIFEST] = json.dumps(manifest, indent=1).encode()
    for name, piece in files.items():
        (folder / f"{name}.new").write_bytes(piece)
    for name in files:
        (folder / f"{name}.new").replace(folder / name)
    return len(content)


def load(trainer: Trainer, folders: list[Path]) -> dict[str, Any] | None:
    """Load the state that is furthest of those in ``folders``; return its notes, None if none is.

    Raises TrainingError when pieces are damaged, of different states or of another network.
    """
    states = [(folder, *pair) for folder in folders if (pair := _read(folder)) is not None]
    if not states:
        return None
    folder, notes, state = max(states, key=lambda each: int(each[1]["step"]))
    try:
        _take(trainer, notes, state)
    except (RuntimeError, KeyError, ValueError) as error:
        advice = "Train with the recipe it was made with, or begin without it."
        raise TrainingError(folder, "its networks are not those of the recipe", advice) from error
    return notes


def _take(trainer: Trainer, notes: dict[str, Any], state: dict[str, Any]) -> None:
    average: State = {name: value.float() for name, value in state["average"].items()}
    trainer.average.load_state_dict(average)
    if "ahead" in state:
        swapper = {name: average[name] + _restored(*p) for name, p in state["ahead"].items()}
        trainer.swapper.load_state_dict(swapper)
        trainer.critics.load_state_dict({k: v.float() for k, v in state["critics"].items()})
    else:
        trainer.swapper.load_state_dict(state["swapper"])
        trainer.critics.load_state_dict(state["critics"])
        trainer.optimiser.load_state_dict(state["optimiser"])
        trainer.optimiser_critics.load_state_dict(state["optimiser_critics"])
        trainer.since_start = state["since_start"]
    trainer.step = notes["step"]


def averaged(folder: Path) -> tuple[State, dict[str, Any]]:
    """Return the averaged network's weights, float32, of a state in ``folder``, and its notes.

    Raises TrainingError when there is none, or it is damaged.
    """
    found = _read(folder)
    if found is None:
        advice = f"A state is {MANIFEST} with its pieces, or {WHOLE}."
        raise TrainingError(folder, "there is no training state in it", advice)
    notes, state = found
    return {name: value.float() for name, value in state["average"].items()}, notes


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Any]] | None:
    try:
        found = _stored(folder)
        if found is not None:
            _ = int(found[0]["step"]), found[1]["average"]
    except Exception as error:  # what PyTorch raises on damaged files shares no base
        advice = "Copy it again, or go on from an older one."
        reason = "the state is damaged, or its pieces are of two states"
        raise TrainingError(folder, reason, advice) from error
    return found


def _stored(folder: Path) -> tuple[dict[str, Any], dict[str, Any]] | None:
    if (folder / WHOLE).exists():
        state = torch.load(folder / WHOLE, map_location="cpu", weights_only=True)
        return state["notes"], state
    if not (folder / MANIFEST).exists():
        return None
    notes = json.loads((folder / MANIFEST).read_text())
    pieces = [folder / f"{STEM}.{index}" for index in range(notes["pieces"])]
    content = b"".join(piece.read_bytes() for piece in pieces)
    if hashlib.sha256(content).hexdigest() != notes["sha256"]:
        raise ValueError("the pieces are not those of the manifest")
    return notes, torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)


def _on_cpu(state: Any) -> Any:
    if isinstance(state, dict):
        return {name: value.cpu() for name, value in state.items()}
    return tuple(value.cpu() for value in state)


def _difference(value: Tensor, base: Tensor) -> tuple[Tensor, Tensor]:
    """Return value - base as int8 and one scale for each of its rows."""
    rows = (value - base).flatten(1) if value.ndim > 1 else (value - base)[None]
    scale = (rows.abs().amax(dim=1, keepdim=True) / 127).clamp_min(1e-12)
    return (rows / scale).round().to(torch.int8).view(value.shape), scale


def _restored(values: Tensor, scale: Tensor) -> Tensor:
    rows = values.flatten(1) if values.ndim > 1 else values[None]
    return (rows.float() * scale).view(values.shape)
