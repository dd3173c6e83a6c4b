"""Steadiness: a still face stands still, a moving one is where it is.

The network that places the mesh answers the camera's noise with a tremble of some hundredths of
the face's size. A low-pass takes it away and lags behind motion: the one-euro filter (Casiez,
Roussel, Vogel: "1€ filter: a simple speed-based low-pass filter for noisy input", CHI 2012) by 2 px
and more at 13 px a frame. Here two things are different. What is smoothed is the deviation from
constant motion, which is therefore followed with no lag at all. And by how much it is smoothed is
decided by the deviation itself: what is as small as the noise is smoothed strongly, what reaches
the width of a band is taken as it is. So the result never lies farther from what was measured
than 0.3 times the band, whatever the face does.

Pose and shape are smoothed apart. The pose is the similarity that takes the face as it was first
seen to the face as it is; the shape is what is left, in units of the face, point by point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import pi
from typing import NamedTuple

import torch
from torch import Tensor

from mien.geometry import apply, fit_similarity, invert
from mien.types import Faces

POSE_BAND, SHAPE_BAND = 0.018, 0.025
"""Deviations, by the face's size, that are taken as they are; size is the root mean square of the
points' distances to their middle. Noise of 5 codes makes 0.003."""

POSE_CALM, SHAPE_CALM = 0.15, 0.1
"""Seconds over which smaller deviations are averaged."""

INERTIA = 0.12
"""Seconds over which a velocity is averaged."""


class Motions(NamedTuple):
    """K faces over time, of N points in two dimensions or with depth; float64."""

    first: Tensor
    """(K, N, 2): the points when the face was first seen, centred, of size 1."""

    pose: Tensor
    """(K, 4): its middle in pixels, logarithm of its size, roll in radians."""

    velocity: Tensor
    """(K, 4): of the pose, per second."""

    age: Tensor
    """(K,): how many frames came before."""

    shape: Tensor
    """(K, N, 2 or 3): deviation of its points from ``first``, and their depth, by its size."""


class Steady:
    """Smooths the faces of one clip, track by track."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all faces, as after a cut."""
        self._numbers: list[int] = []
        self._motions: Motions | None = None
        self._time = Fraction(0)

    def __call__(self, faces: Faces, time: Fraction) -> Faces:
        """Return ``faces``, which have ids and a mesh, smoothed; ``time`` grows from call to call.

        A face that was not there in the call before comes back as it is.
        """
        if not len(faces):
            self.reset()
            return faces
        assert faces.mesh is not None
        measured = torch.cat([faces.mesh, torch.nn.functional.pad(faces.points, (0, 1))], dim=1)
        numbers, device = faces.ids.tolist(), measured.device
        rows = {number: row for row, number in enumerate(self._numbers)}
        old = torch.tensor([number in rows for number in numbers], device=device)
        motions, smooth = begun(measured.double()), measured
        if self._motions is not None:
            kept = taken(self._motions, [rows.get(number, 0) for number in numbers])
            gap = torch.tensor(float(time - self._time), dtype=torch.float64, device=device)
            kept = moved(kept, measured.double(), gap)
            motions = chosen(old, kept, motions)
            smooth = torch.where(old[:, None, None], points_of(kept).to(measured), measured)
        self._numbers, self._motions, self._time = numbers, motions, time
        mesh, points = smooth[:, : faces.mesh.shape[1]], smooth[:, faces.mesh.shape[1] :, :2]
        low, high = mesh[..., :2].amin(dim=1), mesh[..., :2].amax(dim=1)
        boxes = torch.where(old[:, None], torch.cat([low, high], dim=1), faces.boxes)
        return replace(faces, boxes=boxes, points=points.contiguous(), mesh=mesh.contiguous())


def gains(deviations: Tensor, band: float, base: float | Tensor) -> Tensor:
    """Return which share of ``deviations`` >= 0 is taken: ``base`` of none, all from ``band`` on.

    With the square between, the rest is at most 0.385 (1 - ``base``) of the band.
    """
    return base + (1 - base) * (deviations / band).clamp_max(1).square()


def begun(measured: Tensor) -> Motions:
    """Return faces that are seen for the first time; ``measured`` is float64 (K, N, 2 or 3)."""
    middle = measured[..., :2].mean(dim=1)
    first = measured[..., :2] - middle[:, None]
    size = first.square().sum(dim=2).mean(dim=1).sqrt()
    nothing = torch.zeros_like(size)
    pose = torch.cat([middle, torch.stack([size.log(), nothing], dim=1)], dim=1)
    depth = measured[..., 2:] / size[:, None, None]
    shape = torch.cat([torch.zeros_like(first), depth], dim=2)
    return Motions(first / size[:, None, None], pose, torch.zeros_like(pose), nothing, shape)


def moved(motions: Motions, measured: Tensor, gap: Tensor) -> Motions:
    """Return faces as they are ``gap`` > 0 seconds later, float64 (), by what was ``measured``."""
    matrix = fit_similarity(motions.first, measured[..., :2])
    a, b = matrix[:, 0, 0], matrix[:, 1, 0]
    size = torch.hypot(a, b)
    angle = torch.stack([size.log(), torch.atan2(b, a)], dim=1)
    expected = motions.pose + motions.velocity * gap
    off = torch.cat([matrix[:, :, 2], angle], dim=1) - expected
    off = torch.cat([off[:, :3], (off[:, 3:] + pi).remainder(2 * pi) - pi], dim=1)
    way = (torch.hypot(off[:, 0], off[:, 1]) / size)[:, None]
    share = gains(torch.cat([way, way, off[:, 2:].abs()], dim=1), POSE_BAND, _new(gap, POSE_CALM))
    # what is as small as the noise says little about the velocity
    velocity = motions.velocity + _new(gap, INERTIA) * share * off / gap
    # at first the mean of what came is the best there is; the very first, which the detector
    # guessed and no frame before, does not count
    age = motions.age + 1
    least = 1 / age
    pose = expected + torch.maximum(share, least[:, None]) * off
    unposed = apply(invert(matrix), measured[..., :2]) - motions.first
    depth = measured[..., 2:] / size[:, None, None]
    change = torch.cat([unposed, depth], dim=2) - motions.shape
    share = gains(change.norm(dim=2, keepdim=True), SHAPE_BAND, _new(gap, SHAPE_CALM))
    shape = motions.shape + torch.maximum(share, least[:, None, None]) * change
    return Motions(motions.first, pose, velocity, age, shape)


def points_of(motions: Motions) -> Tensor:
    """Return the points (K, N, 2 or 3) in pixels."""
    size = motions.pose[:, 2].exp()[:, None]
    c, s = motions.pose[:, 3].cos()[:, None], motions.pose[:, 3].sin()[:, None]
    x, y = ((motions.first + motions.shape[..., :2]) * size[..., None]).unbind(dim=2)
    turned = torch.stack([c * x - s * y, s * x + c * y], dim=2)
    flat = turned + motions.pose[:, None, :2]
    return torch.cat([flat, motions.shape[..., 2:] * size[..., None]], dim=2)


def taken(motions: Motions, rows: Tensor | Sequence[int]) -> Motions:
    """Return some of the faces, or some of them more than once."""
    return Motions(*(values[rows] for values in motions))


def chosen(which: Tensor, these: Motions, others: Motions) -> Motions:
    """Return ``these`` faces where ``which``, bool (K,), says so, and elsewhere the others."""
    return Motions(
        *(
            torch.where(which.view(-1, *[1] * (one.dim() - 1)), one, other)
            for one, other in zip(these, others, strict=True)
        )
    )


def _new(gap: Tensor, calm: float) -> Tensor:
    """Return what share of an average over ``calm`` seconds ``gap`` seconds make."""
    return 1 - (-gap / calm).exp()
