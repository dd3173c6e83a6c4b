"""Ways of a frame through mien that can be measured, each behind the same few names."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path as File
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Protocol

from torch import Tensor

from mien.bench.plan import Plan
from mien.bench.scene import Scene
from mien.doctor.speed import PORTRAIT
from mien.pipeline import Cast
from mien.swapper import Swapper
from mien.types import Identity

CONSENT = "A generated portrait: no real person is shown."


class Runner(Protocol):
    """Swaps frames of one scene, and can tell how the last one went."""

    @property
    def workers(self) -> tuple[int, ...] | None:
        """With how many threads ``stream`` may be told to work; None if it has its own way."""
        ...

    def run(self, frame: Tensor) -> None:
        """Swap a frame, uint8 (H, W, 3) on the CPU; it may be done only after ``synchronise``."""
        ...

    def synchronise(self) -> None:
        """Wait until the frame is done, and in the CPU's memory."""
        ...

    @property
    def stages(self) -> Mapping[str, float] | None:
        """Seconds by stage of the last frame; None where it is one piece."""
        ...

    @property
    def swapped(self) -> int:
        """How many faces of the last frame were swapped."""
        ...

    def stream(self, frames: Sequence[Tensor], workers: int) -> None:
        """Swap frames as fast as they go, and wait until all are done."""
        ...


class Path(Protocol):
    """Makes runners; its networks are loaded when it is made."""

    @property
    def name(self) -> str:
        """What reports call it."""
        ...

    @property
    def cold(self) -> Mapping[str, float]:
        """Seconds that were needed before the first frame, by what they were for."""
        ...

    @property
    def networks(self) -> Mapping[str, str]:
        """What each network really runs on, by name."""
        ...

    def runner(self, scene: Scene) -> Runner:
        """Return what swaps the frames of ``scene``."""
        ...


class SwapperPath:
    """Pictures through ``mien.Swapper``, as from Python and from the command line."""

    name = "swapper"

    def __init__(self, plan: Plan) -> None:
        start = perf_counter()
        self._swapper = Swapper(
            model=plan.model,
            detector=plan.detector,
            provider=plan.provider,
            threads=plan.threads,
            gpu_memory=plan.gpu_memory,
            models=plan.models,
        )
        loaded = perf_counter()
        self._identity, self._plan = known(self._swapper), plan
        self.cold = {"load": loaded - start, "source": perf_counter() - loaded}

    @property
    def networks(self) -> Mapping[str, str]:
        """What each network really runs on, by name."""
        return self._swapper.providers

    @property
    def identity(self) -> Identity:
        """Who is put on all faces."""
        return self._identity

    def runner(self, scene: Scene) -> SwapperRunner:
        """Return what swaps the frames of ``scene``: of one face the largest, of more all."""
        cast = self._swapper.cast(
            self._identity,
            faces="largest" if scene.faces == 1 and not self._plan.by_person else "all",
            only=self._swapper.reference(PORTRAIT) if self._plan.by_person else None,
        )
        return SwapperRunner(self._swapper, cast, self._plan.workers)


class SwapperRunner:
    """Swaps pictures as ``cast``."""

    def __init__(self, swapper: Swapper, cast: Cast, workers: tuple[int, ...]) -> None:
        self._swapper, self._cast, self.workers = swapper, cast, workers
        self.stages: Mapping[str, float] = {}
        self.swapped = 0

    def run(self, frame: Tensor) -> None:
        """Swap a frame."""
        done = self._swapper.swap(frame, self._cast)
        self.stages, self.swapped = done.timings, len(done.swapped.chosen)

    def synchronise(self) -> None:
        """Do nothing: ``run`` is done when it returns."""

    def stream(self, frames: Sequence[Tensor], workers: int) -> None:
        """Swap frames in ``workers`` threads at once."""

        def swap(frame: Tensor) -> None:
            self._swapper._guard.forget()  # some frames come again, as those of users do not
            self._swapper.swap(frame, self._cast)

        with ThreadPoolExecutor(workers) as pool:
            for _ in pool.map(swap, frames):
                pass


def known(swapper: Swapper) -> Identity:
    """Return the identity of the bundled portrait; the user's own records are left alone.

    From then on the swapper has a ledger, a key and an audit log of its own, for as long as it is.
    """
    folder = TemporaryDirectory()
    weakref.finalize(swapper, folder.cleanup)
    swapper.ledger = type(swapper.ledger)(folder=File(folder.name))
    return swapper.identity(PORTRAIT, consent=CONSENT)
