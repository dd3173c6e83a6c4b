"""What cameras and codecs do to a picture, so that a paste cannot be told by its sharpness."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from mien.train.geometry import looked
from mien.train.occlusion.canvas import Dice

BLOCK = 8
STEPS = 5
"""Pictures averaged for a blur of motion."""

# quantisation of brightness (ITU-T T.81, table K.1)
TABLE = (
    (16, 11, 10, 16, 24, 40, 51, 61), (12, 12, 14, 19, 26, 58, 60, 55),
    (14, 13, 16, 24, 40, 57, 69, 56), (14, 17, 22, 29, 51, 87, 80, 62),
    (18, 22, 37, 56, 68, 109, 103, 77), (24, 35, 55, 64, 81, 104, 113, 92),
    (49, 64, 78, 87, 103, 121, 120, 101), (72, 92, 95, 98, 112, 100, 103, 99),
)  # fmt: skip


def _rows(values: Tensor) -> Tensor:
    return values[:, None, None, None]


def soft(pictures: Tensor, times: Tensor) -> Tensor:
    """Blur rows of (n, C, S, S), each ``times`` (n,), 0 to 3, by a binomial of three pixels."""
    kernel = pictures.new_tensor([1, 2, 1]) / 4
    across = kernel.view(1, 1, 1, 3).repeat(pictures.shape[1], 1, 1, 1)
    down = across.transpose(2, 3).contiguous()
    for step in range(3):
        framed = functional.pad(pictures, (1, 1, 1, 1), mode="replicate")
        blurred = functional.conv2d(framed, across, groups=len(across))
        blurred = functional.conv2d(blurred, down, groups=len(across))
        pictures = torch.lerp(pictures, blurred, _rows((times - step).clamp(0, 1)))
    return pictures


def moved(pictures: Tensor, way: Tensor) -> Tensor:
    """Blur rows of (n, C, S, S) along ``way`` (n, 2), from end to end, edges at -1 and 1."""
    size = pictures.shape[-1]
    view = pictures.new_zeros(len(pictures), 2, 3)
    view[:, 0, 0] = view[:, 1, 1] = 1
    total = torch.zeros_like(pictures)
    for step in range(STEPS):
        view[:, :, 2] = way * (step / (STEPS - 1) - 0.5)
        total = total + looked(pictures, view, size, mode="bilinear", padding="border")
    return total / STEPS


def motion(dice: Dice, rows: int, share: float, most: float) -> Tensor:
    """Return ways (rows, 2) to blur along: none for most rows."""
    angle, long = dice.between(0, 2 * math.pi, rows), dice.between(0, most, rows)
    long = long * dice.chance(share, rows)
    return long[:, None] * torch.stack([angle.cos(), angle.sin()], dim=1)


def compressed(pictures: Tensor, coarseness: Tensor) -> Tensor:
    """Quantise pictures (n, 3, S, S) in [0, 1] as JPEG does; ``coarseness`` (n,) scales its table.

    Colour is kept at half the side, as 4:2:0 has it.
    """
    count, _, size, _ = pictures.shape
    y = (pictures * pictures.new_tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1)).sum(1, True)
    chroma = functional.avg_pool2d(pictures - y, 2)
    chroma = functional.interpolate(chroma, scale_factor=2.0, mode="bilinear", align_corners=False)
    place = torch.arange(BLOCK, device=pictures.device, dtype=torch.float32)
    basis = torch.cos((2 * place + 1) * place[:, None] * (math.pi / (2 * BLOCK))) / 2
    basis[0] /= math.sqrt(2)
    blocks = (y * 255 - 128).view(count, size // BLOCK, BLOCK, size // BLOCK, BLOCK)
    blocks = blocks.permute(0, 1, 3, 2, 4)
    steps = pictures.new_tensor(TABLE) * coarseness.view(-1, 1, 1, 1, 1)
    kept = ((basis @ blocks @ basis.T) / steps).round() * steps
    blocks = (basis.T @ kept @ basis).permute(0, 1, 3, 2, 4).reshape(count, 1, size, size)
    return ((blocks + 128) / 255 + chroma).clamp(0, 1)


def taken(pictures: Tensor, dice: Dice) -> Tensor:
    """Return pictures (n, 3, S, S) in [0, 1] as a poorer camera, light and codec give them."""
    n, size = len(pictures), pictures.shape[-1]
    gamma = _rows(torch.exp(dice.normal(0.22, n)))
    tint = torch.exp(dice.normal(0.06, n, 3))[:, :, None, None]
    pictures = (pictures.clamp(1e-3, 1) ** gamma * tint).clamp(0, 1)
    grey = pictures.mean(dim=1, keepdim=True)
    pictures = grey + (pictures - grey) * _rows(
        dice.between(0.5, 1.3, n) * (1 - dice.chance(0.04, n))
    )
    pictures = moved(pictures, motion(dice, n, 0.12, 0.12))
    pictures = soft(pictures, dice.between(-1.5, 3, n).clamp_min(0))
    # far faces: fewer pixels than the crop has
    small = functional.interpolate(pictures, (size // 2, size // 2), mode="area")
    small = functional.interpolate(small, (size, size), mode="bicubic", align_corners=False)
    pictures = torch.lerp(pictures, small, _rows(dice.chance(0.2, n)))
    grain = dice.normal(1, n, 1, size, size) + 0.6 * dice.normal(1, n, 3, size, size)
    pictures = pictures + grain * _rows(dice.between(-0.02, 0.035, n).clamp_min(0))
    coded = compressed(pictures.clamp(0, 1), dice.between(0.15, 1.6, n))
    return torch.lerp(pictures, coded, _rows(dice.chance(0.6, n))).clamp(0, 1)
