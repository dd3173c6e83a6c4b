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

from dataclasses import dataclass, replace
from fractions import Fraction
from math import exp, pi

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


@dataclass(slots=True)
class _Motion:
    """One face over time."""

    time: Fraction
    first: Tensor
    """float64 (N, 2): its points when it was first seen, centred, of size 1."""

    pose: Tensor
    """float64 (4,): its middle in pixels, logarithm of its size, roll in radians."""

    velocity: Tensor
    """float64 (4,): of the pose, per second."""

    age: int
    """How many frames came before."""

    shape: Tensor
    """float64 (N, 3): deviation of its points from ``first``, and their depth, by its size."""


class Steady:
    """Smooths the faces of one clip, track by track."""

    def __init__(self) -> None:
        self._motions: dict[int, _Motion] = {}

    def reset(self) -> None:
        """Forget all faces, as after a cut."""
        self._motions = {}

    def __call__(self, faces: Faces, time: Fraction) -> Faces:
        """Return ``faces``, which have ids and a mesh, smoothed; ``time`` grows from call to call.

        A face that was not there in the call before comes back as it is.
        """
        before, self._motions = self._motions, {}
        if not len(faces):
            return faces
        assert faces.mesh is not None
        measured = torch.cat([faces.mesh, torch.nn.functional.pad(faces.points, (0, 1))], dim=1)
        smooth = measured.clone()
        for row, number in enumerate(faces.ids.tolist()):
            motion = before.get(number)
            if motion is None:
                self._motions[number] = _begin(measured[row].double(), time)
            else:
                self._motions[number] = motion = _step(motion, measured[row].double(), time)
                smooth[row] = _points(motion).to(smooth)
        old = torch.tensor([n in before for n in faces.ids.tolist()], device=smooth.device)
        mesh, points = smooth[:, : faces.mesh.shape[1]], smooth[:, faces.mesh.shape[1] :, :2]
        low, high = mesh[..., :2].amin(dim=1), mesh[..., :2].amax(dim=1)
        boxes = torch.where(old[:, None], torch.cat([low, high], dim=1), faces.boxes)
        return replace(faces, boxes=boxes, points=points.contiguous(), mesh=mesh.contiguous())


def gains(deviations: Tensor, band: float, base: float) -> Tensor:
    """Return which share of ``deviations`` >= 0 is taken: ``base`` of none, all from ``band`` on.

    With the square between, the rest is at most 0.385 (1 - ``base``) of the band.
    """
    return base + (1 - base) * (deviations / band).clamp_max(1).square()


def _begin(measured: Tensor, time: Fraction) -> _Motion:
    middle = measured[:, :2].mean(dim=0)
    first = measured[:, :2] - middle
    size = first.square().sum(dim=1).mean().sqrt()
    pose = torch.stack([*middle, size.log(), torch.zeros_like(size)])
    depth = measured[:, 2:] / size
    shape = torch.cat([torch.zeros_like(first), depth], dim=1)
    return _Motion(time, first / size, pose, torch.zeros_like(pose), 0, shape)


def _step(motion: _Motion, measured: Tensor, time: Fraction) -> _Motion:
    gap = float(time - motion.time)
    matrix = fit_similarity(motion.first, measured[:, :2])
    a, b = matrix[0, 0], matrix[1, 0]
    size = torch.hypot(a, b)
    found = torch.stack([*matrix[:, 2], size.log(), torch.atan2(b, a)])
    expected = motion.pose + motion.velocity * gap
    off = found - expected
    off[3] = (off[3] + pi).remainder(2 * pi) - pi
    way = torch.hypot(off[0], off[1]) / size
    share = gains(torch.stack([way, way, *off[2:].abs()]), POSE_BAND, 1 - exp(-gap / POSE_CALM))
    # what is as small as the noise says little about the velocity
    velocity = motion.velocity + (1 - exp(-gap / INERTIA)) * share * off / gap
    # at first the mean of what came is the best there is; the very first, which the detector
    # guessed and no frame before, does not count
    age = motion.age + 1
    pose = expected + share.clamp_min(1 / age) * off
    unposed = apply(invert(matrix), measured[:, :2]) - motion.first
    change = torch.cat([unposed, measured[:, 2:] / size], dim=1) - motion.shape
    share = gains(change.norm(dim=1, keepdim=True), SHAPE_BAND, 1 - exp(-gap / SHAPE_CALM))
    shape = motion.shape + share.clamp_min(1 / age) * change
    return _Motion(time, motion.first, pose, velocity, age, shape)


def _points(motion: _Motion) -> Tensor:
    """Return the points (N, 3) in pixels."""
    x, y, log_size, roll = motion.pose
    size = log_size.exp()
    flat = (motion.first + motion.shape[:, :2]) * size
    c, s = roll.cos(), roll.sin()
    turned = torch.stack([c * flat[:, 0] - s * flat[:, 1], s * flat[:, 0] + c * flat[:, 1]], dim=1)
    return torch.cat([turned + torch.stack([x, y]), motion.shape[:, 2:] * size], dim=1)
