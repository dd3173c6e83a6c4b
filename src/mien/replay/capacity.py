"""Frames of any size with any number of faces: one replay for each size and capacity.

A graph has a fixed number of slots for faces, and empty ones cost nearly as much as full ones. So
there is a graph for 1, 2, 4, 8 and 16 faces, each made when it is first needed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from mien.errors import InvalidOption
from mien.replay.frame import Outcome, Part, WholeFrame
from mien.replay.graph import Clock, Replay, shown
from mien.replay.tracks import State
from mien.types import Frame

SLOTS = (1, 2, 4, 8, 16)
"""Numbers of faces that a frame is made for."""

KEPT = 4
"""Replays that are kept: each holds the memory of its graph."""

REST = 50
"""Frames that would all have fitted in fewer slots, after which fewer are used."""


class AnyFrame:
    """Swaps frames one after another, whatever their size and number of faces.

    ``parts``, ``people``, ``replaced`` and ``options`` are WholeFrame's and Replay's. With
    ``steady`` frames are ``mien.types.Frame`` with their time, in order, of one clip; one of
    another size begins a new shot.
    """

    def __init__(
        self,
        parts: Mapping[str, Part],
        people: Tensor,
        replaced: Tensor | None = None,
        *,
        device: torch.device | str = "cuda",
        kept: int = KEPT,
        **options: Any,
    ) -> None:
        if kept < 1:
            raise InvalidOption("kept", kept, "1 or more")
        self._parts, self._options = parts, options
        self._people, self._replaced = people, replaced
        self._device, self._kept = torch.device(device), kept
        self._replays: OrderedDict[tuple[int, int, int], Replay] = OrderedDict()
        self._step, self._roomy = 0, 0
        self._clock = Clock() if options.get("steady") else None
        self._size: tuple[int, ...] = ()
        self._last: Replay | None = None

    @property
    def slots(self) -> int:
        """How many faces the next frame is made for, unless it turns out to have more."""
        return SLOTS[self._step]

    def __call__(self, frame: Tensor | Frame) -> Outcome:
        """Return what becomes of ``frame``, uint8 (H, W, 3), which stays as it is.

        Waits for the frame. One with more faces than slots is made again with more of them, so up
        to 16 faces are found; the outcome's tensors hold until the next call. Raises InvalidOption.
        """
        pixels, elapsed = shown(frame), 0.0
        if self._clock is not None:
            elapsed, size = self._clock(frame), tuple(pixels.shape[:2])
            elapsed = elapsed if size == self._size else 0.0
            self._size = size
        known: State | None = None
        while True:
            replay = self._replay(pixels)
            self._hand_on(replay, known)
            outcome = replay.work(pixels, elapsed)
            guesses = int(outcome.guesses)
            if guesses < self.slots or self._step == len(SLOTS) - 1:
                break
            self._step, self._roomy = self._step + 1, 0
            known = replay.known
        roomy = self._step > 0 and guesses < SLOTS[self._step - 1]
        self._roomy = self._roomy + 1 if roomy else 0
        if self._roomy == REST:
            self._step, self._roomy = self._step - 1, 0
        return outcome

    def cast(self, people: Tensor, replaced: Tensor | None = None) -> None:
        """Let other people be received, of the same number, from the next frame on."""
        self._people, self._replaced = people, replaced
        for replay in self._replays.values():
            replay.cast(people, replaced)

    def _hand_on(self, replay: Replay, known: State | None) -> None:
        """Let ``replay`` know what is ``known``; None for all that the last one knows."""
        last, self._last = self._last, replay
        if last is None or last is replay or last.steady is None:
            return
        assert replay.steady is not None
        replay.steady.take(last.steady.state() if known is None else known)

    def _replay(self, frame: Tensor) -> Replay:
        height, width, _ = frame.shape
        key = (height, width, self.slots)
        replay = self._replays.pop(key, None)
        if replay is None:
            while len(self._replays) >= self._kept:
                self._replays.popitem(last=False)
            whole = WholeFrame(
                self._parts, height=height, width=width, slots=self.slots, **self._options
            )
            replay = Replay(
                whole.to(self._device),
                self._people.clone(),  # each has its own: a cast is written into them
                None if self._replaced is None else self._replaced.clone(),
                frame=frame.to(self._device),
            )
        self._replays[key] = replay
        return replay
