"""Colour: a swapped face takes on the light and the camera of the target.

The face's colours, as a cloud of points in a perceptual space, are moved so that their mean and
covariance are those of the target's face. Among all linear maps that do this, the one used moves
the colours least (Pitié and Kokaram, "The linear Monge-Kantorovitch linear colour mapping for
example-based colour transfer", 2007). The space is Oklab (Ottosson, 2020).

Two things keep this from overdoing it: the clouds are those of the low-passed pictures, for a
network's output lacks the target's fine grain, and stretching its shading to make up for that
blackens the eyes; and no direction is stretched beyond STRETCH.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from mien.kernels import usable

# linear sRGB -> cone responses, and their cube roots -> Oklab; from Ottosson's reference
TO_CONES = (
    (0.4122214708, 0.5363325363, 0.0514459929),
    (0.2119034982, 0.6806995451, 0.1073969566),
    (0.0883024619, 0.2817188376, 0.6299787005),
)
TO_OKLAB = (
    (0.2104542553, 0.7936177850, -0.0040720468),
    (1.9779984951, -2.4285922050, 0.4505937099),
    (0.0259040371, 0.7827717662, -0.8086757660),
)
LINE, STEEP = 0.04045, 12.92
"""Up to LINE sRGB is a straight line, STEEP times the light."""

ROUNDING = 1e-8
"""What the power's last digits may add where the line ends, and must not to black, of which a cube
root is taken."""

NOTHING = 1e-30
"""What stands for no light: its logarithm is a number, and its roots are as good as 0."""

VARIANCE_FLOOR = 1e-6
"""Added to every variance (Oklab units squared): a flat patch has no direction to stretch."""


STRETCH = 1.25
"""Greatest factor by which a direction of colour is stretched. It may shrink to nothing, so that
a face in a gray picture turns gray."""

GRAIN = 8
"""Detail finer than this many pixels does not count."""

SWEEPS = 4
"""Rounds of Jacobi's method for matrices of three rows; it converges quadratically. Of 200,000
matrices what is left is at most 8e-6 of the diagonal after three, and 1e-21 after four."""


def match_color(pixels: Tensor, target: Tensor, weights: Tensor) -> Tensor:
    """Return ``pixels`` with the colour mean of ``target``, and its covariance up to STRETCH.

    Both are RGB (K, 3, H, W) in [0, 1], H and W at least GRAIN; ``weights`` (K, H, W) >= 0 says
    how much each pixel counts. Faces whose weights are all zero come back as they are.
    """
    if usable(pixels) and len(pixels):
        return in_kernels(pixels, target, weights, maps(pixels.device))
    lab = to_oklab(pixels)
    mean, covariance = _moments(lab, weights)
    wanted_mean, wanted_covariance = _moments(to_oklab(target), weights)
    root, inverse_root = _roots(covariance)
    middle, _ = _roots(root @ wanted_covariance @ root)
    stretch, directions = torch.linalg.eigh(inverse_root @ middle @ inverse_root)
    stretch = stretch.clamp_max(STRETCH)
    transport = (directions * stretch[:, None]) @ directions.transpose(1, 2)
    flat = lab.flatten(2) - mean
    moved = (transport @ flat + wanted_mean).unflatten(2, lab.shape[-2:])
    counted = (weights.flatten(1).sum(dim=1) > 0).to(pixels)[:, None, None, None]
    return torch.lerp(pixels, from_oklab(moved).clamp_(0, 1), counted)


def in_kernels(pixels: Tensor, target: Tensor, weights: Tensor, matrices: Tensor) -> Tensor:
    """Do as ``match_color`` on a GPU, where solvers of libraries would be waited for.

    ``matrices`` (4, 3, 3) are what ``maps`` returns.
    """
    from mien.kernels.color import match

    return match(
        pixels,
        target,
        weights,
        matrices,
        grain=GRAIN,
        floor=VARIANCE_FLOOR,
        stretch=STRETCH,
        sweeps=SWEEPS,
    )


@lru_cache(maxsize=8)
def maps(device: torch.device) -> Tensor:
    """Return what takes linear sRGB to cones, those to Oklab, and both back, float32 (4, 3, 3)."""
    with torch.inference_mode(False):
        there = torch.tensor([TO_CONES, TO_OKLAB], dtype=torch.float64)
        return torch.cat([there, torch.linalg.inv(there).flip(0)]).float().to(device)


def through_table(pixels: Tensor, table: Tensor) -> Tensor:
    """Return what ``table`` (C, N, N, N) says of RGB ``pixels`` (K, 3, H, W) in [0, 1].

    The table's axes are red, green and blue; between its steps the result (K, C, H, W) is
    trilinear. See Frame.table.
    """
    blue_first = pixels.flip(1).permute(0, 2, 3, 1) * 2 - 1  # grid_sample's x is the last axis
    volume = table.expand(len(pixels), -1, -1, -1, -1)
    looked_up = functional.grid_sample(volume, blue_first[:, None], align_corners=True)
    return looked_up[:, :, 0]


def to_oklab(rgb: Tensor) -> Tensor:
    """Return Oklab (K, 3, H, W) of sRGB in [0, 1]."""
    # a line, and what a power adds where it ends: on a CPU, choosing takes longer than this sum
    bent = _power((rgb.clamp_min(LINE) + 0.055) / 1.055, 2.4)
    linear = rgb.clamp_max(LINE) / STEEP + (bent - (LINE / STEEP + ROUNDING)).clamp_min_(0)
    cones = _power(_map(TO_CONES, linear), 1 / 3)
    return _map(TO_OKLAB, cones)


def from_oklab(lab: Tensor) -> Tensor:
    """Return sRGB of Oklab (K, 3, H, W), not clamped above."""
    to_cones = torch.linalg.inv(lab.new_tensor(TO_OKLAB, dtype=torch.float64)).to(lab)
    to_linear = torch.linalg.inv(lab.new_tensor(TO_CONES, dtype=torch.float64)).to(lab)
    linear = _map(to_linear, _map(to_cones, lab) ** 3).clamp_min(0)
    end = LINE / STEEP
    bent = 1.055 * _power(linear.clamp_min(end), 1 / 2.4)
    return linear.clamp_max(end) * STEEP + (bent - (LINE + 0.055))


def _power(x: Tensor, exponent: float) -> Tensor:
    """Return ``x`` to the power of ``exponent`` > 0; below NOTHING, that of NOTHING.

    On a CPU this takes a fifth of the time of ``**``, and differs from it by 1e-6 of the result.
    """
    return x.clamp_min(NOTHING).log_().mul_(exponent).exp_()


def _map(matrix: Tensor | tuple[tuple[float, ...], ...], planes: Tensor) -> Tensor:
    m = matrix if isinstance(matrix, Tensor) else planes.new_tensor(matrix)
    return (m @ planes.flatten(2)).reshape(planes.shape)


def averaged(lab: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return colours (K, 3, n) of the low-passed picture, and their weights (K, 1, n), 1 in sum."""
    w = functional.avg_pool2d(weights[:, None], GRAIN)
    flat = functional.avg_pool2d(lab * weights[:, None], GRAIN) / w.clamp_min(1e-12)
    flat, w = flat.flatten(2), w.flatten(2)
    return flat, w / w.sum(dim=2, keepdim=True).clamp_min(1e-12)


def _moments(lab: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return the weighted mean (K, 3, 1) and covariance (K, 3, 3) of the low-passed picture."""
    flat, w = averaged(lab, weights)
    mean = (flat * w).sum(dim=2, keepdim=True)
    centred = flat - mean
    covariance = (centred * w) @ centred.transpose(1, 2)
    return mean, covariance + VARIANCE_FLOOR * torch.eye(3, device=lab.device)


def _roots(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Return square roots and their inverses of symmetric positive matrices (K, 3, 3)."""
    values, vectors = torch.linalg.eigh(matrices)
    roots = values.clamp_min(1e-12).sqrt()
    turned = vectors.transpose(1, 2)
    return (vectors * roots[:, None]) @ turned, (vectors / roots[:, None]) @ turned
