"""What meshes tell: how far pose, expression and gaze of two faces differ.

A mesh is float32 (K, 478, 3), x and y in pixels and z at the same scale; see ``topology``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mien.evaluate.topology import EXPRESSION, EYES, OUTER_CORNERS, RIGID

CLOSED = 0.10
"""An eye whose lids stand less than this share of its width apart shows no gaze."""


def pose_error(pose: Tensor, wanted: Tensor) -> Tensor:
    """Return the Euclidean distance (K,) of yaw, pitch and roll (K, 3), all in degrees."""
    apart = (pose - wanted + 180).remainder(360) - 180
    distance: Tensor = torch.linalg.vector_norm(apart, dim=1)
    return distance


def fit_rotation(source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return rotations (K, 3, 3) and scales (K,) that take ``source`` meshes nearest to ``target``.

    The fit is over the rigid points, weighted (Kabsch, 1976; the scale as in Umeyama, PAMI 1991).
    """
    a, b = centred(source), centred(target)
    a, b = a[:, list(RIGID)], b[:, list(RIGID)]
    weights = a.new_tensor(list(RIGID.values()), dtype=torch.float64)[:, None]
    covariance = (b * weights).transpose(1, 2) @ a
    left, strengths, right = torch.linalg.svd(covariance)
    # the nearest rotation, not its mirror image
    signs = torch.ones_like(strengths)
    signs[:, 2] = torch.sign(torch.linalg.det(left @ right))
    rotation = left @ (signs[:, :, None] * right)
    scale = (strengths * signs).sum(dim=1) / (a.square() * weights).sum(dim=(1, 2))
    return rotation, scale


def turn_error(mesh: Tensor, wanted: Tensor) -> Tensor:
    """Return by how many degrees (K,) heads are turned against each other, by their meshes.

    It is the angle of the one rotation that takes one head to the other. It cannot tell a turn
    from a difference in build, so two people in the same pose are some degrees apart.
    """
    rotation, _ = fit_rotation(mesh, wanted)
    cosine = (rotation.diagonal(dim1=1, dim2=2).sum(dim=1) - 1) / 2
    return torch.rad2deg(cosine.clamp(-1, 1).acos()).float()


def expression_error(mesh: Tensor, wanted: Tensor) -> dict[str, Tensor]:
    """Return how far eyes, brows and lips lie from where they are wanted, (K,) each, in percent.

    The mesh is turned, scaled and moved upon the wanted one by its rigid points; what is left is
    the mean distance in the picture plane over the points of a part, by the distance of the outer
    corners of the wanted eyes (in space, so that a turned head counts the same). "all" is the mean
    of the parts. The build of a face counts too: two people with the same expression have some.
    """
    rotation, scale = fit_rotation(mesh, wanted)
    moved = scale[:, None, None] * (centred(mesh) @ rotation.transpose(1, 2))
    goal = centred(wanted)
    left, right = (goal[:, corner] for corner in OUTER_CORNERS)
    unit = (right - left).norm(dim=1)
    apart = (moved - goal)[..., :2].norm(dim=2) / unit[:, None] * 100
    parts = {name: apart[:, list(points)].mean(dim=1) for name, points in EXPRESSION.items()}
    parts["all"] = torch.stack(list(parts.values())).mean(dim=0)
    return {name: value.float() for name, value in parts.items()}


def gaze(mesh: Tensor) -> Tensor:
    """Return where each iris stands in its eye, (K, 2, 2): eyes, then along and across the eye.

    Unit and axis are the line between the corners, the origin its middle. NaN for a closed eye.
    """
    found = []
    for eye in EYES:
        left, right, upper, lower, iris = mesh[:, list(eye), :2].unbind(dim=1)
        along = right - left
        width = along.norm(dim=1, keepdim=True).clamp_min(1e-6)
        along = along / width
        across = torch.stack([-along[:, 1], along[:, 0]], dim=1)
        off = (iris - (left + right) / 2) / width
        place = torch.stack([(off * along).sum(dim=1), (off * across).sum(dim=1)], dim=1)
        open_ = (upper - lower).norm(dim=1, keepdim=True) >= CLOSED * width
        found.append(torch.where(open_, place, torch.nan))
    return torch.stack(found, dim=1)


def gaze_error(mesh: Tensor, wanted: Tensor) -> Tensor:
    """Return how far irises stand from where they are wanted, (K,), in percent of the eye's width.

    The mean of both eyes; an eye that is closed in either mesh does not count, and NaN means that
    none does.
    """
    apart = torch.linalg.vector_norm(gaze(mesh) - gaze(wanted), dim=2)
    both: Tensor = apart.nanmean(dim=1) * 100
    return both


def centred(mesh: Tensor) -> Tensor:
    """Return meshes in float64 about the weighted mean of their rigid points."""
    mesh = mesh.double()
    weights = mesh.new_tensor(list(RIGID.values()))[:, None]
    rigid = mesh[:, list(RIGID)]
    return mesh - (rigid * weights).sum(dim=1, keepdim=True) / weights.sum()
