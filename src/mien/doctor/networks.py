"""The networks: whether their weights are right, what really runs them, and why nothing faster."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import onnxruntime as ort

from mien.doctor.machine import Machine
from mien.engines import PROVIDERS, TORCH_PROVIDERS, Engine, missing, open_engine
from mien.errors import EngineError, EngineUnavailable, ModelError, WeightsMissing
from mien.models import Card, Role
from mien.stages.trial import RoleTrial

FASTEST_FIRST = ("torch-cuda", "tensorrt", "cuda", "coreml", "openvino", "directml", "cpu")
"""PyTorch leads where it has a GPU: only with it do pictures stay there from network to network."""

SYSTEMS = {
    "torch-cuda": ("linux", "win32"),
    "tensorrt": ("linux", "win32"),
    "cuda": ("linux", "win32"),
    "coreml": ("darwin",),
    "openvino": ("linux", "win32"),
    "directml": ("win32",),
}
"""Where a provider can be had, by ``sys.platform``; the CPU's can everywhere."""

TORCH_WITH_CUDA = "Install PyTorch with CUDA: https://pytorch.org/get-started/locally says how."

GPU_PACKAGE = '"onnxruntime-gpu[cuda,cudnn]"'
"""With CUDA's libraries; the quotes are for the shell."""

LIBRARIES = {
    "cuda": f"Update the NVIDIA driver, then: pip install --upgrade {GPU_PACKAGE}",
    "openvino": "pip install --upgrade onnxruntime-openvino openvino",
}
"""What brings the libraries that a provider misses when it is offered but does not run."""


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A provider that does not run a network here."""

    provider: str
    why: str
    remedy: str | None
    """What to do to have it, or None if it cannot be had here."""


@dataclass(frozen=True, slots=True)
class Network:
    """One network of the catalogue, as it was found here."""

    name: str
    role: Role
    weights: Literal["right", "missing", "damaged"]
    provider: str | None = None
    """The fastest provider that runs it, as its session says; None if none does."""

    passed_over: tuple[PassedOver, ...] = ()
    """The providers that would be faster."""

    fault: str | None = None
    """Why it cannot be run, or None."""

    remedy: str | None = None


def look_at_networks(
    cards: Iterable[Card], machine: Machine, *, threads: int | None
) -> tuple[tuple[Network, ...], dict[str, Engine]]:
    """Return what is to say about each network, and those that could be opened, by name.

    Never raises for a faulty network.
    """
    absent = not_offered(ort.get_available_providers(), machine)
    networks, engines = [], {}
    for card in cards:
        network, engine = _look_at(card, absent, threads)
        networks.append(network)
        if engine is not None:
            engines[card.name] = engine
    return tuple(networks), engines


def not_offered(
    offered: Iterable[str], machine: Machine, *, system: str = sys.platform
) -> dict[str, PassedOver]:
    """Return the providers that need not be tried, and why, by our name of them.

    ``offered`` are ONNX Runtime's names of what it was built with.
    """
    absent = {}
    for provider in FASTEST_FIRST:
        if provider in TORCH_PROVIDERS:
            if reason := missing(provider):
                absent[provider] = _no_torch(provider, reason, machine, system)
            continue
        theirs, package = PROVIDERS[provider]
        if theirs in offered:
            continue
        why = f"ONNX Runtime {ort.__version__} was built without it."
        remedy: str | None = replaced_by(package, machine.runtimes)
        if system not in SYSTEMS.get(provider, system):
            why, remedy = "It does not exist for this system.", None
        elif package == "onnxruntime-gpu" and not machine.nvidia:
            why, remedy = "No NVIDIA GPU is seen here.", f"With one, and its driver: {remedy}"
        elif provider == "openvino":
            remedy = f"With a processor or GPU of Intel: {remedy}"
        absent[provider] = PassedOver(provider, why, remedy)
    if "tensorrt" not in absent:
        why = "It is not tried here: it takes minutes to prepare a network at its first run."
        remedy = "Try it with --provider tensorrt; mien says so if it cannot run."
        absent["tensorrt"] = PassedOver("tensorrt", why, remedy)
    return absent


def _no_torch(provider: str, reason: str, machine: Machine, system: str) -> PassedOver:
    if system not in SYSTEMS.get(provider, system):
        return PassedOver(provider, "It does not exist for this system.", None)
    if not machine.nvidia:
        remedy = f"With one, and its driver: {TORCH_WITH_CUDA}"
        return PassedOver(provider, "No NVIDIA GPU is seen here.", remedy)
    return PassedOver(provider, reason[:1].upper() + reason[1:], TORCH_WITH_CUDA)


def replaced_by(package: str, installed: Iterable[str]) -> str:
    """Say how to get another build of ONNX Runtime: two in one place overwrite each other."""
    wanted = GPU_PACKAGE if package == "onnxruntime-gpu" else package
    builds = " ".join(installed)
    return f"pip uninstall -y {builds}, then: pip install {wanted}"


def _look_at(
    card: Card, absent: dict[str, PassedOver], threads: int | None
) -> tuple[Network, Engine | None]:
    """Open one network on the fastest provider; those that can run none are put into ``absent``."""
    try:
        card.read()
    except ModelError as error:
        weights: Literal["missing", "damaged"] = (
            "missing" if isinstance(error, WeightsMissing) else "damaged"
        )
        # the file's name says enough; its folder may bear a person's
        fault = str(error).replace(str(card.file), card.file.name)
        remedy = f"Install mien anew, or put the file there whose sha256 is {card.sha256}."
        return Network(card.name, card.role, weights, fault=fault, remedy=remedy), None
    passed: list[PassedOver] = []
    for provider in FASTEST_FIRST:
        if provider in absent:
            passed.append(absent[provider])
            continue
        try:
            engine = open_engine(
                card.name,
                card.read,
                provider=provider,
                threads=threads,
                trial=RoleTrial(card.contract),
            )
        except EngineUnavailable as error:  # its libraries do not load, whatever the network
            why = error.reason[:1].upper() + error.reason[1:]
            absent[provider] = PassedOver(provider, why, LIBRARIES.get(provider))
            passed.append(absent[provider])
        except EngineError as error:
            passed.append(PassedOver(provider, str(error), None))
        else:
            found = Network(card.name, card.role, "right", engine.provider, tuple(passed))
            return found, engine
    *passed, last = passed
    remedy = "If it is newer than this ONNX Runtime: pip install --upgrade onnxruntime"
    return Network(
        card.name, card.role, "right", passed_over=tuple(passed), fault=last.why, remedy=remedy
    ), None
