"""The machine: versions, processor, memory, GPUs, free disk. Needs none of mien's libraries."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

PACKAGES = ("torch", "numpy", "pillow", "pi-heif", "av")
"""What mien's work rests on, beside ONNX Runtime, which comes in several packages."""

PATIENCE = 5.0
"""Seconds that a program of the system may take to answer."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU."""

    name: str
    maker: Literal["NVIDIA", "AMD", "Apple"]
    memory: int | None = None
    """Bytes, or None where it is not known."""

    driver: str | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    """What mien runs on."""

    system: str
    python: str
    processor: str
    cores: int | None
    memory: int | None
    """Bytes, or None where it is not known."""

    gpus: tuple[Gpu, ...]
    disk: Mapping[str, int]
    """Bytes free, by what the folder is for."""

    packages: Mapping[str, str | None]
    """Versions of packages, or None for those that are not installed."""

    @property
    def nvidia(self) -> bool:
        """Whether an NVIDIA GPU is seen."""
        return any(gpu.maker == "NVIDIA" for gpu in self.gpus)

    @property
    def runtimes(self) -> tuple[str, ...]:
        """The installed packages of ONNX Runtime; more than one overwrite each other's files."""
        return tuple(name for name in self.packages if name.startswith("onnxruntime"))


def look_at_machine() -> Machine:
    """Return what this machine is. Never fails; takes a second or two."""
    return Machine(
        system=platform.platform(),
        python=f"{platform.python_version()} ({platform.python_implementation()})",
        processor=processor(),
        cores=os.cpu_count(),
        memory=memory(),
        gpus=gpus(),
        disk=free_disk({"working folder": Path(), "temporary files": Path(tempfile.gettempdir())}),
        packages=packages(),
    )


def output_of(*command: str) -> str | None:
    """Return what a program prints, or None if it is not there, fails, or takes too long."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            check=True,
            encoding="utf-8",
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the name of the processor, or else of its architecture."""
    if sys.platform == "darwin" and (name := output_of("sysctl", "-n", "machdep.cpu.brand_string")):
        return name.strip()
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()


def memory() -> int | None:
    """Return the bytes of main memory, or None where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None


def gpus() -> tuple[Gpu, ...]:
    """Return the GPUs that the NVIDIA driver lists, or else those that PyTorch can use."""
    fields = "--query-gpu=name,memory.total,driver_version"
    listed = output_of("nvidia-smi", fields, "--format=csv,noheader,nounits")
    return parse_nvidia_smi(listed or "") or _gpus_of_torch()


def parse_nvidia_smi(listed: str) -> tuple[Gpu, ...]:
    """Return the GPUs of lines like 'NVIDIA H200, 143771, 570.86'; memory is in MiB."""
    rows = (
        [cell.strip() for cell in line.rsplit(",", 2)]
        for line in listed.splitlines()
        if line.count(",") >= 2
    )
    return tuple(
        Gpu(name, "NVIDIA", int(size) << 20 if size.isdigit() else None, driver)
        for name, size, driver in rows
    )


def _gpus_of_torch() -> tuple[Gpu, ...]:
    try:
        import torch

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a driver that is too old for this PyTorch
            if torch.cuda.is_available():
                maker: Literal["NVIDIA", "AMD"] = "AMD" if torch.version.hip else "NVIDIA"
                count = torch.cuda.device_count()
                return tuple(Gpu(torch.cuda.get_device_name(i), maker) for i in range(count))
            if torch.backends.mps.is_available():
                return (Gpu("Apple GPU", "Apple"),)
    except (ImportError, OSError, RuntimeError, AssertionError):
        pass  # a PyTorch or a driver that does not work sees no GPU
    return ()


def free_disk(folders: Mapping[str, Path]) -> dict[str, int]:
    """Return the bytes free in folders; one that cannot be looked at is left out."""
    free = {}
    for purpose, folder in folders.items():
        try:
            free[purpose] = shutil.disk_usage(folder).free
        except OSError:
            continue
    return free


def packages() -> dict[str, str | None]:
    """Return the versions of the packages that matter, and of every build of ONNX Runtime."""
    runtimes = metadata.packages_distributions().get("onnxruntime", [])
    return {name: _version(name) for name in (*sorted(set(runtimes)), *PACKAGES)}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
