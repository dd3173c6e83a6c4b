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
from math import exp, pi
from typing import NamedTuple

import torch
from torch import Tensor

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
    """(K, N, 2 or 3): the points when the face was first seen, centred, of size 1, depth 0."""

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
        raw, rows = measured.double(), {number: row for row, number in enumerate(self._numbers)}
        if self._motions is None or not any(number in rows for number in numbers):
            motions, smooth, boxes = begun(raw), measured, faces.boxes
        else:
            kept = self._motions
            if numbers != self._numbers:
                kept = taken(kept, [rows.get(number, 0) for number in numbers])
            motions = moved(kept, raw, float(time - self._time))
            smooth = points_of(motions).to(measured)
            boxes = torch.cat(smooth[:, : faces.mesh.shape[1], :2].aminmax(dim=1), dim=1)
            if not all(number in rows for number in numbers):
                old = torch.tensor([number in rows for number in numbers], device=device)
                motions = chosen(old, motions, begun(raw))
                smooth = torch.where(old[:, None, None], smooth, measured)
                boxes = torch.where(old[:, None], boxes, faces.boxes)
        self._numbers, self._motions, self._time = numbers, motions, time
        mesh, points = smooth[:, : faces.mesh.shape[1]], smooth[:, faces.mesh.shape[1] :, :2]
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
    first = torch.cat([first / size[:, None, None], torch.zeros_like(depth)], dim=2)
    return Motions(first, pose, torch.zeros_like(pose), nothing, shape)


def moved(motions: Motions, measured: Tensor, gap: Tensor | float) -> Motions:
    """Return faces as they are ``gap`` > 0 seconds later, by what was ``measured``.

    ``gap`` may be a tensor, float64 ().
    """
    first, pose, velocity, age, shape = motions
    # the similarity nearest to all points: the first ones have their middle at 0 and size 1
    (fx, fy), (mx, my) = first.unbind(dim=2)[:2], measured.unbind(dim=2)[:2]
    a = torch.addcmul(fx * mx, fy, my).mean(dim=1)
    b = torch.addcmul(fx * my, fy, mx, value=-1).mean(dim=1)
    x, y = mx.mean(dim=1), my.mean(dim=1)
    size = torch.hypot(a, b)
    expected = pose + velocity * gap
    off = torch.stack([x, y, size.log(), torch.atan2(b, a)], dim=1) - expected
    turn = (off[:, 3:] + pi).remainder(2 * pi) - pi
    way = torch.hypot(off[:, 0], off[:, 1]) / size
    off = torch.cat([off[:, :3], turn], dim=1)
    far = torch.stack([way, way, *off[:, 2:].abs().unbind(dim=1)], dim=1)
    share = gains(far, POSE_BAND, _new(gap, POSE_CALM))
    # what is as small as the noise says little about the velocity
    velocity = velocity + share * off * (_new(gap, INERTIA) / gap)
    # at first the mean of what came is the best there is; the very first, which the detector
    # guessed and no frame before, does not count
    age = age + 1
    least = age.reciprocal()[:, None]
    pose = torch.addcmul(expected, torch.maximum(share, least), off)
    # a similarity's inverse is its transpose, by the square of the scale
    energy, columns = size.square(), measured.shape[2]
    back = _turn(a / energy, -b / energy, size.reciprocal(), columns)
    change = (measured - _flat(x, y, columns)) @ back - first - shape
    far = change.square().sum(dim=2, keepdim=True).sqrt()
    share = gains(far, SHAPE_BAND, _new(gap, SHAPE_CALM))
    shape = torch.addcmul(shape, torch.maximum(share, least[..., None]), change)
    return Motions(first, pose, velocity, age, shape)


def points_of(motions: Motions) -> Tensor:
    """Return the points (K, N, 2 or 3) in pixels."""
    (x, y, size, roll), columns = motions.pose.unbind(dim=1), motions.first.shape[2]
    size = size.exp()
    turn = _turn(size * roll.cos(), size * roll.sin(), size, columns)
    return (motions.first + motions.shape) @ turn + _flat(x, y, columns)


def _turn(a: Tensor, b: Tensor, depth: Tensor, columns: int) -> Tensor:
    """Return matrices (K, c, c) that, multiplied from the right, turn points of 2 or 3 ``columns``.

    ``a`` and ``b`` (K,) are a similarity's, and ``depth`` is by how much the third is scaled.
    """
    if columns == 2:
        return torch.stack([a, b, -b, a], dim=1).view(-1, 2, 2)
    no = torch.zeros_like(a)
    return torch.stack([a, b, no, -b, a, no, no, no, depth], dim=1).view(-1, 3, 3)


def _flat(x: Tensor, y: Tensor, columns: int) -> Tensor:
    """Return a point of each face, (K, 1, c), without depth."""
    return torch.stack([x, y, *[torch.zeros_like(x)] * (columns - 2)], dim=1)[:, None]


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


def _new(gap: Tensor | float, calm: float) -> Tensor | float:
    """Return what share of an average over ``calm`` seconds ``gap`` seconds make."""
    return 1 - ((-gap / calm).exp() if isinstance(gap, Tensor) else exp(-gap / calm))
