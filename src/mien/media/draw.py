"""Pictures to look at: what was found, drawn on what it was found in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont

from mien.media.image import Picture, write_picture
from mien.types import Faces, Frame

BOX, MESH, POINTS = (64, 220, 96), (120, 170, 255), (255, 80, 60)


def draw_faces(picture: Picture, faces: Faces, path: Path) -> None:
    """Write a copy of ``picture`` to ``path`` with boxes, meshes, points, numbers and scores.

    No face is changed, so the copy carries no mark. Raises PictureUnwritable.
    """
    image = Image.fromarray(picture.frame.pixels.cpu().numpy())
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
    drawn = Picture(
        Frame(torch.from_numpy(np.array(image))),
        name=path.name,
        alpha=picture.alpha,
        profile=picture.profile,
    )
    write_picture(path, drawn, xmp=None)


def _dots(
    pen: ImageDraw.ImageDraw, points: list[list[float]], radius: float, color: tuple[int, int, int]
) -> None:
    for x, y in points:
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=color)
