"""Covering: what is before the faces of a clip, frame by frame and steadied over time.

What the occlusion network says of a frame is found once, by whichever thread asks first: the frame
itself, when its faces are made, or one of the next, which are steadied by it. So the result depends
on neither threads nor order, and on no more than the DEPTH frames before.
"""

from __future__ import annotations

from collections import deque
from threading import Lock

import torch
from torch import Tensor

from mien.geometry import fit_similarity, template
from mien.pipeline.patch import taken_to
from mien.stages.align import Aligned, align
from mien.stages.calm import DEPTH, Seen, calmed
from mien.stages.occlude import Occlusion
from mien.types import Crops, Faces, Frame


class Cover:
    """What is before the faces of one frame, found when it is first asked for.

    Until then the frame is kept, and must not change.
    """

    def __init__(self, occlusion: Occlusion, frame: Frame, faces: Faces, contract: Aligned) -> None:
        """``contract`` is the swap network's, which crops are cut for if it suits both."""
        self.rows = {number: row for row, number in enumerate(faces.ids.tolist())}
        self.alike = contract.template == occlusion.contract.template
        self._occlusion, self._faces = occlusion, faces
        self._contract: Aligned = contract if self.alike else occlusion.contract
        self._frame: Frame | None = frame if len(faces) else None
        self._found: tuple[Tensor, Crops] | None = None
        self._lock = Lock()

    def __call__(self) -> tuple[Tensor, Crops]:
        """Return probabilities that the face is seen, float32 (K, s, s), and the crops.

        Any thread may ask.
        """
        with self._lock:
            if self._found is None:
                assert self._frame is not None  # of no faces nobody asks
                crops = align(self._frame, self._faces, self._contract)
                self._found = self._occlusion.probabilities(crops), crops
                self._frame = None
            return self._found


class Covers:
    """What is before the faces of one frame, in the light of the frames before."""

    def __init__(self, now: Cover, before: tuple[Cover, ...], faces: Faces) -> None:
        """``before`` are those of the frames before, the latest first."""
        self.faces = faces
        self._now, self._before = now, before

    def seen(self, faces: Faces, crops: Crops) -> Tensor | Seen:
        """Return how far ``faces``, some of this frame's, are seen in ``crops``, as ``seen_now``.

        Float32 (K, S, S) in [0, 1]; or what was found, if the network saw these crops.
        """
        numbers = faces.ids.tolist()
        if not numbers:
            return crops.pixels.new_ones(0, crops.size, crops.size)
        if self._now.alike:
            return self._found(numbers)
        return self._seen(numbers, crops.matrices, crops.size)

    def seen_at(self, numbers: list[int], contract: Aligned) -> dict[int, Tensor]:
        """Return how far the faces of these ids are seen, (1, S, S), as ``contract`` cuts them."""
        if not numbers:
            return {}
        points = self.faces.points[[self._now.rows[number] for number in numbers]]
        matrices = fit_similarity(points, template(contract.template).at(contract.size).to(points))
        shown = self._seen(numbers, matrices, contract.size)
        return {number: shown[row : row + 1] for row, number in enumerate(numbers)}

    def crops(self, numbers: list[int]) -> Crops | None:
        """Return the crops of the faces of these ids as the swap network wants them, if cut so."""
        if not numbers or not self._now.alike:
            return None
        rows, crops = [self._now.rows[number] for number in numbers], self._now()[1]
        return Crops(crops.pixels[rows], crops.matrices[rows], crops.template)

    def settle(self) -> None:
        """Have it found, as the frame is going to change."""
        if self._now.rows:
            self._now()

    def _seen(self, numbers: list[int], matrices: Tensor, size: int) -> Tensor:
        seen = self._found(numbers)
        calm = calmed(seen.now, seen.before, seen.there)
        own = None
        if not self._now.alike:
            own = self._now()[1].matrices[[self._now.rows[number] for number in numbers]]
        return taken_to(calm, own, matrices, size)

    def _found(self, numbers: list[int]) -> Seen:
        found = self._now()[0]
        now = torch.stack([found[self._now.rows[number]] for number in numbers])
        return Seen.of(now, [self._past(number) for number in numbers])

    def _past(self, number: int) -> list[Tensor]:
        """Return what was found of a face in the frames before in which it was, without a gap."""
        past = []
        for cover in self._before:
            if number not in cover.rows:
                break
            past.append(cover()[0][cover.rows[number]])
        return past


class Coverer:
    """Begins with each frame of one clip, in order, what is to be known of it."""

    def __init__(self, occlusion: Occlusion, contract: Aligned, *, smooth: bool) -> None:
        """``contract`` is the swap network's; without ``smooth`` each frame is for itself."""
        self._occlusion, self._contract = occlusion, contract
        self._past: deque[Cover] = deque(maxlen=DEPTH if smooth else 0)

    def __call__(self, frame: Frame, faces: Faces, *, fresh: bool) -> Covers:
        """Return what is before ``faces``, which have ids; ``fresh`` frames begin a shot."""
        if fresh:
            self._past.clear()
        now = Cover(self._occlusion, frame, faces, self._contract)
        covers = Covers(now, tuple(self._past), faces)
        self._past.appendleft(now)
        return covers
