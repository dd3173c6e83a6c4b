"""The whole measurement, from a plan to a report."""

from __future__ import annotations

from collections.abc import Callable

import torch

from mien.bench.fixed import ReplayPath
from mien.bench.measure import Limits, measure
from mien.bench.paths import Path, SwapperPath
from mien.bench.plan import Plan
from mien.bench.report import Report, look_at_setting
from mien.bench.scene import Scene
from mien.doctor.machine import look_at_machine
from mien.errors import EngineError, InvalidOption
from mien.models import Catalogue


def unheard(what: str) -> None:
    """Tell nobody ``what`` is being done."""
    del what


def bench(plan: Plan, *, progress: Callable[[str], object] = unheard) -> Report:
    """Return what was measured by ``plan``; ``progress`` is told what is being done.

    Raises MeasurementFailed for a frame that could not be swapped, and what a Swapper raises.
    """
    progress("Loading")
    swapper = SwapperPath(plan)
    paths: list[Path] = [swapper]
    notes: list[str] = []
    device = _device(plan)
    if device is not None:
        try:
            paths.append(ReplayPath(plan, device, swapper.identity))
        except (EngineError, InvalidOption) as error:
            if plan.device is not None:  # it was asked for
                raise
            notes.append(f"Frames of fixed capacity were not measured on {device}: {error}")
    limits = Limits(plan.seconds, plan.frames, plan.workers)
    rows = []
    for path in paths:
        for size in plan.sizes:
            for faces in plan.faces:
                scene = Scene(size, faces)
                progress(f"Measuring {path.name}, {scene}")
                rows.append(measure(path, scene, limits))
    catalogue = Catalogue(plan.models)
    networks = {name: on for path in paths for name, on in path.networks.items()}
    digests = {name: catalogue.card(name).sha256 for name in networks}
    return Report(
        setting=look_at_setting(look_at_machine(), plan),
        networks={
            path.name: {name: (digests[name], on) for name, on in path.networks.items()}
            for path in paths
        },
        cold={path.name: {k: v * 1e3 for k, v in path.cold.items()} for path in paths},
        rows=tuple(rows),
        notes=tuple(notes),
    )


def _device(plan: Plan) -> torch.device | None:
    """Return where frames of fixed capacity are to be measured, or None: nowhere."""
    if plan.device is None and not torch.cuda.is_available():
        return None
    device = torch.device(plan.device or "cuda")
    if device.type == "cuda":
        if not torch.cuda.is_available() or (device.index or 0) >= torch.cuda.device_count():
            raise InvalidOption("device", str(device), "a GPU that PyTorch sees here, or cpu")
        device = torch.device("cuda", device.index or 0)
    return device
