"""What pictures go through, as tensor code: codecs, resizing, turning, light.

Pictures are float32 (n, 3, H, W) in [0, 1], RGB, and so are results. What says how much has one
number for each of them, (n,), on their device, so that nothing waits for the device.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from mien.train.geometry import looked
from mien.train.occlusion.camera import BLOCK, TABLE

# quantisation of colour (ITU-T T.81, table K.2)
COLOUR_TABLE = (
    (17, 18, 24, 47, 99, 99, 99, 99), (18, 21, 26, 66, 99, 99, 99, 99),
    (24, 26, 56, 99, 99, 99, 99, 99), (47, 66, 99, 99, 99, 99, 99, 99),
    *((99,) * 8,) * 4,
)  # fmt: skip

DEAD = 1 / 6
"""What is added before a coefficient is cut: x264's for predicted blocks, 1/3 for others."""


def spread(values: Tensor) -> Tensor:
    """Return values (n,) as (n, 1, 1, 1)."""
    return values.view(-1, 1, 1, 1)


def stored(pictures: Tensor) -> Tensor:
    """Round to 8 bits."""
    return (pictures.clamp(0, 1) * 255).round() / 255


def ycc(pictures: Tensor) -> Tensor:
    """Return brightness and colour differences in codes about 0 (JFIF, which is BT.601)."""
    red, green, blue = (pictures * 255).unbind(dim=1)
    y = 0.299 * red + 0.587 * green + 0.114 * blue
    return torch.stack([y - 128, (blue - y) / 1.772, (red - y) / 1.402], dim=1)


def rgb(codes: Tensor) -> Tensor:
    """Return pictures of what ``ycc`` returned."""
    y, cb, cr = codes.unbind(dim=1)
    y = y + 128
    red, blue = y + 1.402 * cr, y + 1.772 * cb
    green = (y - 0.299 * red - 0.114 * blue) / 0.587
    return (torch.stack([red, green, blue], dim=1) / 255).clamp(0, 1)


def _basis(like: Tensor) -> Tensor:
    place = torch.arange(BLOCK, device=like.device, dtype=torch.float32)
    basis = torch.cos((2 * place + 1) * place[:, None] * (math.pi / (2 * BLOCK))) / 2
    scale = torch.where(place > 0, 1.0, math.sqrt(0.5))
    return basis * scale[:, None]


def blocks(planes: Tensor) -> Tensor:
    """Return the cosine transform of 8 x 8 blocks of (n, C, H, W), (n, C, H/8, W/8, 8, 8)."""
    n, channels, height, width = planes.shape
    basis = _basis(planes)
    cut = planes.reshape(n, channels, height // BLOCK, BLOCK, width // BLOCK, BLOCK)
    return basis @ cut.transpose(3, 4) @ basis.T


def unblocked(coefficients: Tensor) -> Tensor:
    """Undo ``blocks``."""
    n, channels, down, across, *_ = coefficients.shape
    basis = _basis(coefficients)
    cut = (basis.T @ coefficients @ basis).transpose(3, 4)
    return cut.reshape(n, channels, down * BLOCK, across * BLOCK)


def _halved(colours: Tensor) -> Tensor:
    return functional.avg_pool2d(colours, 2)


def _doubled(colours: Tensor) -> Tensor:
    return functional.interpolate(colours, scale_factor=2.0, mode="bilinear", align_corners=False)


def jpeg(pictures: Tensor, quality: Tensor) -> Tensor:
    """Code as JPEG does, 4:2:0; sides are multiples of 16, ``quality`` 1 to 100 as libjpeg has it.

    What it does not do is round the decoded colours to 8 bits.
    """
    coarseness = torch.where(quality < 50, 5000 / quality, 200 - 2 * quality)
    codes = ycc(pictures)
    planes = []
    for plane, table in ((codes[:, :1], TABLE), (_halved(codes[:, 1:]), COLOUR_TABLE)):
        steps = codes.new_tensor(table) * coarseness.view(-1, 1, 1, 1, 1, 1)
        steps = ((steps + 50) / 100).floor().clamp(1, 255)
        planes.append(unblocked((blocks(plane) / steps).round() * steps))
    return rgb(torch.cat([planes[0], _doubled(planes[1])], dim=1))


def filmed(pictures: Tensor, quantiser: Tensor, dead: float = DEAD) -> Tensor:
    """Code about as H.264 does a frame: 4:2:0, one step for all coefficients, a dead zone, a blur.

    ``quantiser`` is the codec's QP, 0 to 51, of which the step is 2^((QP - 4) / 6). Sides are
    multiples of 16. There is no prediction: what is far below a step is lost, as it is there. The
    blur stands for the filter that smooths blocks' borders, and is as strong as the step is large.
    """
    step = (2 ** ((quantiser - 4) / 6)).view(-1, 1, 1, 1, 1, 1)
    codes = ycc(pictures)
    planes = []
    for plane in (codes[:, :1], _halved(codes[:, 1:])):
        coefficients = blocks(plane)
        scaled = coefficients / step
        exact = scaled.sign() * (scaled.abs() + dead).floor()
        # the mean of a block is predicted well, and rounded rather than cut
        whole = torch.zeros_like(exact)
        whole[..., 0, 0] = 1
        exact = torch.where(whole > 0, scaled.round(), exact)
        planes.append(unblocked(exact * step))
    y = softened(planes[0], (spread(step.flatten()) / 64).clamp(0, 0.5))
    return rgb(torch.cat([y, _doubled(planes[1])], dim=1))


def softened(planes: Tensor, share: Tensor) -> Tensor:
    """Blur (n, C, H, W) by a binomial of three pixels, by ``share`` (n, 1, 1, 1) of 0 to 1."""
    framed = functional.pad(planes, (1, 1, 1, 1), mode="replicate")
    across = (framed[..., :-2] + 2 * framed[..., 1:-1] + framed[..., 2:]) / 4
    both = (across[..., :-2, :] + 2 * across[..., 1:-1, :] + across[..., 2:, :]) / 4
    return torch.lerp(planes, both, share)


def blurred(pictures: Tensor, times: Tensor) -> Tensor:
    """Blur ``times``, 0 to 3, by a binomial of three pixels: a deviation of 0.7 pixels each."""
    for step in range(3):
        pictures = softened(pictures, spread((times - step).clamp(0, 1)))
    return pictures


def resized(pictures: Tensor, side: int) -> Tensor:
    """Resize to ``side`` and back, as viewers and platforms do."""
    back = pictures.shape[-1]
    if side == back:
        return pictures
    return shrunk(shrunk(pictures, side), back)


def shrunk(pictures: Tensor, side: int) -> Tensor:
    """Resize to a square of ``side``, with a low-pass when that is smaller."""
    return functional.interpolate(
        pictures, (side, side), mode="bilinear", align_corners=False, antialias=True
    )


def seen(pictures: Tensor, turn: Tensor, share: Tensor, at: Tensor) -> Tensor:
    """Turn by radians, and crop to a share of the sides, resized back to the picture's own side.

    ``at`` (n, 2) in [-1, 1] says where the crop lies, from one end to the other. Beyond the picture
    it is black, and 0 in what goes with it.
    """
    cos, sin = turn.cos() * share, turn.sin() * share
    shift = at * (1 - share)[:, None]
    view = torch.stack([cos, -sin, shift[:, 0], sin, cos, shift[:, 1]], dim=1).view(-1, 2, 3)
    return looked(pictures, view, pictures.shape[-1], mode="bilinear", padding="zeros")


def lit(
    pictures: Tensor, light: Tensor, contrast: Tensor, saturation: Tensor, gamma: Tensor
) -> Tensor:
    """Multiply with ``light``, stretch about mid-grey and greys, raise to ``gamma``; 1 is none."""
    pictures = pictures * spread(light)
    pictures = (pictures - 0.5) * spread(contrast) + 0.5
    grey = pictures.mean(dim=1, keepdim=True)
    pictures = grey + (pictures - grey) * spread(saturation)
    return pictures.clamp(0, 1) ** spread(gamma)


def noisy(pictures: Tensor, deviation: Tensor, noise: Tensor) -> Tensor:
    """Add ``noise``, normal numbers like the pictures, times ``deviation`` of [0, 1]."""
    return (pictures + noise * spread(deviation)).clamp(0, 1)
