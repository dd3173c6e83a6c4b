"""Finding faces: any size of picture, any size of face, any roll."""

from __future__ import annotations

import torch
from torch import Tensor

from mien.geometry import apply, cut, intersection_over_smaller, invert, scales
from mien.pipeline.stopwatch import Stopwatch
from mien.stages.detect import Detector, suppress
from mien.stages.landmark import Landmarker
from mien.types import Faces

COARSE = 320
"""Long side of the first look: here a face that overfills the picture is still found."""

SMALLEST = 20
"""Faces from this many pixels up are found; the last look is as fine as the detector needs."""

STEP = 4
"""Each look is this much finer than the one before; a detector's range of sizes is wider."""

CLEAR = 2
"""A face this many times the smallest a look can find ends the search for the largest face."""

SAME_FACE = 0.4
"""Boxes of which the smaller lies by more than this share in the larger are one face.

Boxes are those of the mesh, from brow to chin: two heads side by side share far less."""

GUESS, GUESS_AGAIN = 0.4, 0.3
"""Detector scores from which a place is looked at; whether it is a face is decided later."""

SURE = 20.0
"""Presence logit above which a face is one, and upright in its crop, beyond doubt.

On the CC0 portraits upright faces have 20 to 40; turned by 90 to 270 degrees, at most 18."""

PRESENT, LIKELY = 5.0, 0.45
"""A doubtful face is one if both its presence and its score exceed these."""

CLEAR_SCORE = 0.8
"""A doubtful face is one if its score reaches this, whatever its presence: a profile, say."""

AGAIN = 8
"""Doubtful places looked at again per look, best first: a patterned dress has hundreds."""

CONTEXT, CLOSE = 3.0, 256
"""A doubtful face is looked at again in a square this many times its size, of CLOSE pixels."""


class FaceFinder:
    """Looks for faces from coarse to fine, and turned if there is none upright.

    Coarse looks find faces that fill the picture, fine ones find faces down to SMALLEST pixels.
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
        found = self._search(pixels, largest_only, watch, again=AGAIN)
        if not len(found):
            # A detector sees few faces lying on their side: turn the picture instead.
            turned = [
                _moved(
                    self._search(torch.rot90(pixels, quarter).contiguous(), largest_only, watch),
                    _turned_back(quarter, *pixels.shape[:2]),
                )
                for quarter in (1, 2, 3)
            ]
            found = _distinct(Faces.joined(turned))
        return found[found.areas.argsort(descending=True, stable=True)]

    def _search(
        self, pixels: Tensor, largest_only: bool, watch: Stopwatch, again: int = 0
    ) -> Faces:
        """Search ``pixels`` as they are; look again at up to ``again`` doubtful faces a look."""
        found = Faces.none()
        longest = max(pixels.shape[:2])
        smallest = self.detector.contract.smallest
        for side in looks(longest, smallest / SMALLEST):
            with watch("detect"):
                guesses = self.detector(pixels, side=side, min_score=GUESS)
                guesses = _unknown(guesses, found)
            found = _distinct(Faces.joined([found, self._verify(pixels, guesses, watch, again)]))
            clear = CLEAR * smallest * longest / side
            if largest_only and bool((found.areas >= clear**2).any()):
                break
        return found

    def _verify(self, pixels: Tensor, guesses: Faces, watch: Stopwatch, again: int) -> Faces:
        """Return those guesses that are faces, as their mesh shows them."""
        with watch("landmark"):
            faces, presence = self.landmarker(pixels, guesses)
        doubtful = (presence < SURE).nonzero().flatten().tolist()[:again]
        settled = real(faces.scores, presence)
        settled[doubtful] = False
        looked_at_again = [
            self._again(pixels, guesses[i], faces[i], presence[i : i + 1], watch) for i in doubtful
        ]
        return Faces.joined([faces[settled], *looked_at_again])

    def _again(
        self, pixels: Tensor, guess: Faces, face: Faces, presence: Tensor, watch: Stopwatch
    ) -> Faces:
        """Look again at a doubtful ``face``, at each roll; return it at its best, or no face.

        The detector sees the surroundings of the guess turned by quarters: among these, one shows
        the face within 45 degrees of upright, where the detector is right about it.
        """
        candidates = []
        with watch("detect"):
            squares = _squares(guess.boxes[0])
            views = cut(pixels, squares, CLOSE).mul(255).round_().to(torch.uint8)
            for view, square in zip(views.permute(0, 2, 3, 1), squares, strict=True):
                seen = self.detector(view, side=CLOSE, min_score=GUESS_AGAIN)
                middle = (seen.boxes[:, :2] + seen.boxes[:, 2:]) / 2 - (CLOSE - 1) / 2
                central = seen[(middle.abs().amax(dim=1) < CLOSE / CONTEXT / 2)]
                if len(central):
                    candidates.append(_moved(central[0], invert(square)))
        with watch("landmark"):
            faces, presences = self.landmarker(pixels, Faces.joined([guess[[]], *candidates]))
        faces, presences = Faces.joined([face, faces]), torch.cat([presence, presences])
        best = int((presences.clamp_max(SURE) + faces.scores).argmax())
        return faces[[best]][real(faces.scores, presences)[[best]]]


def looks(longest: int, finest: float) -> list[int]:
    """Return the long sides at which a picture is searched, from coarse to ``finest``.

    ``finest`` is relative to the picture's own size.
    """
    last = round(longest * finest)
    sides = []
    side = COARSE
    while side < last:
        sides.append(side)
        side *= STEP
    return [*sides, last]


def real(scores: Tensor, presence: Tensor) -> Tensor:
    """Return which faces are faces, bool (K,), by the detector's scores and the mesh's logits."""
    likely = (presence > PRESENT) & (scores >= LIKELY)
    return (presence >= SURE) | likely | (scores >= CLEAR_SCORE)


def _distinct(faces: Faces) -> Faces:
    return faces[suppress(faces.boxes, faces.scores, SAME_FACE, intersection_over_smaller)]


def _unknown(guesses: Faces, known: Faces) -> Faces:
    """Drop guesses that lie on a known face: they are that face, or a part of it."""
    same = intersection_over_smaller(guesses.boxes, known.boxes) > SAME_FACE
    return guesses[~same.any(dim=1)]


def _squares(box: Tensor) -> Tensor:
    """Return similarities (4, 2, 3) that show the surroundings of ``box`` (4,) at four rolls."""
    centre = (box[:2] + box[2:]) / 2
    scale = CLOSE / (CONTEXT * (box[2:] - box[:2]).amax().clamp_min(1))
    turns = box.new_tensor(
        [[[1, 0], [0, 1]], [[0, 1], [-1, 0]], [[-1, 0], [0, -1]], [[0, -1], [1, 0]]]
    )
    linear = turns * scale
    return torch.cat([linear, ((CLOSE - 1) / 2 - linear @ centre)[..., None]], dim=-1)


def _turned_back(quarter: int, height: int, width: int) -> Tensor:
    """Return the map (2, 3) from ``rot90(picture, quarter)`` to the ``height`` x ``width`` one."""
    right, bottom = float(width - 1), float(height - 1)
    return torch.tensor(
        {
            1: [[0.0, -1.0, right], [1.0, 0.0, 0.0]],
            2: [[-1.0, 0.0, right], [0.0, -1.0, bottom]],
            3: [[0.0, 1.0, 0.0], [-1.0, 0.0, bottom]],
        }[quarter]
    )


def _moved(faces: Faces, matrix: Tensor) -> Faces:
    """Return ``faces`` where the similarity ``matrix`` (2, 3) takes them."""
    left, top, right, bottom = faces.boxes.unbind(dim=1)
    corners = torch.stack([left, top, right, top, right, bottom, left, bottom], dim=1)
    corners = apply(matrix, corners.reshape(-1, 4, 2))
    mesh = faces.mesh
    if mesh is not None:
        depth = mesh[..., 2:] * scales(matrix)
        mesh = torch.cat([apply(matrix, mesh[..., :2]), depth], dim=-1)
    return Faces(
        boxes=torch.cat([corners.amin(dim=1), corners.amax(dim=1)], dim=1),
        points=apply(matrix, faces.points),
        scores=faces.scores,
        ids=faces.ids,
        mesh=mesh,
    )
