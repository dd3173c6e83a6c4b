"""How far a run is, and what follows from that.

A run is planned as a whole and done in visits. Everything that changes on the way hangs on the
progress, a fraction of the whole run, not on step numbers: how many steps fit into a visit depends
on the machine.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from mien.train.recipe import Recipe


@dataclass(slots=True)
class Visit:
    """The part of a run from progress ``start`` to ``stop``, by time or by steps."""

    start: float
    stop: float
    seconds: float | None = None
    """Time for it; None counts steps."""

    steps: int | None = None
    done: int = 0
    """Steps taken."""

    clock: Callable[[], float] = time.monotonic
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        if (self.seconds is None) == (self.steps is None):
            raise ValueError("a visit is measured by seconds or by steps")
        self._began = self.clock()

    @property
    def share(self) -> float:
        """How much of the visit is over, 0 to 1."""
        if self.steps is not None:
            return min(1.0, self.done / max(1, self.steps))
        assert self.seconds is not None
        return min(1.0, (self.clock() - self._began) / max(1e-3, self.seconds))

    @property
    def progress(self) -> float:
        """How much of the whole run is over, 0 to 1."""
        return self.start + (self.stop - self.start) * self.share


def rate(recipe: Recipe, progress: float, since_start: int) -> float:
    """Return the factor of the learning rates.

    It rises over the first steps of every visit that starts without optimiser state: Adam's second
    moments are then averages of few gradients. From ``decay`` on it falls as a half cosine.
    """
    warm = min(1.0, (since_start + 1) / max(1, recipe.warm_up))
    decay = recipe.phases.decay
    fallen = max(0.0, (progress - decay) / max(1e-6, 1 - decay))
    return warm * (recipe.final + (1 - recipe.final) * (1 + math.cos(math.pi * fallen)) / 2)


def adversarial(recipe: Recipe, progress: float) -> float:
    """Return the factor of the adversarial losses: it rises over as long as they were off."""
    begin = recipe.phases.adversarial
    return min(1.0, max(0.0, (progress - begin) / max(1e-6, begin)))
