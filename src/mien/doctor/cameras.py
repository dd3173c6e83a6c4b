"""The cameras, by what the system lists. No camera is opened: its light must not go on."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from mien.doctor.machine import output_of


@dataclass(frozen=True, slots=True)
class Camera:
    """One camera; on Linux, one of its devices."""

    name: str
    device: str | None = None
    """Its file in /dev, on Linux."""

    fault: str | None = None
    """Why this user cannot open it, or None if nothing is known to be in the way."""

    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Cameras:
    """The cameras, and what there is to say if none are listed."""

    listed: tuple[Camera, ...]
    note: str | None = None


def look_at_cameras() -> Cameras:
    """Return the cameras of this machine. Never fails."""
    if sys.platform == "linux":
        listed = linux_cameras()
    elif sys.platform == "darwin":
        listed = macos_cameras(output_of("system_profiler", "SPCameraDataType", "-json") or "")
    else:
        return Cameras((), "Cameras cannot be listed on this system.")
    return Cameras(listed, None if listed else "No camera is seen.")


def linux_cameras(root: Path = Path("/")) -> tuple[Camera, ...]:
    """Return the video devices below ``root``, in the order of their numbers."""
    places = [
        place
        for place in (root / "sys/class/video4linux").glob("video*")
        if place.name.removeprefix("video").isdigit()
    ]
    places.sort(key=lambda place: int(place.name.removeprefix("video")))
    return tuple(_linux_camera(place / "name", root / "dev" / place.name) for place in places)


def _linux_camera(label: Path, file: Path) -> Camera:
    device = f"/dev/{file.name}"
    try:
        name = label.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        name = "unnamed"
    if not file.exists():
        fault = f"There is no {device}."
        return Camera(name, device, fault, f"In a container: start it with --device {device}.")
    if os.access(file, os.R_OK | os.W_OK):
        return Camera(name, device)
    try:
        group = file.group()
    except (KeyError, OSError):
        group = "video"
    remedy = f"sudo usermod -aG {group} $USER, then log out and in."
    return Camera(name, device, f"This user may not open {device}.", remedy)


def macos_cameras(listed: str) -> tuple[Camera, ...]:
    """Return the cameras in what ``system_profiler SPCameraDataType -json`` prints.

    A phone is named by its model, as its own name is mostly that of its owner.
    """
    try:
        rows = json.loads(listed)["SPCameraDataType"]
        return tuple(
            Camera(model if model.startswith(("iPhone", "iPad")) else str(row["_name"]))
            for row in rows
            for model in [str(row.get("spcamera_model-id", ""))]
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        return ()
