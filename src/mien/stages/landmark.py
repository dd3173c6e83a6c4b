"""Landmarks: from a rough guess to the face mesh, at any roll, and whether it is a face at all.

Detectors pull the points of a turned face toward the upright: at a roll of 15 degrees YuNet's are
off by a tenth of the distance between the eyes, and an upside-down face is reported as an upright
one. So the guess only says where to look. The mesh network sees the guess turned upright, its
mesh turns the crop further, until the crop stands still; and it says whether what it sees is an
upright face, which settles the roll where the detector cannot. The five points come from the
mesh: they are steadier than a detector's, and the same whichever detector guessed.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mien.engines import Engine
from mien.geometry import apply, cut, fit_similarity, invert, scales, template, zoom_about_centre
from mien.models import MeshContract
from mien.types import Faces

SURE = 15.0
"""Presence logit above which a crop is upright beyond doubt.

On the CC0 portraits: at least 17 within 30 degrees of upright, at most 11 at 90 to 270 degrees."""

PRESENT = 0.0
"""Presence logit above which a crop shows a face: a probability of one half."""

ROUNDS = 4
STILL = 0.02
"""A crop stands still when its corners move by less than this share of its side."""

TURNS = 8
"""Rolls tried, evenly spaced, when the detector's guess does not show an upright face."""

EYES_PER_BOX = 0.42
"""Distance between the eyes by the side of a detector's box (median of the CC0 portraits)."""


class Landmarker:
    """Places the face mesh and drops what is no face."""

    def __init__(self, engine: Engine, contract: MeshContract) -> None:
        self.engine, self.contract = engine, contract
        aligned = template(contract.template)
        self._size = contract.size
        offsets = torch.tensor(contract.offsets)
        # template points as the network's crop shows them; where the mesh has them
        self._detector = zoom_about_centre(aligned.at(self._size), self._size, contract.zoom)
        shown = zoom_about_centre(aligned.at(aligned.size) + offsets, aligned.size, contract.zoom)
        self._mesh = (shown + 0.5) * (self._size / aligned.size) - 0.5

    def __call__(self, pixels: Tensor, faces: Faces) -> Faces:
        """Return those ``faces`` that are faces, with mesh, points and boxes from the mesh.

        ``pixels`` is the uint8 (H, W, 3) picture in which ``faces`` were detected.
        """
        if not len(faces):
            return faces
        mesh, presence = self._settle(pixels, fit_similarity(faces.points, self._detector))
        for doubtful in (presence < SURE).nonzero().flatten().tolist():
            turned = self._turned(faces.boxes[doubtful])
            meshes, presences = self._settle(pixels, turned)
            best = int(presences.argmax())
            if presences[best] > presence[doubtful]:
                mesh[doubtful], presence[doubtful] = meshes[best], presences[best]
        seen = presence > PRESENT
        mesh = mesh[seen]
        low, high = mesh[..., :2].amin(dim=1), mesh[..., :2].amax(dim=1)
        return Faces(
            boxes=torch.cat([low, high], dim=1),
            points=self._points(mesh),
            scores=faces.scores[seen],
            ids=faces.ids[seen],
            mesh=mesh,
        )

    def _settle(self, pixels: Tensor, matrices: Tensor) -> tuple[Tensor, Tensor]:
        """Return meshes (K, 468, 3) in frame pixels and presences (K,), from crops that stand."""
        mesh, presence = self._run(pixels, matrices)
        moving = torch.arange(len(matrices), device=pixels.device)
        for _ in range(ROUNDS - 1):
            better = fit_similarity(self._means(mesh[moving]), self._mesh)
            moved = self._moved(matrices[moving], better) > STILL
            if not bool(moved.any()):
                break
            moving, better = moving[moved], better[moved]
            next_mesh, next_presence = self._run(pixels, better)
            up = next_presence >= presence[moving].clamp_max(SURE)
            moving = moving[up]
            matrices[moving] = better[up]
            mesh[moving], presence[moving] = next_mesh[up], next_presence[up]
        return mesh, presence

    def _run(self, pixels: Tensor, matrices: Tensor) -> tuple[Tensor, Tensor]:
        contract = self.contract
        crops = cut(pixels, matrices, self._size)
        outputs = self.engine({contract.input: contract.pixels.encode(crops)})
        mesh = outputs[contract.mesh].reshape(len(crops), -1, 3)
        back = invert(matrices)
        flat = apply(back, mesh[..., :2])
        depth = mesh[..., 2:] * scales(back)[:, None, None]
        presence = outputs[contract.presence].reshape(len(crops))
        return torch.cat([flat, depth], dim=-1), presence.nan_to_num(nan=-math.inf)

    def _means(self, mesh: Tensor) -> Tensor:
        """Return the five points (K, 5, 2) where the mesh has them."""
        groups = self.contract.five
        return torch.stack([mesh[:, list(g), :2].mean(dim=1) for g in groups], dim=1)

    def _points(self, mesh: Tensor) -> Tensor:
        """Return the five points (K, 5, 2) where the template's network was taught to have them."""
        means = self._means(mesh)
        matrices = fit_similarity(means, self._mesh)
        return apply(invert(matrices), apply(matrices, means) - (self._mesh - self._detector))

    def _moved(self, before: Tensor, after: Tensor) -> Tensor:
        """Return how far crops (K, 2, 3) moved, as a share of their side."""
        side = float(self._size)
        corners = before.new_tensor([[0, 0], [side, 0], [side, side], [0, side]])
        shift = apply(after, apply(invert(before), corners)) - corners
        return shift.square().sum(dim=-1).sqrt().amax(dim=-1) / side

    def _turned(self, box: Tensor) -> Tensor:
        """Return similarities (TURNS, 2, 3) that show ``box`` (4,) upright at each roll."""
        centre = (box[:2] + box[2:]) / 2
        eyes = EYES_PER_BOX * float((box[2:] - box[:2]).clamp_min(1).prod().sqrt())
        spread = float(torch.linalg.vector_norm(self._detector[1] - self._detector[0]))
        scale = spread / eyes
        angles = torch.arange(TURNS, device=box.device) * (2 * math.pi / TURNS)
        cos, sin = angles.cos() * scale, angles.sin() * scale
        linear = torch.stack(
            [torch.stack([cos, sin], dim=-1), torch.stack([-sin, cos], dim=-1)], dim=-2
        )
        middle = self._detector.mean(dim=0).to(box.device)
        return torch.cat([linear, (middle - linear @ centre)[..., None]], dim=-1)
