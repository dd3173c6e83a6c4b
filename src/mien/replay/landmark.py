"""The face mesh of a fixed number of faces, in a fixed number of rounds."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mien.geometry import apply, fit_similarity, invert
from mien.models import MeshContract
from mien.replay.codec import Codec
from mien.replay.detect import Network
from mien.replay.warp import cut
from mien.stages.landmark import SETTLED, crop_points

ROUNDS = 4
"""Looks at each face: crops of nearly all stand still after so many."""


class Landmarks(nn.Module):
    """Places the mesh as ``stages.landmark`` does, but always in ``rounds`` looks."""

    taught: Tensor
    shown: Tensor
    five: Tensor

    def __init__(self, network: Network, contract: MeshContract, *, rounds: int = ROUNDS) -> None:
        super().__init__()
        self._network, self._contract, self._codec = network, contract, Codec(contract.pixels)
        self._rounds = rounds
        for name, points in zip(("taught", "shown"), crop_points(contract), strict=True):
            self.register_buffer(name, points)
        five = torch.zeros(5, 468)
        for row, group in zip(five, contract.five, strict=True):
            row[list(group)] = 1 / len(group)
        self.register_buffer("five", five)

    def forward(self, frame: Tensor, points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return meshes (K, 468, 2) and points (K, 5, 2) in frame pixels, and presences (K,).

        ``frame`` is uint8 (H, W, 3); ``points`` (K, 5, 2) are a detector's.
        """
        mesh, presence = self._run(frame, fit_similarity(points, self.taught))
        for _ in range(self._rounds - 1):
            again, now = self._run(frame, fit_similarity(self.five @ mesh, self.shown))
            up = now >= presence.clamp_max(SETTLED)
            mesh = torch.where(up[:, None, None], again, mesh)
            presence = torch.where(up, now, presence)
        means = self.five @ mesh
        matrices = fit_similarity(means, self.shown)
        there = apply(matrices, means) - (self.shown - self.taught)
        return mesh, apply(invert(matrices), there), presence

    def _run(self, frame: Tensor, matrices: Tensor) -> tuple[Tensor, Tensor]:
        contract, count = self._contract, len(matrices)
        crops = self._codec.encode(cut(frame, matrices, contract.size))
        outputs = self._network({contract.input: crops})
        mesh = outputs[contract.mesh].reshape(count, -1, 3)[..., :2]
        return apply(invert(matrices), mesh), outputs[contract.presence].reshape(count)
