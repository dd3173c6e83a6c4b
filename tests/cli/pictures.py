"""Pictures to give to commands."""

from __future__ import annotations

import numpy as np
import torch
from conftest import scene
from PIL import Image


def landscape(path, width=320):
    """Paint sky, hills and a meadow."""
    y, x = np.mgrid[0:240, 0:width]
    picture = np.stack([90 + y // 4, 140 + y // 4, 235 - y // 8], axis=-1)
    picture[y > 120 + 20 * np.sin(x / 40)] = (60, 110, 70)
    picture[y > 180 + 8 * np.cos(x / 25)] = (90, 150, 60)
    Image.fromarray(picture.astype(np.uint8)).save(path)
    return path


def stranger(people, path, name="eva"):
    """Save a portrait that no consent record knows: mirrored."""
    with Image.open(people[name]) as image:
        image.transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(path)
    return path


def pair(load, path):
    """Save a picture with two faces, of which the left is the larger."""
    left, right = scene([load("ben")], 240, 1), scene([load("ada")], 160, 1)
    right = torch.cat([right, torch.full((80, 160, 3), 127, dtype=torch.uint8)])
    Image.fromarray(torch.cat([left, right], dim=1).numpy()).save(path)
    return path


def names(folder):
    return sorted(path.name for path in folder.iterdir())
