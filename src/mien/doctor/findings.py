"""What the facts mean: what is well, what is wrong, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from mien.doctor.cameras import Cameras
from mien.doctor.machine import Machine

if TYPE_CHECKING:
    from mien.doctor.networks import Network, PassedOver
    from mien.doctor.speed import Speed

Severity = Literal["error", "warning", "ok"]

LITTLE_DISK = 10**9
"""Bytes; with less, a clip may not fit."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is well or not."""

    severity: Severity
    what: str
    remedy: str | None = None
    """What to do; None where all is well."""


def judge(
    machine: Machine, networks: Sequence[Network], cameras: Cameras, speed: Speed | None
) -> tuple[Finding, ...]:
    """Return what the facts mean, the gravest first."""
    found = [*_networks(machine, networks), *_machine(machine), *_cameras(cameras)]
    if speed is not None:
        found += _speed(networks, speed)
    return tuple(sorted(found, key=lambda finding: get_args(Severity).index(finding.severity)))


def passed_over(networks: Sequence[Network]) -> dict[PassedOver, list[str]]:
    """Return the faster providers and why they are not used, with the networks concerned."""
    concerned: dict[PassedOver, list[str]] = {}
    for network in networks:
        for passed in network.passed_over:
            concerned.setdefault(passed, []).append(network.name)
    return concerned


def _networks(machine: Machine, networks: Sequence[Network]) -> Iterator[Finding]:
    for network in networks:
        if network.fault:
            yield Finding("error", network.fault, network.remedy)
    if networks and not any(network.fault for network in networks):
        yield Finding("ok", f"The weights of {len(networks)} networks are right; each opens.")
    for passed, names in passed_over(networks).items():
        if passed.provider == "cuda" and machine.nvidia:
            what = f"There is an NVIDIA GPU, but CUDA does not run {', '.join(names)}. {passed.why}"
            yield Finding("warning", what, passed.remedy)
    for provider in sorted({network.provider or "cpu" for network in networks} - {"cpu"}):
        what = f"{provider} runs networks here, but only where asked for: the default is cpu."
        yield Finding("ok", what, f"Add --provider {provider} to 'mien swap'.")


def _machine(machine: Machine) -> Iterator[Finding]:
    for purpose, free in machine.disk.items():
        if free < LITTLE_DISK:
            what = f"Little disk is free for the {purpose}: {free / 1e6:.0f} MB."
            yield Finding("warning", what, "Make room, or work elsewhere.")
    if len(machine.runtimes) > 1:
        builds = " ".join(machine.runtimes)
        yield Finding(
            "warning",
            f"Several builds of ONNX Runtime are installed, and overwrite each other: {builds}.",
            f"pip uninstall -y {builds}, then: pip install the one that is wanted",
        )


def _cameras(cameras: Cameras) -> Iterator[Finding]:
    for camera in cameras.listed:
        if camera.fault:
            yield Finding("warning", f"{camera.name}: {camera.fault}", camera.remedy)


def _speed(networks: Sequence[Network], speed: Speed) -> Iterator[Finding]:
    opened = {network.name: network.provider for network in networks}
    for run in speed.networks:
        if run.fault:
            yield Finding("error", run.fault, f"Try --provider cpu, if it ran on {run.provider}.")
        elif run.provider != opened[run.name]:
            what = f"{run.name!r} was opened on {opened[run.name]} and then ran on {run.provider}."
            yield Finding("warning", what, "The driver or its libraries gave up: update them.")
    if speed.fault:
        remedy = "Mend what is named above; if that is nothing, report it, with this whole text."
        yield Finding("error", speed.fault, remedy)
    else:
        yield Finding("ok", "The face in the test picture was found and swapped.")
