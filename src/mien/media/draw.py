"""Pictures to look at: what was found, drawn on what it was found in, and before beside after."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageDraw, ImageFont

from mien.geometry import paste
from mien.types import Faces, Layers

BOX, MESH, POINTS, MASK = (64, 220, 96), (120, 170, 255), (255, 80, 60), (255, 60, 200)
TINT = 0.4
"""Opacity of a mask that is drawn."""

GAP = 0.01
"""Width of the line between before and after, by the picture's longer side."""

Bytes = npt.NDArray[np.uint8]


def draw_faces(pixels: Bytes, faces: Faces, layers: Layers | None = None) -> Bytes:
    """Return RGB ``pixels`` (H, W, 3) with boxes, meshes, points, numbers and scores of ``faces``.

    With ``layers`` their masks are tinted below.
    """
    if layers is not None:
        pixels = _tinted(pixels, layers)
    image = Image.fromarray(pixels)
    pen = ImageDraw.Draw(image)
    for i in range(len(faces)):
        box = faces.boxes[i].tolist()
        unit = max(1.0, min(box[2] - box[0], box[3] - box[1]) / 150)
        if faces.mesh is not None:
            _dots(pen, faces.mesh[i, :, :2].tolist(), 0.5 * unit, MESH)
        _dots(pen, faces.points[i].tolist(), 2 * unit, POINTS)
        pen.rectangle(box, outline=BOX, width=round(1.5 * unit))
        label = f"{i}: {float(faces.scores[i]):.2f}, {float(faces.rolls[i]):.0f}°"
        font = ImageFont.load_default(size=max(10.0, 12 * unit))
        pen.text((box[0], box[1]), label, fill=BOX, font=font, anchor="lb")
    return np.array(image)


def side_by_side(before: Bytes, after: Bytes) -> Bytes:
    """Return two pictures (H, W, 3) of one size beside each other, or above each other if wide."""
    height, width = before.shape[:2]
    gap = max(2, round(GAP * max(height, width)))
    axis = 0 if width > height else 1
    line = np.full((gap, width, 3) if axis == 0 else (height, gap, 3), 255, np.uint8)
    return np.concatenate([before, line, after], axis=axis)


def _tinted(pixels: Bytes, layers: Layers) -> Bytes:
    opacity = layers.masks[:, None].cpu() * TINT
    color = torch.tensor(MASK)[None, :, None, None] / 255
    under = torch.from_numpy(pixels.copy())
    paste(under, torch.cat([color * opacity, opacity], dim=1), layers.matrices.cpu())
    return under.numpy()


def _dots(
    pen: ImageDraw.ImageDraw, points: list[list[float]], radius: float, color: tuple[int, int, int]
) -> None:
    for x, y in points:
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=color)
