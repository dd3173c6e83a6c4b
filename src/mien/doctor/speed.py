"""How fast it is here, and whether it works at all: each network, and one face swapped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TypeVar

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from mien.engines import Engine
from mien.errors import BadOutput, EngineError, MienError, NoFace
from mien.loader import MESH, OCCLUSION
from mien.media import Picture, read_picture
from mien.models import (
    Catalogue,
    Contract,
    DetectorContract,
    EmbedderContract,
    MeshContract,
    OcclusionContract,
    SwapperContract,
    WatermarkContract,
)
from mien.pipeline import Cast, EmbeddingCache, FaceFinder, Identifier, Pipeline
from mien.stages.detect import Detector
from mien.stages.embed import Embedder
from mien.stages.landmark import Landmarker
from mien.stages.occlude import Occlusion
from mien.stages.swap import FaceSwap
from mien.types import Frame, Identity, Role, Swapped

PORTRAIT = Path(__file__).with_name("portrait.jpg")
"""A generated portrait, CC0 1.0 (faker-js): no real person is shown."""

DETECTOR, SWAPPER = "yunet", "mien-256"
"""The networks that ``mien swap`` uses unless told."""

WIDTH, HEIGHT = 1280, 720
SEARCHED = 640
"""Side of the square in which a detector is timed, pixels."""

SECONDS = 10.0
"""What the whole test may take; half of it is for the networks."""

ROUNDS = 15
"""Enough for a median; no more are run however fast they are."""

Clock = Callable[[], float]
C = TypeVar("C", bound=Contract)


@dataclass(frozen=True, slots=True)
class NetworkSpeed:
    """One network at batch 1 on noise."""

    name: str
    provider: str
    """What its session says after the runs; a runtime may have given up meanwhile."""

    milliseconds: float | None
    """Median of a run; None if a run failed, or time was up."""

    fault: str | None = None
    """Why it could not be run, or None."""


@dataclass(frozen=True, slots=True)
class Speed:
    """The networks, and the whole of mien on a picture of 1280 x 720 with one face."""

    networks: tuple[NetworkSpeed, ...]
    milliseconds: float | None = None
    """Median of a picture."""

    per_second: float | None = None
    """Pictures per second."""

    fault: str | None = None
    """Why no picture could be swapped, or None."""


def measure(
    catalogue: Catalogue, engines: Mapping[str, Engine], *, clock: Clock = perf_counter
) -> Speed:
    """Time the networks in ``engines``, and the whole pipeline with them.

    No run is begun after SECONDS, but one picture is swapped in any case. Never raises: what fails
    is reported.
    """
    start = clock()
    half = SECONDS / 2
    ends = (start + half * (i + 1) / len(engines) for i in range(len(engines)))
    networks = tuple(
        _time_network(engine, catalogue.card(name).contract, end, clock)
        if clock() < start + half
        else NetworkSpeed(name, engine.provider, None)
        for (name, engine), end in zip(engines.items(), ends, strict=True)
    )
    try:
        seconds = median_seconds(self_test(catalogue, engines), start + SECONDS, clock)
    except MienError as error:
        return Speed(networks, fault=str(error))
    except Exception as error:  # noqa: BLE001 - whatever breaks a swap is what is looked for
        return Speed(networks, fault=f"{type(error).__name__}: {error}")
    return Speed(networks, round(seconds * 1e3, 1), round(1 / seconds, 1))


def median_seconds(work: Callable[[], object], end: float, clock: Clock) -> float:
    """Return the median time of ``work``: at least one run, at most ROUNDS, none after ``end``."""
    times: list[float] = []
    while not times or (len(times) < ROUNDS and clock() < end):
        start = clock()
        work()
        times.append(clock() - start)
    return median(times)


def _time_network(engine: Engine, contract: Contract, end: float, clock: Clock) -> NetworkSpeed:
    side = SEARCHED if isinstance(contract, DetectorContract | WatermarkContract) else contract.size
    inputs = {
        port.name: torch.rand([1, *(length or side for length in port.shape[1:])])
        for port in engine.inputs
    }
    try:
        seconds = median_seconds(lambda: engine(inputs), end, clock)
    except EngineError as error:
        return NetworkSpeed(engine.model, engine.provider, None, str(error))
    return NetworkSpeed(engine.model, engine.provider, round(seconds * 1e3, 1))


def self_test(catalogue: Catalogue, engines: Mapping[str, Engine]) -> Callable[[], Swapped]:
    """Return what swaps the one face in the test picture.

    Its identity is made here and kept in memory: no person is shown, so no consent is recorded.
    Raises EngineError if a network that it takes is not among ``engines``, and what a swap raises.
    """

    def load(name: str, kind: type[C]) -> tuple[Engine, C]:
        contract = catalogue.card(name).contract
        if name not in engines or not isinstance(contract, kind):
            raise EngineError(
                f"No face was swapped, as the network {name!r} could not be opened.", model=name
            )
        return engines[name], contract

    finder = FaceFinder(
        Detector(*load(DETECTOR, DetectorContract)), Landmarker(*load(MESH, MeshContract))
    )
    swap = FaceSwap(*load(SWAPPER, SwapperContract))
    embedder = Embedder(*load(swap.contract.space, EmbedderContract))
    portrait = read_picture(PORTRAIT)
    identifier = Identifier(finder, embedder, EmbeddingCache(0), networks="")
    identity = replace(identifier.reference([portrait]), consent="self-test")
    before = Occlusion(*load(OCCLUSION, OcclusionContract))
    pipeline = Pipeline(finder, embedder, swap, occlusion=before)
    picture = scene(portrait)
    return lambda: _swap(pipeline, picture, identity)


def _swap(pipeline: Pipeline, picture: Tensor, identity: Identity) -> Swapped:
    done = pipeline(Frame(picture.clone()), Cast((Role(identity),)))
    if done.faults:
        provider = pipeline.swap.engine.provider
        raise BadOutput(model=SWAPPER, provider=provider, reason=done.faults[0].reason)
    if not done.chosen:
        raise NoFace("the test picture")
    return done


def scene(portrait: Picture) -> Tensor:
    """Return a picture, uint8 (720, 1280, 3), with the portrait in its middle, as high as it."""
    picture = torch.full((HEIGHT, WIDTH, 3), 96, dtype=torch.uint8)
    left = (WIDTH - HEIGHT) // 2
    image = Image.fromarray(portrait.frame.pixels.numpy()).resize((HEIGHT, HEIGHT))
    picture[:, left : left + HEIGHT] = torch.from_numpy(np.array(image))
    return picture
