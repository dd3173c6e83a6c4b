"""What was measured, as data that another run can be compared with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mien.bench.measure import Row
from mien.bench.numbers import percentile
from mien.bench.plan import Plan, Size
from mien.doctor.machine import Machine
from mien.engines.onnx import usable_cores
from mien.errors import InvalidOption
from mien.version import __version__

FORMAT = 1
"""Of the JSON; it changes when a reader of the old would be misled."""


@dataclass(frozen=True, slots=True)
class Report:
    """What was measured, and on what."""

    setting: Mapping[str, Any]
    """Machine, versions and options; two runs with the same ones may be compared as they are."""

    networks: Mapping[str, Mapping[str, tuple[str, str]]]
    """By path and name: sha256, and what the network really ran on."""

    cold: Mapping[str, Mapping[str, float]]
    """Milliseconds before a path's first frame, by what they were for."""

    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    """What was left out, and why."""

    def as_dict(self) -> dict[str, Any]:
        """Return all of it, ready for JSON; times are in milliseconds."""
        return {
            "format": FORMAT,
            "setting": dict(self.setting),
            "networks": [
                {"path": path, "name": name, "sha256": digest, "provider": on}
                for path, networks in self.networks.items()
                for name, (digest, on) in networks.items()
            ],
            "cold": {
                path: {what: round(time, 1) for what, time in times.items()}
                for path, times in self.cold.items()
            },
            "rows": [_row(row) for row in self.rows],
            "notes": list(self.notes),
        }


def look_at_setting(machine: Machine, plan: Plan) -> dict[str, Any]:
    """Return what times depend on, beside the networks; nothing of it names a person."""
    versions = {
        name: version
        for name, version in machine.packages.items()
        if name in ("torch", "numpy") or name.startswith("onnxruntime")
    }
    return {
        "mien": __version__,
        "system": machine.system,
        "python": machine.python,
        "processor": machine.processor,
        "cores": usable_cores(),
        "gpus": [gpu.name for gpu in machine.gpus],
        "driver": next((gpu.driver for gpu in machine.gpus if gpu.driver), None),
        "cuda": torch.version.cuda,
        **versions,
        "model": plan.model,
        "detector": plan.detector,
        "provider": plan.provider,
        "device": plan.device,
        "threads": plan.threads,
        "gpu_memory": plan.gpu_memory,
        "by_person": plan.by_person,
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "path": row.path,
        "size": str(row.size),
        "width": row.size.width,
        "height": row.size.height,
        "faces": row.faces,
        "swapped": round(row.swapped, 2),
        "prepare": round(row.prepare, 3),
        "first": round(row.first, 3),
        "n": len(row.samples),
        "mean": round(fmean(row.samples), 3),
        **{f"p{rank}": _rounded(percentile(row.samples, rank)) for rank in (50, 95, 99)},
        "per_second": round(row.per_second, 2),
        "workers": row.workers,
        "samples": list(row.samples),
        "stages": {
            stage: {"mean": round(fmean(times), 3), "samples": list(times)}
            for stage, times in row.stages.items()
        },
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


Times = Annotated[list[float], Field(min_length=1)]


class _Read(BaseModel):
    """What is read of a report; further keys are let be."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


class _Network(_Read):
    path: str
    name: str
    sha256: str
    provider: str


class _Stage(_Read):
    samples: Times


class _Measured(_Read):
    path: str
    width: Annotated[int, Field(ge=1)]
    height: Annotated[int, Field(ge=1)]
    faces: Annotated[int, Field(ge=1)]
    swapped: float
    prepare: float
    first: float
    per_second: Annotated[float, Field(gt=0)]
    workers: int | None
    samples: Times
    stages: dict[str, _Stage]


class _File(_Read):
    format: Literal[1]
    setting: dict[str, Any]
    networks: list[_Network]
    cold: dict[str, dict[str, float]]
    rows: list[_Measured]
    notes: list[str]


def read_report(path: Path) -> Report:
    """Return the report in a file that 'mien bench --json' wrote. Raises InvalidOption."""
    try:
        read = _File.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError) as error:
        why = getattr(error, "strerror", None) or "it is something else"
        if isinstance(error, ValidationError):
            fault = error.errors()[0]
            why = f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"
        wanted = f"a file that 'mien bench --json' wrote ({why})"
        raise InvalidOption("against", str(path), wanted) from error
    networks: dict[str, dict[str, tuple[str, str]]] = {}
    for each in read.networks:
        networks.setdefault(each.path, {})[each.name] = each.sha256, each.provider
    rows = tuple(
        Row(
            path=row.path,
            size=Size(row.width, row.height),
            faces=row.faces,
            swapped=row.swapped,
            prepare=row.prepare,
            first=row.first,
            samples=tuple(row.samples),
            stages={stage: tuple(each.samples) for stage, each in row.stages.items()},
            per_second=row.per_second,
            workers=row.workers,
        )
        for row in read.rows
    )
    return Report(read.setting, networks, read.cold, rows, tuple(read.notes))
