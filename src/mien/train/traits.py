"""What can be told of the people of a pack without a network: spectacles, and the skin's tone.

Both functions look at crops on the points of ``arcface_128``, of any side; their places are given
for crops of 256 pixels.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

CHUNK = 512
"""Pictures looked at at a time."""

GLASSES = -1.5
"""Scores of ``glasses`` from here on are taken for spectacles.

Of 500 random pictures that were labelled by eye and not fitted on, this finds 90 % (43 of 48) of
the wearers in UTKFace and 29 of 29 in FFHQ, and wrongly suspects 4.5 % and 3 % of the others."""

DARK, LIGHT = 10.0, 41.0
"""Tones, in degrees, between dark, medium and light skin."""

GREY = 18.0
"""A picture has no colour if its 95th percentile of max(R, G, B) - min(R, G, B), over tiles, is
less: what WebP and a scanner's white leave of a grey one."""

_LUMA = (0.299, 0.587, 0.114)
"""Y' of R'G'B' (ITU-R BT.601)."""

_SIDE, _CELL = 128, 4
"""Lines are sought in a picture of this side, and told for 32 x 32 cells of so many pixels."""

_FACE = (slice(9, 25), slice(7, 25))
"""Rows and columns of the cells whose lines the others are measured by: brows to mouth."""

_BRIGHT_ROWS, _DARK_ROWS, _DARK_COLUMNS = range(3)


class _Cue(NamedTuple):
    """How lines of one kind in a rectangle of cells, and in its mirror image, speak for glasses."""

    lines: int
    top: int
    bottom: int
    left: int
    right: int
    weight: float


_CUES = (
    _Cue(_BRIGHT_ROWS, 12, 15, 15, 16, 2.41),  # the bridge, shining
    _Cue(_DARK_ROWS, 15, 17, 14, 15, 1.61),  # the bridge, beside the nose
    _Cue(_DARK_ROWS, 14, 16, 15, 16, 1.24),  # the bridge, on the nose
    _Cue(_DARK_ROWS, 16, 18, 8, 11, 2.21),  # the lower rim, under the eye
    _Cue(_DARK_ROWS, 12, 15, 6, 8, 3.42),  # the hinge, beside the eye
    _Cue(_DARK_COLUMNS, 14, 16, 7, 9, 1.99),  # the outer rim
    _Cue(_DARK_COLUMNS, 13, 16, 13, 16, 4.21),  # the inner rim and the nose pad
    _Cue(_DARK_COLUMNS, 12, 13, 13, 16, 2.06),
)
_BIAS = 0.57

_LEAST = 0.02
"""Strength of lines, in levels of 255, below which a face has none to measure by."""

_TO_XYZ = (
    (0.4124564, 0.3575761, 0.1804375),
    (0.2126729, 0.7151522, 0.0721750),
    (0.0193339, 0.1191920, 0.9503041),
)
"""Linear sRGB to CIE XYZ."""

_CHEEKS, _PATCH = ((72, 148), (184, 148)), 24
"""Centres (x, y) and side of the patches: where ``mien.evaluate.people`` has its own on average."""


@torch.no_grad()
def glasses(pixels: Tensor) -> Tensor:
    """Return how much crops, uint8 (n, 3, S, S), look like faces with spectacles, float32 (n,).

    It is the logit of a logistic regression, of about -20 to 12: see GLASSES for where to cut. It
    was fitted on 989 pictures of UTKFace and FFHQ labelled by eye, a fifth of them hard ones. What
    it weighs are thin dark and bright lines (second differences) where rims, bridge and nose pads
    are expected, as logarithms of their strength by the whole face's.
    """
    return torch.cat([worn(some.float()) for some in pixels.split(CHUNK)])


@torch.no_grad()
def tone(pixels: Tensor) -> Tensor:
    """Return the cheeks' individual typology angle in crops, uint8 (n, 3, S, S), as float32 (n,).

    In degrees, the greater, the lighter: above 41 is light, below 10 dark; NaN for a picture
    without colour. ITA = arctan((L* - 50) / b*) of the median colour of both cheeks (Chardon et
    al., "Skin colour typology and suntanning pathways", 1991), all four quadrants, as in
    ``mien.evaluate.people``, which however finds the cheeks by a mesh. It sees the picture, light
    and all, not the skin; beyond 90 on either side it sees no skin but blue light or a background.
    """
    return torch.cat([_tone(some) for some in pixels.split(CHUNK)])


def worn(pixels: Tensor) -> Tensor:
    """Return what ``glasses`` does, of levels 0 to 255 as float (n, 3, S, S), with gradients."""
    strength = _lines(pixels)
    whole = strength[:, :, *_FACE].mean(dim=(2, 3), keepdim=True)
    strength = strength / whole.clamp_min(_LEAST)
    score = strength.new_full((len(pixels),), _BIAS)
    for cue in _CUES:
        part = strength[:, cue.lines, cue.top : cue.bottom, cue.left : cue.right]
        score += cue.weight * (part.mean(dim=(1, 2)) + 0.1).log()
    return score


def _lines(pixels: Tensor) -> Tensor:
    """Return the strength of three kinds of lines, (n, 3, 32, 32), the same left and right.

    There is no convolution in it, for those are done in half precision on some machines.
    """
    red, green, blue = pixels.unbind(dim=1)
    luma = (_LUMA[0] * red + _LUMA[1] * green + _LUMA[2] * blue)[:, None]
    luma = functional.adaptive_avg_pool2d(luma, _SIDE)
    luma = functional.pad(luma, (2, 2, 2, 2), mode="replicate")
    smooth = (luma[..., :-2] + 2 * luma[..., 1:-1] + luma[..., 2:]) / 4
    smooth = (smooth[..., :-2, :] + 2 * smooth[..., 1:-1, :] + smooth[..., 2:, :]) / 4
    middle = 2 * smooth[..., 1:-1, 1:-1]
    rows = smooth[..., 2:, 1:-1] + smooth[..., :-2, 1:-1] - middle
    columns = smooth[..., 1:-1, 2:] + smooth[..., 1:-1, :-2] - middle
    cells = functional.avg_pool2d(torch.cat([-rows, rows, columns], dim=1).relu_(), _CELL)
    return (cells + cells.flip(3)) / 2


def _tone(pixels: Tensor) -> Tensor:
    scale = pixels.shape[-1] / 256
    patches = []
    for x, y in _CHEEKS:
        top, bottom = (round((y + side) * scale) for side in (-_PATCH / 2, _PATCH / 2))
        left, right = (round((x + side) * scale) for side in (-_PATCH / 2, _PATCH / 2))
        patches.append(pixels[:, :, top : bottom + 1, left : right + 1].flatten(2))
    ordered = torch.cat(patches, dim=2).sort(dim=2).values
    skin = ordered[:, :, (ordered.shape[2] - 1) // 2].float()
    lightness, b = _lightness_and_b(skin / 255)
    angle = torch.rad2deg(torch.atan2(lightness - 50, b))
    return angle.masked_fill(_colourless(pixels), torch.nan)


def _colourless(pixels: Tensor) -> Tensor:
    """Return which crops are grey, bool (n,)."""
    tiles = functional.adaptive_avg_pool2d(pixels.float(), 32)
    spread = (tiles.amax(dim=1) - tiles.amin(dim=1)).flatten(1)
    return spread.sort(dim=1).values[:, round(0.95 * spread.shape[1]) - 1] < GREY


def _lightness_and_b(rgb: Tensor) -> tuple[Tensor, Tensor]:
    """Return CIE 1976 L* and b* (n,) of sRGB colours (n, 3) in [0, 1], under its own white, D65."""
    linear = torch.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    to_xyz = linear.new_tensor(_TO_XYZ)
    ratios = (linear[:, None] * to_xyz).sum(dim=2) / to_xyz.sum(dim=1)
    low = (6 / 29) ** 3
    f = torch.where(ratios > low, ratios.clamp_min(0) ** (1 / 3), ratios * 841 / 108 + 4 / 29)
    return 116 * f[:, 1] - 16, 200 * (f[:, 1] - f[:, 2])
