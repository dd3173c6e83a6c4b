"""Networks that take minutes to prepare: another engine serves until they are ready."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from mien.engines.profiles import Profile
from mien.engines.protocol import Engine
from mien.errors import EngineError, EngineUnavailable

log = logging.getLogger(__name__)

ONE_AT_A_TIME = threading.Lock()
"""Two preparations would take each other's GPU while they measure it."""


class PreparedEngine:
    """A network that ``prepare`` returns, in its own time; ``meanwhile`` serves until then.

    ``provider`` is that of the engine that runs now. Batches larger than ``shapes`` takes are run
    in parts; other inputs outside ``shapes`` are left to ``meanwhile``, for good. If the
    preparation fails, calls raise EngineUnavailable, unless ``allow_fallback``: then ``meanwhile``
    goes on. A process that ends waits for a preparation that has begun, so that it is done once.
    """

    def __init__(
        self,
        name: str,
        prepare: Callable[[], Engine],
        *,
        meanwhile: Engine,
        shapes: Profile,
        allow_fallback: bool = False,
        ready: bool = False,
    ) -> None:
        self.model, self.inputs, self.outputs = meanwhile.model, meanwhile.inputs, meanwhile.outputs
        self._name, self._prepare, self._meanwhile = name, prepare, meanwhile
        self._shapes, self._allow_fallback = shapes, allow_fallback
        self._prepared: Engine | None = None
        self._fault: str | None = None
        self._told = False
        if ready:
            self._work(told=False)
            self._check()
            self._thread = None
        else:
            self._thread = threading.Thread(target=self._work, name=f"prepare {self.model}")
            self._thread.start()

    @property
    def provider(self) -> str:
        """What the network runs on at this moment."""
        return (self._prepared or self._meanwhile).provider

    @property
    def nodes(self) -> Mapping[str, int] | None:
        """How many nodes each provider runs at this moment, or None if that is not known."""
        return getattr(self._prepared or self._meanwhile, "nodes", None)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the preparation; return whether the prepared network runs."""
        if self._thread is not None:
            self._thread.join(seconds)
        return self._prepared is not None

    def __call__(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Run a batch; see Engine."""
        self._check()
        engine = self._prepared  # read once: it may be set at any moment
        if engine is None:
            return self._meanwhile(inputs)
        size, rows = len(next(iter(inputs.values()))), self._shapes.rows
        if self._fixed or size <= rows:
            return self._run(engine, inputs, size)
        parts = [
            self._run(engine, {k: v[i : i + rows] for k, v in inputs.items()}, min(rows, size - i))
            for i in range(0, size, rows)
        ]
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}

    def safer(self) -> Engine:
        """Return the network on the CPU; see Engine."""
        return self._meanwhile.safer()

    @property
    def _fixed(self) -> bool:
        """Whether the graph takes one row; its engine then runs a batch row by row."""
        return self._shapes.rows == 1

    def _run(self, engine: Engine, inputs: Mapping[str, Tensor], size: int) -> dict[str, Tensor]:
        rows = 1 if self._fixed else size
        if self._shapes.holds({name: (rows, *v.shape[1:]) for name, v in inputs.items()}):
            return engine(inputs)
        if not self._told:
            self._told = True
            shapes = ", ".join(f"{k} {tuple(v.shape)}" for k, v in inputs.items())
            log.info(
                "%s is not prepared for %s: %s runs such inputs, and %s the others.",
                *(self.model, shapes, self._meanwhile.provider, engine.provider),
            )
        return self._meanwhile(inputs)

    def _check(self) -> None:
        if self._fault is not None and not self._allow_fallback:
            raise EngineUnavailable(model=self.model, provider=self._name, reason=self._fault)

    def _work(self, *, told: bool = True) -> None:
        begun = time.monotonic()
        if told:
            log.warning(  # so that a process that does not end is understood
                "%s is being prepared for %s: this takes minutes, once. %s serves until then, and "
                "the process does not end before.",
                *(self.model, self._name, self._meanwhile.provider),
            )
        try:
            with ONE_AT_A_TIME:
                prepared = self._prepare()
        except EngineUnavailable as error:
            self._fault = error.reason
        except (EngineError, OSError) as error:
            self._fault = f"it could not be prepared: {error}"
        else:
            self._prepared = prepared
            if told:
                seconds = time.monotonic() - begun
                log.info("%s runs on %s from now on (%.0f s).", self.model, self.provider, seconds)
            return
        log.warning("%s: %s serves. %s", self.model, self._meanwhile.provider, self._fault)
