"""Frames of fixed capacity, through ``mien.replay``: on a GPU one CUDA graph a frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter

import torch
from torch import Tensor

from mien.bench.plan import Plan
from mien.bench.scene import Scene
from mien.loader import MESH, OCCLUSION, Loader
from mien.models import (
    Catalogue,
    Contract,
    DetectorContract,
    EmbedderContract,
    MeshContract,
    OcclusionContract,
    SwapperContract,
)
from mien.replay.capacity import SLOTS
from mien.replay.frame import Outcome, Part, Who, WholeFrame
from mien.replay.graph import Replay
from mien.types import Identity

STEPS = ("upload", "work", "download")
"""The stages that a GPU tells apart."""


class ReplayPath:
    """Frames of fixed capacity. ``device`` is where tensors are: networks must take them there.

    On a GPU that takes PyTorch's networks; on the CPU any do. Raises InvalidOption and EngineError.
    """

    name = "replay"

    def __init__(self, plan: Plan, device: torch.device, identity: Identity) -> None:
        start = perf_counter()
        self._device, self._person = device, identity.embedding[None].to(device)
        self._by_person = plan.by_person
        provider = f"torch-{device}"
        if device.type == "cpu" and not plan.provider.startswith("torch-"):
            provider = plan.provider
        memory = plan.gpu_memory if device.type == "cuda" else None
        loader = Loader(Catalogue(plan.models), provider, False, plan.threads, memory)
        self.networks: dict[str, str] = {}

        def part(name: str, kind: type[Contract]) -> Part:
            engine, contract = loader.load(name, kind)
            self.networks[name] = engine.provider
            return Part.of(engine, contract)

        self._parts = {
            "detector": part(plan.detector, DetectorContract),
            "mesh": part(MESH, MeshContract),
            "occlusion": part(OCCLUSION, OcclusionContract),
            "swapper": part(plan.model, SwapperContract),
        }
        if plan.by_person:
            self._parts["embedder"] = part(identity.space, EmbedderContract)
        self.cold: Mapping[str, float] = {"load": perf_counter() - start}

    def runner(self, scene: Scene) -> ReplayRunner:
        """Return what swaps the frames of ``scene``; on a GPU its graph is captured here."""
        who: Who = "largest" if scene.faces == 1 else "all"
        frame = torch.zeros(scene.size.height, scene.size.width, 3, dtype=torch.uint8)
        whole = WholeFrame(
            self._parts,
            height=scene.size.height,
            width=scene.size.width,
            slots=next(slots for slots in SLOTS if slots >= scene.faces),
            who="person" if self._by_person else who,
        )
        replaced = self._person if self._by_person else None
        if self._device.type == "cpu":
            return ReplayRunner(Replay(whole, self._person, replaced, frame=frame))
        with torch.cuda.device(self._device):  # graphs and events belong to the current one
            there = frame.to(self._device)
            return GraphRunner(Replay(whole, self._person, replaced, frame=there), frame)


class ReplayRunner:
    """Swaps frames step by step, on a CPU."""

    workers: tuple[int, ...] | None = None

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self._outcome: Outcome | None = None

    def run(self, frame: Tensor) -> None:
        """Swap a frame."""
        self._outcome = self._replay(frame)

    def synchronise(self) -> None:
        """Do nothing: ``run`` is done when it returns."""

    @property
    def stages(self) -> Mapping[str, float] | None:
        """None: the whole frame is one piece."""
        return None

    @property
    def swapped(self) -> int:
        """How many faces of the last frame were swapped."""
        return 0 if self._outcome is None else int((self._outcome.roles >= 0).sum())

    def stream(self, frames: Sequence[Tensor], workers: int) -> None:
        """Swap frames as ``Replay.stream`` does, which has its own way of overlapping them."""
        del workers
        for _ in self._replay.stream(frames):
            pass


class GraphRunner(ReplayRunner):
    """Swaps frames by replaying a CUDA graph; upload, work and download are timed by its events."""

    def __init__(self, replay: Replay, like: Tensor) -> None:
        super().__init__(replay)
        self._given = torch.empty_like(like, pin_memory=True)
        self._taken = torch.empty_like(like, pin_memory=True)
        self._events = [torch.cuda.Event(enable_timing=True) for _ in range(len(STEPS) + 1)]

    def run(self, frame: Tensor) -> None:
        """Begin to swap a frame."""
        device, (start, uploaded, worked, downloaded) = self._replay.device, self._events
        with torch.cuda.device(device):
            start.record()
            self._given.copy_(frame)
            there = self._given.to(device, non_blocking=True)
            uploaded.record()
            self._outcome = self._replay(there)
            worked.record()
            self._taken.copy_(self._outcome.pixels, non_blocking=True)
            downloaded.record()

    def stream(self, frames: Sequence[Tensor], workers: int) -> None:
        """Swap frames with upload, work and download of three at a time."""
        with torch.cuda.device(self._replay.device):
            super().stream(frames, workers)

    def synchronise(self) -> None:
        """Wait until the frame is in the CPU's memory."""
        self._events[-1].synchronize()

    @property
    def stages(self) -> Mapping[str, float] | None:
        """Seconds by the GPU's own clock; the copy to pinned memory belongs to the upload."""
        ends = zip(STEPS, self._events, self._events[1:], strict=False)
        return {name: start.elapsed_time(end) / 1e3 for name, start, end in ends}
