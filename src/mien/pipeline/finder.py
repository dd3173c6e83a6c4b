"""Finding faces: any size of picture, any size of face, any roll."""

from __future__ import annotations

import torch
from torch import Tensor

from mien.pipeline.stopwatch import Stopwatch
from mien.stages.detect import SAME_FACE, Detector, intersection_over_union, suppress
from mien.stages.landmark import Landmarker
from mien.types import Faces

COARSE = 320
"""Long side of the first look: here a face that overfills the picture is still found."""

STEP = 4
"""Each look is this much finer than the one before; a detector's range of sizes is wider."""

CLEAR = 2
"""A face this many times the smallest a look can find ends the search for the largest face."""

MIN_SCORE = 0.5


class FaceFinder:
    """Looks for faces from coarse to fine, and turned if there is none upright.

    Coarse looks find faces that fill the picture, fine ones find small faces: the last look is at
    the picture's own size, so faces from ``detector.contract.smallest`` pixels up are found.
    """

    def __init__(self, detector: Detector, landmarker: Landmarker) -> None:
        self.detector, self.landmarker = detector, landmarker

    def __call__(
        self, pixels: Tensor, *, largest_only: bool = False, watch: Stopwatch | None = None
    ) -> Faces:
        """Return the faces in uint8 ``pixels`` (H, W, 3), largest first.

        With ``largest_only`` the search ends as soon as finer looks could only find smaller faces;
        the first face is then the largest, and others may be missing.
        """
        watch = watch or Stopwatch()
        found = self._upright(pixels, largest_only, watch)
        if not len(found):
            # A detector sees few faces lying on their side: turn the picture instead.
            turned = [
                _turn_back(
                    self._upright(_turn(pixels, quarter), largest_only, watch), pixels, quarter
                )
                for quarter in (1, 2, 3)
            ]
            found = _distinct(_join(turned))
        return found[found.areas.argsort(descending=True, stable=True)]

    def _upright(self, pixels: Tensor, largest_only: bool, watch: Stopwatch) -> Faces:
        found = Faces.none(pixels.device)
        longest = max(pixels.shape[:2])
        smallest = self.detector.contract.smallest
        for side in looks(longest):
            with watch("detect"):
                guesses = self.detector(pixels, side=side, min_score=MIN_SCORE)
                guesses = _unknown(guesses, found)
            with watch("landmark"):
                found = _distinct(_join([found, self.landmarker(pixels, guesses)]))
            clear = CLEAR * smallest * longest / side
            if largest_only and bool((found.areas >= clear**2).any()):
                break
        return found


def looks(longest: int) -> list[int]:
    """Return the long sides at which a picture is searched, coarse to fine, the last its own."""
    sides = []
    side = COARSE
    while side < longest:
        sides.append(side)
        side *= STEP
    return [*sides, longest]


def _join(parts: list[Faces]) -> Faces:
    parts = [part for part in parts if len(part)] or parts[:1]
    meshes = [part.mesh for part in parts if part.mesh is not None]
    return Faces(
        boxes=torch.cat([part.boxes for part in parts]),
        points=torch.cat([part.points for part in parts]),
        scores=torch.cat([part.scores for part in parts]),
        ids=torch.cat([part.ids for part in parts]),
        mesh=torch.cat(meshes) if meshes else None,
    )


def _distinct(faces: Faces) -> Faces:
    return faces[suppress(faces.boxes, faces.scores, SAME_FACE)]


def _unknown(guesses: Faces, known: Faces) -> Faces:
    """Drop guesses whose middle lies in the middle of a known face: they need no second look."""
    if not len(known) or not len(guesses):
        return guesses
    same = intersection_over_union(guesses.boxes, known.boxes) > SAME_FACE
    return guesses[~same.any(dim=1)]


def _turn(pixels: Tensor, quarter: int) -> Tensor:
    return torch.rot90(pixels, quarter).contiguous()


def _turn_back(faces: Faces, pixels: Tensor, quarter: int) -> Faces:
    """Return faces found in ``_turn(pixels, quarter)`` in the coordinates of ``pixels``."""
    right, bottom = pixels.shape[1] - 1, pixels.shape[0] - 1

    def back(points: Tensor) -> Tensor:
        x, y = points[..., 0], points[..., 1]
        moved = {1: (right - y, x), 2: (right - x, bottom - y), 3: (y, bottom - x)}[quarter]
        return torch.stack([*moved, *points[..., 2:].unbind(-1)], dim=-1)

    corners = back(faces.boxes.unflatten(1, (2, 2)))
    return Faces(
        boxes=torch.cat([corners.amin(dim=1), corners.amax(dim=1)], dim=1),
        points=back(faces.points),
        scores=faces.scores,
        ids=faces.ids,
        mesh=None if faces.mesh is None else back(faces.mesh),
    )
