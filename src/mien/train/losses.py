"""Losses, each a plain function of pictures and maps.

Pictures are (N, 3, S, S) in [-1, 1]; ``valid`` is (N, 1, S, S), 1 where the picture is real and 0
where it is padding, which no loss looks at. Losses are means over rows; a row's own loss is a mean
over its valid pixels, so rows count alike however much of them is padding.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from mien.train.faces import LEFT_EYE, RIGHT_EYE, shapes
from mien.train.geometry import box, distance_inside, places
from mien.train.traits import worn

SCALES = (1, 2, 4, 8)
"""Reconstruction is compared after averaging over squares of so many pixels."""

COARSE = 4
"""From this scale on, pictures of fewer pixels than the network's are right answers too."""

# windows of width 5/16 and height 1/4 of the side about eyes and mouth of arcface_128's points
WINDOWS = ((0.3617, 0.4039), (0.6370, 0.4024), (0.5011, 0.7220))
WINDOW = (5 / 16, 1 / 4)

# within the lids' windows: centres as above
EYES = ((0.3617, 0.4039, LEFT_EYE), (0.6370, 0.4024, RIGHT_EYE))
EYE_REACH = (0.13, 0.08)
EYE_GRID = (32, 52)
"""Rows and columns at which an eye is looked at."""

IRIS = 4
"""Half an iris' width there."""

BARE = -5.0
"""Logit of spectacles below which a face certainly wears none."""


def mean_where(values: Tensor, where: Tensor) -> Tensor:
    """Return the mean (N,) of values (N, C, H, W) weighted by ``where`` (N, 1, H, W); 0 of none."""
    total = (values.float() * where).sum(dim=(1, 2, 3))
    return total / (where.sum(dim=(1, 2, 3)) * values.shape[1]).clamp_min(1e-6)


def weighted_mean(rows: Tensor, weights: Tensor) -> Tensor:
    """Return the mean of rows' losses (N,), weighted (N,); 0 if all weights are."""
    return (rows * weights).sum() / weights.sum().clamp_min(1e-6)


def pooled(difference: Tensor, valid: Tensor, scale: int) -> tuple[Tensor, Tensor]:
    """Average a difference of pictures over squares of ``scale`` pixels, the valid ones of each.

    Also returns which share of each square is valid, (N, 1, h, w).
    """
    if scale == 1:
        return difference, valid
    share = functional.avg_pool2d(valid, scale)
    return functional.avg_pool2d(difference * valid, scale) / share.clamp_min(1e-6), share


def emphasis(size: int, more: float, device: torch.device) -> Tensor:
    """Return a map (1, 1, size, size): ``more`` about eyes and mouth, 1 elsewhere."""
    weight = torch.ones(1, 1, size, size, device=device)
    for left, top, right, bottom in windows(size):
        weight[:, :, top:bottom, left:right] = more
    return weight


def windows(size: int) -> list[tuple[int, int, int, int]]:
    """Return left, top, right, bottom of the windows about eyes and mouth, all of one size."""
    width, height = round(WINDOW[0] * size), round(WINDOW[1] * size)
    corners = [(round(x * size - width / 2), round(y * size - height / 2)) for x, y in WINDOWS]
    return [(left, top, left + width, top + height) for left, top in corners]


def cut_windows(pictures: Tensor) -> Tensor:
    """Return the windows about both eyes and the mouth, (3 N, C, h, w), window by window."""
    return torch.cat([pictures[:, :, t:b, x:r] for x, t, r, b in windows(pictures.shape[-1])])


def reconstruction(
    out: Tensor, truth: Tensor, valid: Tensor, detail: Tensor, weight: Tensor
) -> Tensor:
    """Return the L1 distance at several scales; ``weight`` (1, 1, S, S) counts some places more.

    Rows whose ``detail`` (N,) is 0 are compared at coarse scales only.
    """
    rows = out.new_zeros(len(out), dtype=torch.float32)
    count = torch.zeros_like(rows)
    for scale in SCALES:
        difference, share = pooled(out - truth, valid, scale)
        at = functional.avg_pool2d(weight, scale) * share
        counts = torch.ones_like(detail) if scale >= COARSE else detail
        rows = rows + counts * mean_where(difference.abs(), at)
        count = count + counts
    return (rows / count).mean()


def colour(out: Tensor, truth: Tensor, valid: Tensor) -> Tensor:
    """Return the L1 distance of the pictures at a sixteenth of their side."""
    difference, share = pooled(out - truth, valid, out.shape[-1] // 16)
    return mean_where(difference.abs(), share).mean()


def context(out: Tensor, truth: Tensor, valid: Tensor, face: Tensor) -> Tensor:
    """Return the L1 distance outside of the face, whose mask is (N, 1, S, S)."""
    difference, share = pooled(out - truth, valid * (1 - face), 2)
    return mean_where(difference.abs(), share).mean()


def identity(made: Tensor, wanted: Tensor) -> Tensor:
    """Return 1 - cosine of unit embeddings (N, D)."""
    return (1 - (made * wanted).sum(dim=1)).mean()


def mesh_shape(made: Tensor, wanted: Tensor) -> Tensor:
    """Return the mean distance of eyes, brows and lips of two meshes (N, 468, 2).

    Each part about its own middle, in distances between the eyes; parts count alike.
    """
    parts = zip(shapes(made), shapes(wanted), strict=True)
    return torch.stack([(a - b).abs().mean() for a, b in parts]).mean()


def gaze(out: Tensor, truth: Tensor, mesh: Tensor) -> Tensor:
    """Return 1 - correlation of brightness between the lids, where ``mesh`` has them.

    The iris is the dark thing between the lids, so this says whether both pairs of eyes look the
    same way, whatever their colours. Eyes that are closed count for nothing.
    """
    a, b, inside, weights = between_lids(out, truth, mesh)
    a, b = (eyes.mean(dim=1, keepdim=True) for eyes in (a, b))
    return weighted_mean(1 - _correlation(a, b, inside), weights)


def irises(out: Tensor, truth: Tensor, mesh: Tensor) -> Tensor:
    """Return the L1 distance of the colours between the lids, after averaging over half an iris.

    Embedders say little of the colour of eyes, so what a network makes of it is anything.
    """
    a, b, inside, weights = between_lids(out, truth, mesh)
    difference, share = pooled(a - b, inside, IRIS)
    return weighted_mean(mean_where(difference.abs(), share), weights)


def rims(out: Tensor, truth: Tensor) -> Tensor:
    """Return by how much the outputs look more like people with spectacles than the truths do.

    In the logit of ``traits.worn``, from where nobody would suspect any.
    """
    made, before = (worn((p.float() + 1) * 127.5) for p in (out, truth))
    return functional.relu(made - before.clamp_min(BARE)).mean()


def between_lids(out: Tensor, truth: Tensor, mesh: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the eyes of both pictures, (2N, 3, 32, 52), all left ones first.

    Also where they lie between the lids, (2N, 1, 32, 52), and weights of rows (2N,): eyes that are
    closed count for nothing.
    """
    eyes: list[list[Tensor]] = []
    for x, y, lids in EYES:
        view = box(
            x - EYE_REACH[0], y - EYE_REACH[1], x + EYE_REACH[0], y + EYE_REACH[1], mesh
        ).expand(len(mesh), -1, -1)
        at = places(view, *EYE_GRID)
        pixel = 2 * 2 * EYE_REACH[0] / EYE_GRID[1]
        inside = (distance_inside(mesh[:, lids], at) / pixel + 0.5).clamp(0, 1)
        a, b = (
            functional.grid_sample(
                p.float(), at, mode="bilinear", padding_mode="border", align_corners=False
            )
            for p in (out, truth)
        )
        area = inside.sum(dim=(1, 2, 3))
        eyes.append([a, b, inside, (area / (0.05 * inside[0].numel())).clamp(max=1)])
    a, b, inside, weights = (torch.cat(parts) for parts in zip(*eyes, strict=True))
    return a, b, inside, weights


def _correlation(a: Tensor, b: Tensor, where: Tensor) -> Tensor:
    """Return the correlation (N,) of maps (N, 1, h, w) weighted by ``where``."""
    a, b = (x - mean_where(x, where)[:, None, None, None] for x in (a, b))
    # an eye without any contrast correlates with nothing
    floor = 1e-3
    spread = ((mean_where(a * a, where) + floor) * (mean_where(b * b, where) + floor)).sqrt()
    return mean_where(a * b, where) / spread


def hinge_discriminator(real: Tensor, fake: Tensor, where: Tensor) -> Tensor:
    """Return the hinge loss of logits (N, 1, h, w), of the patches with weights ``where``."""
    loss = functional.relu(1 - real.float()) + functional.relu(1 + fake.float())
    return (loss * where).sum() / where.sum().clamp_min(1e-6)


def hinge_generator(fake: Tensor, where: Tensor) -> Tensor:
    """Return the generator's side of the hinge loss."""
    return -(fake.float() * where).sum() / where.sum().clamp_min(1e-6)


def features(
    made: list[Tensor], wanted: list[Tensor], valid: Tensor, deep: Tensor, shallow: Tensor
) -> Tensor:
    """Return the L1 distance of a discriminator's activations, shallow to deep.

    The last two layers count with each row's weight ``deep`` (N,), those before with ``shallow``.
    """
    total = valid.new_zeros(())
    for index, (a, b) in enumerate(zip(made, wanted, strict=True)):
        weights = deep if index >= len(made) - 2 else shallow
        where = functional.adaptive_avg_pool2d(valid, (a.shape[-2], a.shape[-1]))
        total = total + weighted_mean(mean_where((a - b).abs(), where), weights)
    return total / len(made)
