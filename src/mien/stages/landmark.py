"""Landmarks: from a rough guess to the face mesh, at any roll, and whether it is a face at all.

Detectors pull the points of a turned face toward the upright: at a roll of 15 degrees YuNet's are
off by a tenth of the distance between the eyes, and an upside-down face is reported as an upright
one. So the guess only says where to look. The mesh network sees the guess turned upright, its
mesh turns the crop further, until the crop stands still; and it says how much what it sees looks
like an upright face, which settles the roll where the detector cannot. The five points come from
the mesh: they are steadier than a detector's, and the same whichever detector guessed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import dist, hypot
from typing import cast

import torch
from torch import Tensor

from mien.engines import Engine, run_finite
from mien.errors import EngineError
from mien.geometry import apply, cut, invert, template, zoom_about_centre
from mien.geometry.plain import Points, Similarity, stacked
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
        taught, shown = crop_points(contract)
        self._taught, self._shown = taught.tolist(), shown.tolist()
        self._off = (shown - taught).tolist()
        self._five = torch.zeros(5, POINTS)
        for row, group in zip(self._five, contract.five, strict=True):
            row[list(group)] = 1 / len(group)

    def __call__(
        self, pixels: Tensor, faces: Faces, *, rounds: int = ROUNDS
    ) -> tuple[Faces, Tensor]:
        """Return ``faces`` with mesh, points and boxes from the mesh, and their presence.

        ``pixels`` is the uint8 (H, W, 3) picture in which ``faces`` were detected; it may lie on
        another device. Presence is float32 (K,), the network's logit that its crop shows an
        upright face. A face is looked at up to ``rounds`` times; once is enough for one that is
        where it is expected.
        """
        if not len(faces):
            return faces, faces.scores
        device = faces.points.device
        looks = [Similarity.fit(points, self._taught) for points in faces.points.tolist()]
        best = self._settle(pixels, looks, rounds, device)
        back = [look.inverse() for look in best.looks]
        points = [
            to_frame(self._as_taught(five, turn))
            for to_frame, five, turn in zip(back, best.five, best.turns, strict=True)
        ]
        # depth keeps the scale of the other two
        rows = [
            ((a, b, 0.0), (-b, a, 0.0), (0.0, 0.0, hypot(a, b)), (x, y, 0.0)) for a, b, x, y in back
        ]
        maps = torch.tensor(rows, device=device)
        mesh = torch.baddbmm(maps[:, 3:], best.mesh, maps[:, :3])
        placed = Faces(
            boxes=torch.cat(mesh[..., :2].aminmax(dim=1), dim=1),
            points=torch.tensor(points, device=device),
            scores=faces.scores,
            ids=faces.ids,
            mesh=mesh,
        )
        return placed, best.presence

    def _settle(
        self, pixels: Tensor, looks: list[Similarity], rounds: int, device: torch.device
    ) -> _Looks:
        """Return what is seen in crops that stand; the first are cut where ``looks`` say."""
        best = self._look(pixels, looks, device)
        moving = list(range(len(looks)))
        for _ in range(rounds - 1):
            moving = [row for row in moving if self._moved(best.turns[row]) > STILL]
            if not moving:
                break
            better = [best.turns[row].after(best.looks[row]) for row in moving]
            again = self._look(pixels, better, device)
            least = [min(logit, SETTLED) for logit in best.presence[moving].tolist()]
            logits = again.presence.tolist()
            up = [i for i in range(len(moving)) if logits[i] >= least[i]]
            moving = [moving[i] for i in up]
            best.take(moving, again, up)
        return best

    def _look(self, pixels: Tensor, looks: list[Similarity], device: torch.device) -> _Looks:
        contract = self.contract
        crops = cut(pixels, stacked(looks, device), self._size)
        outputs = run_finite(self.engine, {contract.input: contract.pixels.encode(crops)})
        for name, size in ((contract.mesh, POINTS * 3), (contract.presence, 1)):
            if outputs[name].numel() != len(crops) * size:
                shape = tuple(outputs[name].shape)
                raise EngineError(
                    f"{self.engine.model!r} returned {name!r} of shape {shape} for {len(crops)} "
                    f"crops; {size} values each were expected.",
                    model=self.engine.model,
                )
        mesh = outputs[contract.mesh].reshape(len(crops), POINTS, 3).to(device)
        presence = outputs[contract.presence].reshape(len(crops)).to(device)
        five = (self._five.to(device) @ mesh[..., :2]).tolist()
        turns = [Similarity.fit(points, self._shown) for points in five]
        return _Looks(list(looks), mesh, presence, five, turns)

    def _as_taught(self, five: Points, turn: Similarity) -> list[tuple[float, float]]:
        """Return the five points in a crop where the template's network was taught to have them.

        ``five`` is where the mesh has them, and ``turn`` takes them to where it has them in a crop
        that stands, in which the two differ by as much as the contract says.
        """
        back = turn.inverse()._replace(x=0.0, y=0.0)
        return [(x - dx, y - dy) for (x, y), (dx, dy) in zip(five, back(self._off), strict=True)]

    def _moved(self, turn: Similarity) -> float:
        """Return how far ``turn`` moves a corner of a crop, in shares of its side."""
        edges = (0.0, float(self._size))
        corners = [(x, y) for x in edges for y in edges]
        return max(map(dist, corners, turn(corners))) / self._size


@dataclass(slots=True, eq=False)
class _Looks:
    """What is seen in the crops of K faces."""

    looks: list[Similarity]
    """From frame pixels to crop pixels."""

    mesh: Tensor
    """float32 (K, 468, 3), in crop pixels."""

    presence: Tensor
    """float32 (K,)."""

    five: list[Points]
    """The five points where the mesh has them, in crop pixels."""

    turns: list[Similarity]
    """What takes ``five`` to where they belong, in crop pixels."""

    def take(self, rows: list[int], others: _Looks, which: list[int]) -> None:
        """Make the faces ``rows`` those of the ``others`` that are numbered ``which``."""
        if not rows:
            return
        self.mesh, self.presence = self.mesh.clone(), self.presence.clone()
        self.mesh[rows], self.presence[rows] = others.mesh[which], others.presence[which]
        for row, i in zip(rows, which, strict=True):
            self.looks[row], self.five[row] = others.looks[i], others.five[i]
            self.turns[row] = others.turns[i]


def shift(before: Tensor, after: Tensor, size: int) -> Tensor:
    """Return how far crops (K, 2, 3) of ``size`` pixels moved at a corner, in shares of their side.

    The result is (K,).
    """
    edges = torch.arange(2, device=before.device) * float(size)
    corners = torch.cartesian_prod(edges, edges)
    moved = apply(after, apply(invert(before), corners)) - corners
    return moved.square().sum(dim=-1).sqrt().amax(dim=-1) / size
