"""Faces by hand, for what follows them: a fixed cloud of points stands for the mesh."""

from __future__ import annotations

from fractions import Fraction

import torch

from mien.types import Faces

CLOUD = torch.rand(468, 3, generator=torch.Generator().manual_seed(7)) - 0.5
CLOUD[:, 2] *= 0.3
CLOUD[234], CLOUD[454] = torch.tensor([-0.5, 0.0, 0.0]), torch.tensor([0.5, 0.0, 0.0])
FIVE = torch.tensor([[-0.2, -0.2], [0.2, -0.2], [0.0, 0.0], [-0.15, 0.25], [0.15, 0.25]])


def face(x, y, size=100.0, *, number=-1, score=0.9, noise=0.0, random=None, depth=0.0):
    """Return one face of ``size`` pixels around (x, y); ``depth`` turns it, in degrees of yaw."""
    mesh = CLOUD.clone()
    turn = torch.deg2rad(torch.tensor(float(depth)))
    mesh[:, 0], mesh[:, 2] = (
        CLOUD[:, 0] * turn.cos() - CLOUD[:, 2] * turn.sin(),
        CLOUD[:, 0] * turn.sin() + CLOUD[:, 2] * turn.cos(),
    )
    shift = torch.tensor([x, y], dtype=torch.float32)
    mesh = mesh * size + torch.tensor([x, y, 0.0])
    points = FIVE * size + shift
    if noise:
        mesh = mesh + noise * torch.randn(mesh.shape, generator=random)
        points = points + noise * torch.randn(points.shape, generator=random)
    half = size / 2
    return Faces(
        boxes=torch.tensor([[x - half, y - half, x + half, y + half]]),
        points=points[None],
        scores=torch.tensor([score]),
        ids=torch.tensor([number]),
        mesh=mesh[None],
    )


def several(*faces):
    return Faces.joined(faces)


def middles(faces):
    """Return the middle of each face by its id, in whole pixels."""
    centres = ((faces.boxes[:, :2] + faces.boxes[:, 2:]) / 2).round().int().tolist()
    return {
        number: tuple(centre) for number, centre in zip(faces.ids.tolist(), centres, strict=True)
    }


def at(seconds):
    return Fraction(seconds).limit_denominator(100_000)


def axis(number, size=8):
    """Return a unit embedding that is alike no other number's."""
    return torch.eye(size)[number]
