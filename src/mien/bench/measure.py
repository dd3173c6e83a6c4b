"""One row: a scene, swapped again and again by one runner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import fmean, median
from time import perf_counter

from mien.bench.paths import Path, Runner
from mien.bench.plan import Size
from mien.bench.scene import Scene
from mien.engines.onnx import usable_cores
from mien.errors import MeasurementFailed

WARM = 2
"""Frames that are not timed after the first: memory is set up, libraries choose their ways. One
is enough where frames take a fifth of a row's time."""

APART = 10**6
"""Number of the first frame that is not timed: none of them is timed later."""

FEWEST, MOST = 3, 1000
"""Frames that are timed, if there is time for no more, and at most."""

SHARE = 0.6
"""Of a row's time, what single frames may take; the rest is for frames per second."""

HELD = 8
"""Frames that lie ready while frames per second are measured."""

WORKERS = (1, 2, 4)

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a row is measured."""

    seconds: float = 6.0
    frames: int | None = None
    """Frames to time, whatever the time; None: as many as ``seconds`` allow."""

    workers: tuple[int, ...] = ()
    """Threads to try; empty: WORKERS, as far as there are cores."""


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured of one path and scene."""

    path: str
    size: Size
    faces: int
    swapped: float
    """Faces swapped in a frame, on average."""

    prepare: float
    """Milliseconds to prepare for frames of this size; on a GPU the graph is captured then."""

    first: float
    """Milliseconds of the first frame."""

    samples: tuple[float, ...]
    """Milliseconds of each frame, one after the other; the frames of all reports are the same."""

    stages: Mapping[str, tuple[float, ...]]
    """Milliseconds of each frame by stage. 'other' is what no stage accounts for."""

    per_second: float
    """Frames per second at best."""

    workers: int | None
    """How many threads that took; None if the path has its own way of overlapping frames."""

    @property
    def key(self) -> tuple[str, str, int]:
        """What makes two rows of two reports the same."""
        return self.path, str(self.size), self.faces

    @property
    def means(self) -> dict[str, float]:
        """Mean milliseconds by stage: they add up to the mean of the samples."""
        return {stage: fmean(times) for stage, times in self.stages.items()}


def measure(path: Path, scene: Scene, limits: Limits, *, clock: Clock = perf_counter) -> Row:
    """Return what ``path`` makes of the frames of ``scene``. Raises MeasurementFailed."""
    try:
        return _measure(path, scene, limits, clock)
    except Exception as error:  # whatever breaks a frame ends the row
        raise MeasurementFailed(path.name, str(scene), error) from error


def _measure(path: Path, scene: Scene, limits: Limits, clock: Clock) -> Row:
    start = clock()
    runner = path.runner(scene)
    prepare = clock() - start
    first = _timed(runner, scene, APART, clock)
    for i in range(1 if first > limits.seconds / 5 else WARM):
        _timed(runner, scene, APART + 1 + i, clock)
    times: list[float] = []
    swapped: list[int] = []
    taken: list[Mapping[str, float]] = []
    while not _enough(times, limits):
        times.append(_timed(runner, scene, len(times), clock))
        swapped.append(runner.swapped)
        taken.append(runner.stages or {})
    per_second, workers = _throughput(runner, scene, limits, median(times), clock)
    return Row(
        path=path.name,
        size=scene.size,
        faces=scene.faces,
        swapped=fmean(swapped),
        prepare=prepare * 1e3,
        first=first * 1e3,
        samples=_milliseconds(times),
        stages=_by_stage(taken, times),
        per_second=per_second,
        workers=workers,
    )


def _timed(runner: Runner, scene: Scene, index: int, clock: Clock) -> float:
    """Return the seconds of frame ``index`` of ``scene``."""
    frame = scene(index)
    start = clock()
    runner.run(frame)
    runner.synchronise()
    return clock() - start


def _enough(times: list[float], limits: Limits) -> bool:
    if limits.frames is not None:
        return len(times) >= limits.frames
    return len(times) >= MOST or (len(times) >= FEWEST and sum(times) >= limits.seconds * SHARE)


def _by_stage(taken: list[Mapping[str, float]], times: list[float]) -> dict[str, tuple[float, ...]]:
    """Return milliseconds of each frame by stage; one that did not run in it took no time."""
    names = dict.fromkeys(stage for stages in taken for stage in stages)
    if not names:
        return {}
    columns = {name: [stages.get(name, 0.0) for stages in taken] for name in names}
    columns["other"] = [
        max(0.0, time - sum(stages.values())) for time, stages in zip(times, taken, strict=True)
    ]
    return {name: _milliseconds(seconds) for name, seconds in columns.items()}


def _throughput(
    runner: Runner, scene: Scene, limits: Limits, typical: float, clock: Clock
) -> tuple[float, int | None]:
    """Return frames per second at best, and with how many threads."""
    numbers = limits.workers or tuple(n for n in WORKERS if n == 1 or n <= usable_cores())
    if runner.workers is None:
        numbers = (1,)
    share = limits.seconds * (1 - SHARE) / len(numbers)
    if limits.frames is None and 2 * typical > share:  # too slow to be worth the wait
        return 1 / typical, None if runner.workers is None else 1
    frames = [scene(index) for index in range(HELD)]
    best, winner = 0.0, numbers[0]
    for workers in numbers:
        count = limits.frames or round(share / max(typical, 1e-4))
        count = max(2 * workers, min(MOST, count))
        many = [frames[i % HELD] for i in range(count)]
        start = clock()
        runner.stream(many, workers)
        rate = count / max(clock() - start, 1e-9)
        if rate > best:
            best, winner = rate, workers
    return best, None if runner.workers is None else winner


def _milliseconds(seconds: list[float]) -> tuple[float, ...]:
    return tuple(round(each * 1e3, 3) for each in seconds)
