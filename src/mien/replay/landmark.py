"""The face mesh of a fixed number of faces, in a fixed number of rounds."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from mien.geometry import apply, fit_similarity, invert
from mien.kernels import fused
from mien.models import MeshContract
from mien.replay.codec import Codec
from mien.replay.detect import Network
from mien.replay.warp import cut
from mien.stages.landmark import SETTLED, STILL, crop_points, shift

ROUNDS = 3
"""Looks at each face: of 150, turned by up to 40 degrees, all stood still after so many."""


class Landmarks(nn.Module):
    """Places the mesh as ``stages.landmark`` does, in ``rounds`` looks whatever they show."""

    taught: Tensor
    shown: Tensor
    five: Tensor

    def __init__(self, network: Network, contract: MeshContract, *, rounds: int = ROUNDS) -> None:
        super().__init__()
        self._network, self._contract, self._codec = network, contract, Codec(contract.pixels)
        self._rounds = rounds
        for name, points in zip(("taught", "shown"), crop_points(contract), strict=True):
            self.register_buffer(name, points)
        # as many numbers for each of the five, some more than once: their mean is the same
        many = math.lcm(*map(len, contract.five))
        five = [group * (many // len(group)) for group in contract.five]
        self.register_buffer("five", torch.tensor(five))

    def forward(
        self, frames: Tensor, points: Tensor, *, rounds: int | None = None, still: float = STILL
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return meshes (K, 468, 2) and points (K, 5, 2) in frame pixels, and presences (K,).

        The last, bool (K,), is which faces' crops would still move. ``frames`` is uint8
        (B, H, W, 3) or (H, W, 3); ``points`` (K, 5, 2) are where faces are thought to be, as many
        in each frame, one frame after another. ``rounds`` is for faces that are where they are
        thought to be, and by less than ``still`` of its side a crop may move that stands.
        """
        state = _begun(points, self.taught)
        for _ in range(rounds or self._rounds):
            meshes, now = self._run(frames, state[0])
            size = self._contract.size
            state = _settled(*state, meshes, now, self.five, self.shown, size, still)
        _, _, mesh, presence, moving = state
        return mesh, _five_points(mesh, self.five, self.shown, self.taught), presence, moving

    def _run(self, frames: Tensor, matrices: Tensor) -> tuple[Tensor, Tensor]:
        """Return meshes (K, 468, 2), in pixels of their crops, and presences (K,)."""
        contract, count = self._contract, len(matrices)
        crops = self._codec.encode(cut(frames, matrices, contract.size))
        outputs = self._network({contract.input: crops})
        mesh = outputs[contract.mesh].reshape(count, -1, 3)[..., :2]
        return mesh, outputs[contract.presence].reshape(count)


State = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
"""Where to look next and where was looked, maps (K, 2, 3); meshes (K, 468, 2) and presences (K,)
as they were best; which faces still move, bool (K,)."""


@fused
def _begun(points: Tensor, taught: Tensor) -> State:
    matrices = fit_similarity(points, taught)
    count = len(points)
    mesh, presence = points.new_zeros(count, 468, 2), points.new_full((count,), -torch.inf)
    return matrices, matrices, mesh, presence, torch.ones_like(presence, dtype=torch.bool)


@fused
def _settled(
    looked: Tensor,
    placed: Tensor,
    mesh: Tensor,
    presence: Tensor,
    moving: Tensor,
    meshes: Tensor,
    now: Tensor,
    five: Tensor,
    shown: Tensor,
    size: int,
    still: float,
) -> State:
    """Return the state after a look: a face whose crop stands still stays as it is."""
    taken = moving & (now >= presence.clamp_max(SETTLED))
    placed = torch.where(taken[:, None, None], looked, placed)
    mesh = torch.where(taken[:, None, None], apply(invert(looked), meshes), mesh)
    presence = torch.where(taken, now, presence)
    better = fit_similarity(mesh[:, five].mean(dim=2), shown)
    return better, placed, mesh, presence, taken & (shift(placed, better, size) > still)


@fused
def _five_points(mesh: Tensor, five: Tensor, shown: Tensor, taught: Tensor) -> Tensor:
    """Return points (K, 5, 2) as ``Landmarker`` tells them."""
    means = mesh[:, five].mean(dim=2)
    matrices = fit_similarity(means, shown)
    return apply(invert(matrices), apply(matrices, means) - (shown - taught))
