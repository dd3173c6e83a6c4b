"""Paths and runners that take a time of their own choice, by a clock that goes when told to."""

from __future__ import annotations


class Clock:
    """A clock that goes only when told to."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Steps:
    """A runner that takes ``seconds`` of the i-th frame: by stage, and 'rest' outside of any."""

    workers = ()

    def __init__(self, clock, seconds, swapped=1):
        self._clock, self._seconds = clock, seconds
        self.frames, self.streams = [], []
        self.stages, self.swapped = {}, swapped

    def run(self, frame):
        taken = dict(self._seconds(len(self.frames)))
        self.frames.append(frame)
        self._clock.now += sum(taken.values())
        taken.pop("rest", None)
        self.stages = taken or None

    def synchronise(self):
        pass

    def stream(self, frames, workers):
        self.streams.append((len(frames), workers))
        each = sum(self._seconds(len(self.frames)).values())
        self._clock.now += each * len(frames) / min(workers, 2)


class Way:
    """A path with one runner, of which it takes 3 seconds to prepare."""

    name, cold, networks = "stand-in", {"load": 0.5}, {"yunet": "cpu"}

    def __init__(self, runner, clock):
        self._runner, self._clock = runner, clock

    def runner(self, scene):
        self._clock.now += 3
        return self._runner
