"""What pixels tell: sharpness, the colour at the border, the seam, and what else was changed.

All but the last are measured in crops of one size, in which a face has the same size whatever the
picture's, so that numbers of different networks compare.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from mien.geometry import apply, cut, fit_similarity, template
from mien.stages.color import to_oklab
from mien.stages.mask import DIRECTIONS, FEATHER, border_depth, hull_depth

SIZE, TEMPLATE = 256, "arcface_128"
"""The crop in which pixels are compared."""

SECTORS = 16
"""Pieces of the border whose colours are compared one by one: errors must not cancel."""

LUMA = (0.299, 0.587, 0.114)
GRAIN, BROAD = 1.5, 4.0
"""Pixels of a crop of SIZE (standard deviation) by which it is blurred before detail and seams are
looked for. Smaller crops are blurred by less, so that it is the same share of the face."""

FLOOR = 1e-6
"""Added to energies before a ratio is taken: a flat patch has none. Real ones are far above."""

SPILL = 4.0
"""Pixels of the crop by which a face may spill over its outline: the reach of the paste's filter
at half this size, which networks commonly have."""


@dataclass(frozen=True, slots=True, eq=False)
class Scenes:
    """K faces as they were, cut out, and where in the crops the face is."""

    crops: Tensor
    """float32 (K, 3, S, S), RGB in [0, 1]."""

    lab: Tensor
    """The crops in Oklab."""

    matrices: Tensor
    """float32 (K, 2, 3): frame pixels to crop pixels."""

    outline: Tensor
    """float32 (K, 468, 2): the face mesh in crop pixels."""

    depth: Tensor
    """float32 (K, S, S): how deep a pixel lies in the face and the crop, negative outside."""

    @property
    def soft(self) -> float:
        """Width of the soft edge of mien's mask in pixels of the crop."""
        return FEATHER * self.crops.shape[-1]


def scenes(frames: Sequence[Tensor], points: Tensor, mesh: Tensor, *, size: int = SIZE) -> Scenes:
    """Return K faces cut out of pictures, uint8 (H, W, 3).

    ``points`` (K, 5, 2) and ``mesh`` (K, 468 or more, 2 or 3) are in pixels of the pictures.
    """
    matrices = fit_similarity(points, template(TEMPLATE).at(size))
    outline = apply(matrices, mesh[:, :468, :2])
    depth = torch.minimum(hull_depth(outline, size), border_depth(size, outline.device))
    crops = cut_each(frames, matrices, size)
    return Scenes(crops, to_oklab(crops), matrices, outline, depth)


def cut_each(frames: Sequence[Tensor], matrices: Tensor, size: int) -> Tensor:
    """Return a crop (K, 3, size, size) of each of K pictures."""
    return torch.cat(
        [cut(frame, matrix[None], size) for frame, matrix in zip(frames, matrices, strict=True)]
    )


def sharpness(crops: Tensor, scene: Scenes) -> Tensor:
    """Return how strong fine detail is in the face, (K,), by that of the scene.

    Detail is the root mean square of the Laplacian of the luma inside of the soft edge (a measure
    of focus since Pech-Pacheco et al., "Diatom autofocusing in brightfield microscopy", 2000) after
    a blur of GRAIN (Marr and Hildreth, "Theory of edge detection", 1980). Without the blur,
    half of the grain of a perfect face would be missing just for being cut and pasted; with it, a
    tenth. Noise counts as sharpness.
    """
    face = (scene.depth >= scene.soft).float()
    now, before = (
        _mean(_laplacian(blur(_luma(one), GRAIN)).square(), face).sqrt()
        for one in (crops, scene.crops)
    )
    ratio: Tensor = (now + FLOOR) / (before + FLOOR)
    return ratio


def colour_shift(lab: Tensor, scene: Scenes) -> Tensor:
    """Return by how much the step of colour across the face's border changed, (K,), in Oklab.

    ``lab`` (K, 3, S, S) are the results, cut as the scene is, in Oklab (Ottosson, 2020). The border
    has a ring inside of the soft edge and one outside of it. In each of SECTORS pieces the step is
    the difference of their mean colours; the result is the mean distance of the steps now and
    before, times 100. A difference of 2 can just be seen side by side.
    """
    soft, depth = scene.soft, scene.depth
    inside = (depth >= soft) & (depth < 1.5 * soft)
    outside = (depth < 0) & (depth >= -0.5 * soft)
    sector = _sectors(scene)
    steps = [
        _by_sector(one, inside, sector) - _by_sector(one, outside, sector)
        for one in (lab, scene.lab)
    ]
    apart = torch.linalg.vector_norm(steps[0] - steps[1], dim=2)
    shift: Tensor = apart.nanmean(dim=1) * 100
    return shift


def seam(lab: Tensor, scene: Scenes) -> Tensor:
    """Return how much stronger gradients across the face's edge are, (K,), than in the scene.

    Over the soft edge, and a little outside of it, the mean square of the derivative of the Oklab
    colour along the normal of the edge, by that along the edge: softness takes from both, a seam
    adds to one. The result is this ratio by the scene's own; more than 1 is a seam. ``lab`` is as
    for ``colour_shift``; it is blurred by BROAD first, for a soft seam is broad.
    """
    soft, depth = scene.soft, scene.depth
    band = ((depth > -0.25 * soft) & (depth < soft)).float()
    dy, dx = _gradient(depth[:, None])
    length = (dx.square() + dy.square()).sqrt().clamp_min(1e-6)
    nx, ny = dx / length, dy / length
    ratios = []
    for one in (lab, scene.lab):
        down, right = _gradient(blur(one, BROAD))
        across, along = right * nx + down * ny, down * nx - right * ny
        energies = [_mean(part.square().sum(dim=1), band) + FLOOR for part in (across, along)]
        ratios.append(energies[0] / energies[1])
    return ratios[0] / ratios[1]


def changed_outside(after: Tensor, before: Tensor, matrix: Tensor, outline: Tensor) -> int:
    """Return how many pixels of a picture differ that lie outside of the face.

    Both are uint8 (H, W, 3); ``matrix`` (2, 3) and ``outline`` (N, 2) are a row of Scenes. The face
    is the hull of its mesh within the crop, and SPILL around it.
    """
    rows, columns = (after != before).any(dim=2).nonzero(as_tuple=True)
    places = apply(matrix, torch.stack([columns, rows], dim=1).float())
    angles = torch.arange(DIRECTIONS) * (2 * math.pi / DIRECTIONS)
    normals = torch.stack([angles.cos(), angles.sin()])
    reach = (outline @ normals).amax(dim=0)
    depth = (reach - places @ normals).amin(dim=1)
    edge = torch.minimum(places, SIZE - 1 - places).amin(dim=1)
    return int((torch.minimum(depth, edge) < -SPILL).sum())


def blur(planes: Tensor, width: float) -> Tensor:
    """Return planes (K, C, S, S) blurred by a Gaussian of ``width`` pixels of a crop of SIZE."""
    sigma = width * planes.shape[-1] / SIZE
    radius = math.ceil(3 * sigma)
    line = torch.arange(-radius, radius + 1, device=planes.device, dtype=planes.dtype)
    weights = torch.exp(-line.square() / (2 * sigma**2))
    weights = weights / weights.sum()
    channels = planes.shape[1]
    padded = functional.pad(planes, (radius,) * 4, mode="replicate")
    across = weights[None, None, None].expand(channels, 1, 1, -1)
    blurred = functional.conv2d(padded, across, groups=channels)
    return functional.conv2d(blurred, across.transpose(2, 3), groups=channels)


def _luma(crops: Tensor) -> Tensor:
    """Return the luma (K, 1, S, S) of RGB."""
    return (crops * crops.new_tensor(LUMA)[:, None, None]).sum(dim=1, keepdim=True)


def _laplacian(luma: Tensor) -> Tensor:
    """Return the Laplacian (K, S, S) of luma (K, 1, S, S), per square pixel."""
    kernel = luma.new_tensor([[0, 1, 0], [1, -4, 1], [0, 1, 0]])[None, None]
    padded = functional.pad(luma, (1, 1, 1, 1), mode="replicate")
    return functional.conv2d(padded, kernel)[:, 0]


def _mean(values: Tensor, weights: Tensor) -> Tensor:
    """Return the mean (K,) of ``values`` (K, S, S) where ``weights`` are 1."""
    return (values * weights).sum(dim=(1, 2)) / weights.sum(dim=(1, 2)).clamp_min(1)


def _gradient(planes: Tensor) -> tuple[Tensor, Tensor]:
    """Return central differences (K, C, S, S) downward and to the right, per pixel."""
    padded = functional.pad(planes, (1, 1, 1, 1), mode="replicate")
    down = (padded[..., 2:, 1:-1] - padded[..., :-2, 1:-1]) / 2
    right = (padded[..., 1:-1, 2:] - padded[..., 1:-1, :-2]) / 2
    return down, right


def _sectors(scene: Scenes) -> Tensor:
    """Return for each pixel the piece of the border it lies at, int64 (K, S, S)."""
    middle = scene.outline.mean(dim=1)
    line = torch.arange(scene.crops.shape[-1], dtype=torch.float32, device=middle.device)
    x = line[None, None, :] - middle[:, 0, None, None]
    y = line[None, :, None] - middle[:, 1, None, None]
    turn = torch.atan2(y, x) / (2 * math.pi) + 0.5
    return (turn * SECTORS).long().clamp(0, SECTORS - 1)


def _by_sector(lab: Tensor, ring: Tensor, sector: Tensor) -> Tensor:
    """Return the mean colour (K, SECTORS, 3) of a ring; NaN where it has no pixel."""
    face, rows, columns = ring.nonzero(as_tuple=True)
    at = face * SECTORS + sector[face, rows, columns]
    colours = lab[face, :, rows, columns]
    total = lab.new_zeros(len(lab) * SECTORS, 3).index_add_(0, at, colours)
    count = torch.bincount(at, minlength=len(total))
    return (total / count[:, None]).reshape(len(lab), SECTORS, 3)
