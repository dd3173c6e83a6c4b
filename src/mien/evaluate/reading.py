"""What the judges say of faces: each picture is read once, and readings are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mien.evaluate.judges import Judges
from mien.evaluate.topology import FIVE

BATCH = 16
"""Faces read at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """What the judges say of K faces."""

    points: Tensor
    """float32 (K, 5, 2): the five points, in pixels; see Faces.points."""

    mesh: Tensor
    """float32 (K, 478, 3): the mesh, in pixels."""

    presence: Tensor
    """float32 (K,): logit that this is a face at all."""

    pose: Tensor
    """float32 (K, 3): yaw, pitch and roll in degrees."""

    embeddings: Mapping[str, Tensor]
    """float32 (K, D) by judge, not scaled to unit length."""

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, rows: slice | list[int]) -> Reading:
        """Return the readings chosen by a slice or a list of numbers."""
        return Reading(
            self.points[rows],
            self.mesh[rows],
            self.presence[rows],
            self.pose[rows],
            {name: value[rows] for name, value in self.embeddings.items()},
        )

    @classmethod
    def join(cls, parts: Sequence[Reading]) -> Reading:
        """Return the readings of all ``parts``, one after another; at least one part."""
        return cls(
            torch.cat([part.points for part in parts]),
            torch.cat([part.mesh for part in parts]),
            torch.cat([part.presence for part in parts]),
            torch.cat([part.pose for part in parts]),
            {
                name: torch.cat([part.embeddings[name] for part in parts])
                for name in parts[0].embeddings
            },
        )


def read(
    judges: Judges, frames: Sequence[Tensor], points: Tensor, *, before: Reading | None = None
) -> Reading:
    """Return what ``judges`` say of one face in each of K pictures, uint8 (H, W, 3).

    ``points`` (K, 5, 2) are the faces' five points in pixels. With ``before``, the readings of the
    same pictures as they were, ``points`` are theirs: the crops for mesh and pose are then the same
    before and after, so that no difference comes from how they were cut, and the five points are
    moved by as much as the mesh moved.
    """
    parts = []
    for first in range(0, len(frames), BATCH):
        rows = slice(first, first + BATCH)
        was = None if before is None else before[rows]
        parts.append(_read(judges, frames[rows], points[rows], was))
    return Reading.join(parts)


def _read(
    judges: Judges, frames: Sequence[Tensor], points: Tensor, before: Reading | None
) -> Reading:
    mesh, presence = judges.mesh(frames, points)
    shown = mesh if before is None else before.mesh
    boxes = torch.cat([shown[..., :2].amin(dim=1), shown[..., :2].amax(dim=1)], dim=1)
    if before is not None:
        points = points + (five(mesh) - five(before.mesh))
    return Reading(
        points=points,
        mesh=mesh,
        presence=presence,
        pose=judges.pose(frames, boxes),
        embeddings={judge.name: judge(frames, points, mesh) for judge in judges.identity},
    )


def five(mesh: Tensor) -> Tensor:
    """Return the five points (K, 5, 2) where the mesh (K, 478, 3) has them."""
    return torch.stack([mesh[:, list(group), :2].mean(dim=1) for group in FIVE], dim=1)
