"""The governor: keeps the time of a live stream's frames within a budget, by doing less.

What is given up first is what is missed least. Every step down is taken back when there has been
slack for some time; a step that turns out to be needed is tried again later and later, so that the
picture does not change back and forth.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import fmean
from time import perf_counter
from types import MappingProxyType

from mien.choice import is_number
from mien.errors import InvalidOption

WINDOW = 12
"""Frames that are judged together, all since the last step: two looks of the detector at 30 a
second, and an even number for frames that are dear and cheap in turn."""

CAP = 3.0
"""What a frame counts at most, in budgets: one that stalled must not look like an overload."""

SLACK = 0.7
"""Share of the budget up to which there is slack. Between it and the budget nothing changes."""

REST, LONGEST = 3.0, 60.0
"""Seconds of slack after which a step is taken back, and at most, as tries fail."""

TRIAL = 10.0
"""Seconds in which a step taken back must not be needed again, or else the try has failed."""

PAUSE = 1.0
"""Seconds without a frame after which what was measured before says nothing any more."""

BUSY = 0.9
"""Share of time for which a GPU is busy that is as much as the whole budget: above it, frames wait
for each other, whatever the time of one."""


@dataclass(frozen=True, slots=True)
class Effort:
    """What is done for a frame."""

    name: str

    look: Fraction = Fraction(0)
    """Seconds between two looks of the detector at least."""

    rounds: int | None = None
    """How often the mesh of a face that is followed is placed at most; None: until it stands."""

    every: int = 1
    """Of so many frames one is made anew, in the others the last patch is carried along."""

    scale: float = 1.0
    """Share of its longer side to which a frame should be resized before it is given here."""


SELDOM = Fraction(3, 5)

STEPS = (
    Effort("everything"),
    Effort("seldom detected", SELDOM),
    Effort("mesh placed once", SELDOM, 1),
    Effort("every other frame", SELDOM, 1, 2),
    Effort("three quarters of the size", SELDOM, 1, 2, 0.75),
    Effort("half of the size", SELDOM, 1, 2, 0.5),
)
"""What is given up, one after the other. ``STEPS[:4]`` are those that ClipPipeline takes by itself:
who calls it resizes."""


class Governor:
    """Says how much may be done, from how long frames take; one for one stream.

    ``budget`` is the seconds that a frame may take. ``steps`` begin with all that there is to do.
    ``clock`` tells seconds, and is asked once a frame. Raises InvalidOption.
    """

    def __init__(
        self,
        budget: float,
        *,
        steps: Sequence[Effort] = STEPS,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        if not is_number(budget) or not 0 < budget < float("inf"):
            raise InvalidOption("budget", budget, "seconds above 0")
        if not steps:
            raise InvalidOption("steps", steps, "one or more")
        self.budget, self.steps = budget, tuple(steps)
        self._clock, self._step = clock, 0
        self._why = "no frame was measured yet"
        self._loads: deque[float] = deque(maxlen=WINDOW)
        self._counts: Counter[str] = Counter()
        self._changes = 0
        self._last: float | None = None
        self._slack: float | None = None
        self._arrived: float | None = None
        self._rose = False
        self._waits = [REST] * len(self.steps)

    @property
    def step(self) -> int:
        """Which of ``steps`` is taken, 0 for the first: everything is done."""
        return self._step

    @property
    def effort(self) -> Effort:
        """What is to be done for the next frame."""
        return self.steps[self._step]

    @property
    def why(self) -> str:
        """Why this step is taken, in words."""
        return self._why

    @property
    def counts(self) -> Mapping[str, int]:
        """How many frames were done with each effort, by its name."""
        return MappingProxyType(dict(self._counts))

    @property
    def changes(self) -> int:
        """How often the step changed, down and up."""
        return self._changes

    def __call__(self, seconds: float, *, utilisation: float | None = None) -> Effort:
        """Note that a frame took ``seconds``, and return what is to be done for the next.

        ``utilisation`` is the share of time, 0 to 1, for which the GPU was busy, where it is known.
        Raises InvalidOption.
        """
        load = self._load(seconds, utilisation)
        now = self._clock()
        if self._last is not None and now - self._last - seconds > PAUSE:
            self._forget()
        self._last = now
        self._counts[self.effort.name] += 1
        self._loads.append(min(CAP, load))
        self._arrived = now if self._arrived is None else self._arrived
        if now - self._arrived >= TRIAL and self._step + 1 < len(self.steps):
            self._waits[self._step + 1] = REST
        if len(self._loads) == WINDOW:
            self._judge(fmean(self._loads), now)
        return self.effort

    def _load(self, seconds: float, utilisation: float | None) -> float:
        """Return how much of what there is a frame took: 1 is all."""
        if not is_number(seconds) or not 0 <= seconds < float("inf"):
            raise InvalidOption("seconds", seconds, "0 or more")
        if utilisation is None:
            return seconds / self.budget
        if not is_number(utilisation) or not 0 <= utilisation <= 1:
            raise InvalidOption("utilisation", utilisation, "0 to 1")
        return max(seconds / self.budget, utilisation / BUSY)

    def _judge(self, load: float, now: float) -> None:
        share = f"frames took {load:.0%} of what there is for them"
        if load > 1:
            self._slack = None
            if self._step + 1 < len(self.steps):
                if self._rose and now - (self._arrived or 0) < TRIAL:  # the try has failed
                    below = self._step + 1
                    self._waits[below] = min(2 * self._waits[below], LONGEST)
                self._go(self._step + 1, now)
                self._why = share
            else:
                self._why = f"{share}, and nothing is left to give up"
        elif load > SLACK or self._step == 0:
            self._slack = None
        else:
            self._slack = now if self._slack is None else self._slack
            if now - self._slack >= self._waits[self._step]:
                self._go(self._step - 1, now)
                self._why = f"{share}, and did for some time"

    def _go(self, step: int, now: float) -> None:
        self._rose, self._arrived, self._step = step < self._step, now, step
        self._changes += 1
        self._forget()

    def _forget(self) -> None:
        """Begin to measure anew: what was measured is not of what is done now."""
        self._loads.clear()
        self._slack = None
