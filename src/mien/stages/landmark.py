"""Landmarks: from a rough guess to the face mesh, at any roll, and whether it is a face at all.

Detectors pull the points of a turned face toward the upright: at a roll of 15 degrees YuNet's are
off by a tenth of the distance between the eyes, and an upside-down face is reported as an upright
one. So the guess only says where to look. The mesh network sees the guess turned upright, its
mesh turns the crop further, until the crop stands still; and it says how much what it sees looks
like an upright face, which settles the roll where the detector cannot. The five points come from
the mesh: they are steadier than a detector's, and the same whichever detector guessed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import torch
from torch import Tensor

from mien.engines import Engine, run_finite
from mien.errors import EngineError
from mien.geometry import apply, cut, fit_similarity, invert, scales, template, zoom_about_centre
from mien.geometry.templates import FivePoints
from mien.models import MeshContract
from mien.types import Faces

SETTLED = 15.0
"""Presence logit above which a crop is good, and one that stands stiller is taken for better."""

POINTS = 468
"""Points of the mesh."""

ROUNDS = 8
STILL = 0.02
"""A crop stands still when its corners move by less than this share of its side."""


def crop_points(contract: MeshContract) -> tuple[Tensor, Tensor]:
    """Return the five points (5, 2) in a crop: as its network was taught, as the mesh has them."""
    taught, size = template(contract.template), contract.size
    shown = tuple(
        (x + dx, y + dy) for (x, y), (dx, dy) in zip(taught.points, contract.offsets, strict=True)
    )
    both = (taught, replace(taught, points=cast("FivePoints", shown)))
    detector, mesh = (zoom_about_centre(p.at(size), size, contract.zoom) for p in both)
    return detector, mesh


class Landmarker:
    """Places the face mesh."""

    def __init__(self, engine: Engine, contract: MeshContract) -> None:
        self.engine, self.contract = engine, contract
        self._size = contract.size
        self._detector, self._mesh = crop_points(contract)

    def __call__(
        self, pixels: Tensor, faces: Faces, *, rounds: int = ROUNDS
    ) -> tuple[Faces, Tensor]:
        """Return ``faces`` with mesh, points and boxes from the mesh, and their presence.

        ``pixels`` is the uint8 (H, W, 3) picture in which ``faces`` were detected. Presence is
        float32 (K,), the network's logit that its crop shows an upright face. A face is looked at
        up to ``rounds`` times; once is enough for one that is where it is expected.
        """
        if not len(faces):
            return faces, faces.scores
        mesh, presence = self._settle(
            pixels, fit_similarity(faces.points, self._detector.to(pixels.device)), rounds
        )
        low, high = mesh[..., :2].amin(dim=1), mesh[..., :2].amax(dim=1)
        placed = Faces(
            boxes=torch.cat([low, high], dim=1),
            points=self._points(mesh),
            scores=faces.scores,
            ids=faces.ids,
            mesh=mesh,
        )
        return placed, presence

    def _settle(self, pixels: Tensor, matrices: Tensor, rounds: int) -> tuple[Tensor, Tensor]:
        """Return meshes (K, 468, 3) in frame pixels and presences (K,), from crops that stand."""
        mesh, presence = self._run(pixels, matrices)
        moving = torch.arange(len(matrices), device=pixels.device)
        for _ in range(rounds - 1):
            better = fit_similarity(self._means(mesh[moving]), self._mesh.to(mesh.device))
            moved = shift(matrices[moving], better, self._size) > STILL
            if not bool(moved.any()):
                break
            moving, better = moving[moved], better[moved]
            next_mesh, next_presence = self._run(pixels, better)
            up = next_presence >= presence[moving].clamp_max(SETTLED)
            moving = moving[up]
            matrices[moving] = better[up]
            mesh[moving], presence[moving] = next_mesh[up], next_presence[up]
        return mesh, presence

    def _run(self, pixels: Tensor, matrices: Tensor) -> tuple[Tensor, Tensor]:
        contract = self.contract
        crops = cut(pixels, matrices, self._size)
        outputs = run_finite(self.engine, {contract.input: contract.pixels.encode(crops)})
        for name, size in ((contract.mesh, POINTS * 3), (contract.presence, 1)):
            if outputs[name].numel() != len(crops) * size:
                shape = tuple(outputs[name].shape)
                raise EngineError(
                    f"{self.engine.model!r} returned {name!r} of shape {shape} for {len(crops)} "
                    f"crops; {size} values each were expected.",
                    model=self.engine.model,
                )
        mesh = outputs[contract.mesh].reshape(len(crops), -1, 3)
        back = invert(matrices)
        flat = apply(back, mesh[..., :2])
        depth = mesh[..., 2:] * scales(back)[:, None, None]
        presence = outputs[contract.presence].reshape(len(crops))
        return torch.cat([flat, depth], dim=-1), presence

    def _means(self, mesh: Tensor) -> Tensor:
        """Return the five points (K, 5, 2) where the mesh has them."""
        groups = self.contract.five
        return torch.stack([mesh[:, list(g), :2].mean(dim=1) for g in groups], dim=1)

    def _points(self, mesh: Tensor) -> Tensor:
        """Return the five points (K, 5, 2) where the template's network was taught to have them."""
        means = self._means(mesh)
        taught, shown = self._detector.to(mesh.device), self._mesh.to(mesh.device)
        matrices = fit_similarity(means, shown)
        return apply(invert(matrices), apply(matrices, means) - (shown - taught))


def shift(before: Tensor, after: Tensor, size: int) -> Tensor:
    """Return how far crops (K, 2, 3) of ``size`` pixels moved at a corner, in shares of their side.

    The result is (K,).
    """
    edges = torch.arange(2, device=before.device) * float(size)
    corners = torch.cartesian_prod(edges, edges)
    moved = apply(after, apply(invert(before), corners)) - corners
    return moved.square().sum(dim=-1).sqrt().amax(dim=-1) / size
