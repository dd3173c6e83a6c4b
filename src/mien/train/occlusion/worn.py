"""Things worn: spectacles, sunglasses, masks, scarves, hats and veils.

Rims, bridges and temples count as before the face, and so do lenses that hide the eyes. Clear and
lightly tinted lenses do not: the face below is swapped, and their reflections with it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mien.train.faces import OVAL
from mien.train.occlusion.canvas import (
    Layer,
    Site,
    capsules,
    convex,
    edge,
    eye_corners,
    light,
    lit,
    oval,
    paints,
    shaded,
    spread,
)

TEMPLES = (234, 454)
"""Points of the mesh before the ears."""

NOSE_BRIDGE = (6, 197, 195)
"""Points down the ridge of the nose."""

LOWER = OVAL[8:29]
"""The oval from cheek to cheek, by way of the chin."""


def _left_first(pairs: Tensor) -> Tensor:
    """Return pairs of points (n, 2, 2) with the one that is seen on the left first."""
    mirrored = (pairs[:, :1, 0] > pairs[:, 1:, 0])[..., None]
    return torch.where(mirrored, pairs.flip(1), pairs)


def spectacles(site: Site) -> Layer:
    """Draw spectacles with clear lenses."""
    return _glasses(site, dark=False)


def sunglasses(site: Site) -> Layer:
    """Draw glasses whose lenses hide the eyes."""
    return _glasses(site, dark=True)


def _glasses(site: Site, *, dark: bool) -> Layer:
    dice, n = site.dice, len(site)
    left, right = eye_corners(site.mesh)
    width = torch.stack([(e[:, 0] - e[:, 1]).norm(dim=1) for e in (left, right)], dim=1)
    # the lens that is farther away, on a turned head, looks narrower
    narrow = (width / width.mean(dim=1, keepdim=True).clamp_min(1e-3)).clamp(0.5, 1.5)
    half_wide = dice.between(0.36, 0.50, n, 1) * narrow
    half_high = half_wide.mean(dim=1) * dice.between(0.55, 1.05, n)
    power, drop = spread(dice.between(2.0, 5.0, n)), dice.between(0.0, 0.14, n)
    slant = dice.normal(0.05, n)
    wire = dice.chance(0.45, n)  # thin metal, or plastic
    thick = wire * dice.between(0.008, 0.020, n) + (1 - wire) * dice.between(0.020, 0.055, n)
    lenses, rims = [], []
    centres = torch.stack([left.mean(dim=1), right.mean(dim=1)], dim=1)
    centres = centres + torch.stack([torch.zeros_like(drop), drop], dim=1)[:, None]
    for eye, sign in ((0, 1.0), (1, -1.0)):
        u, v, _ = site.turned(centres[:, eye], sign * slant, torch.ones(n, device=dice.device))
        distance = oval(u, v, (spread(half_wide[:, eye]), spread(half_high)), power)
        upper = (-v / spread(half_high)).clamp(-1, 1)
        rims.append(distance.abs() - spread(thick) * (1 + 0.5 * upper))
        lenses.append(distance)
    lens = torch.minimum(*lenses)
    parts = _frame_parts(site, centres, half_wide, half_high, thick)
    half_rim = spread(dice.chance(0.15, n)) * (site.v > spread(centres[..., 1].mean(dim=1)))
    rim = torch.minimum(torch.minimum(*rims) + 9 * half_rim, parts)
    alpha_rim = edge(rim, site.pixel) * (spread(2 * thick) / site.pixel).clamp(0.45, 1)
    relief = (spread(thick) ** 2 - (rim + spread(thick)).square()).clamp_min(0).sqrt()
    shade = lit(relief, site.pixel, light(dice, n))
    tone = torch.where(dice.chance(0.55, n)[:, None] > 0, paints(dice, n) * 0.2, paints(dice, n))
    mottled = (1 + 0.3 * dice.cloud(n, site.size, 16) * spread(dice.chance(0.3, n)))[:, None]
    frame = shaded(tone, shade, 0.3) * mottled + (0.5 * shade**14)[:, None]
    glass, alpha_lens, hides_lens = _lenses(site, lens, dark=dark)
    alpha = torch.maximum(alpha_rim, alpha_lens)
    colour = glass + alpha_rim[:, None] * (frame - glass)
    hides = torch.maximum(((alpha_rim - 0.3) / 0.3).clamp(0, 1), hides_lens)
    return Layer(colour.clamp(0, 1), alpha[:, None], hides[:, None])


def _frame_parts(
    site: Site, centres: Tensor, half_wide: Tensor, half_high: Tensor, thick: Tensor
) -> Tensor:
    """Return the distance from the bridge and the temples of glasses."""
    dice, n = site.dice, len(site)
    inward = torch.stack([half_wide[:, 0], -half_wide[:, 1]], dim=1)
    level = half_high * dice.between(0.1, 0.7, n)
    zero = torch.zeros_like(inward)
    inner = centres + torch.stack([0.93 * inward, zero - 0.8 * level[:, None]], dim=2)
    outer = centres + torch.stack([-0.97 * inward, zero - level[:, None]], dim=2)
    ears = _left_first(site.mesh[:, list(TEMPLES)])
    ears = torch.stack([ears[..., 0], outer[..., 1] + 0.25 * (ears[..., 1] - outer[..., 1])], dim=2)
    beyond = outer + (ears - outer) * dice.between(0.9, 1.3, n, 1, 1)
    a = torch.stack([inner[:, 0], outer[:, 0], outer[:, 1]], dim=1)
    b = torch.stack([inner[:, 1], beyond[:, 0], beyond[:, 1]], dim=1)
    radius = thick[:, None] * dice.between(0.8, 1.5, n, 3)
    arched = site.v + 0.5 * (0.12 - site.u.square()).clamp_min(0) * spread(dice.between(0, 1.2, n))
    away, _, wide = capsules(site.u, arched, (a, b), (radius, radius))
    return (away - wide).amin(dim=1)


def _lenses(site: Site, lens: Tensor, *, dark: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return colour, opacity and what is hidden by lenses."""
    dice, n = site.dice, len(site)
    inside = edge(lens, site.pixel)
    sheen = site.u * spread(dice.normal(1, n)) + site.v * spread(dice.normal(1, n))
    sheen = torch.exp(
        -(((sheen - spread(dice.normal(0.4, n))) / spread(dice.between(0.05, 0.4, n))) ** 2)
    )
    sheen = sheen * spread(dice.between(0, 1, n) * dice.chance(0.5, n))
    if dark:
        slope = spread(dice.between(0, 0.3, n)) * (site.v * 1.5).clamp(-1, 1)
        alpha = (spread(dice.between(0.78, 1.0, n)) - slope).clamp(0.6, 1) * inside
        tint = paints(dice, n) * dice.between(0.05, 0.5, n, 1)
        mirrored = (dice.chance(0.25, n) * dice.between(0.2, 0.7, n))[:, None, None, None]
        colour = tint[:, :, None, None] * (1 - mirrored) + mirrored * site.scraps
        return colour + 0.5 * sheen[:, None], alpha, inside
    alpha = (spread(dice.between(0, 0.14, n)) + 0.4 * sheen).clamp(0, 0.5) * inside
    tint = dice.between(0.3, 1, n, 3)
    return tint[:, :, None, None].expand(n, 3, site.size, site.size), alpha, torch.zeros_like(alpha)


def mask(site: Site) -> Layer:
    """Draw a mask over nose, mouth and chin, with its loops."""
    dice, n = site.dice, len(site)
    low = site.mesh[:, LOWER[2:-2]] * dice.between(1.0, 1.06, n, 1, 1)
    ridge = site.mesh[:, list(NOSE_BRIDGE)]
    pick = dice.picks(3, n)
    top = ridge[torch.arange(n, device=dice.device), pick]
    corners = torch.cat([low, top[:, None]], dim=1)
    wavy = 0.03 * dice.cloud(n, site.size, 4)
    distance = convex(site.u, site.v, corners) + wavy
    dome = (-distance).clamp(0, 0.8)
    nose = torch.exp(-(site.u / 0.22).square()) * 0.12
    pleats = (site.v * spread(dice.between(9, 22, n)) + 0.6 * site.u.square()).sin()
    relief = 0.6 * dome.sqrt() * 0.5 + nose + 0.012 * pleats * spread(dice.chance(0.6, n))
    relief = relief + 0.03 * dice.cloud(n, site.size, 7)
    shade = lit(relief, site.pixel, light(dice, n))
    pale = site.skin.new_tensor([[0.55, 0.75, 0.88], [0.92, 0.93, 0.94], [0.08, 0.08, 0.09]])
    tone = torch.where(dice.chance(0.6, n)[:, None] > 0, pale[dice.picks(3, n)], paints(dice, n))
    colour = shaded(tone, shade, 0.45)
    printed = dice.chance(0.06, n)[:, None, None, None]
    colour = colour * (1 - printed) + printed * shaded(site.scraps, shade, 0.45)
    ears, sides = _left_first(site.mesh[:, list(TEMPLES)]), _left_first(low[:, [0, -1]])
    cord = torch.full((n, 2), 0.025, device=dice.device)
    away, _, wide = capsules(site.u, site.v, (sides, ears * 1.1), (cord, cord))
    alpha = edge(torch.minimum(distance, (away - wide).amin(dim=1)), site.pixel)[:, None]
    return Layer(colour.clamp(0, 1), alpha, alpha)


def cloth(site: Site) -> Layer:
    """Draw cloth from below (scarves), above (hats, headscarves) or aside (curtains)."""
    distance = _hem(site)
    colour = _fabric(site, distance)
    alpha = edge(distance, site.pixel)[:, None]
    return Layer(colour.clamp(0, 1), alpha, alpha)


def veil(site: Site) -> Layer:
    """Draw thin cloth; it counts as before the face where it takes more than half of it."""
    dice, n = site.dice, len(site)
    distance = _hem(site)
    colour = _fabric(site, distance)
    thin = spread(dice.between(0.15, 0.85, n)) + 0.08 * dice.cloud(n, site.size, 5)
    alpha = edge(distance, site.pixel) * thin.clamp(0.05, 0.95)
    hides = edge(distance, site.pixel) * (thin > 0.5)
    return Layer(colour.clamp(0, 1), alpha[:, None], hides[:, None])


def _hem(site: Site) -> Tensor:
    dice, n = site.dice, len(site)
    where = spread(dice.picks(3, n))
    sag = spread(dice.normal(0.18, n)) * site.u.square() + spread(dice.normal(0.15, n)) * site.u
    sag = sag + 0.06 * dice.cloud(n, site.size, 5)
    below = spread(dice.between(0.35, 1.6, n)) - site.v - sag
    above = site.v - sag + spread(dice.between(0.25, 1.0, n))
    side = spread((2 * dice.picks(2, n) - 1).float())
    aside = spread(dice.between(0.0, 0.9, n)) - side * site.u + 0.3 * sag + 0.1 * site.v
    return torch.where(where == 0, below, torch.where(where == 1, above, aside))


def _fabric(site: Site, distance: Tensor) -> Tensor:
    """Return cloth with folds, and a plain, striped or printed pattern."""
    dice, n = site.dice, len(site)
    slope = spread(dice.normal(1, n)) * site.u + spread(dice.normal(1, n)) * site.v
    bent = slope + 0.25 * dice.cloud(n, site.size, 4)
    folds = 0.05 * (bent * spread(dice.between(3, 12, n))).sin() * spread(dice.between(0, 1, n))
    hem = 0.05 * (-distance / 0.1).clamp(0, 1)
    shade = lit(folds + hem + 0.02 * dice.cloud(n, site.size, 8), site.pixel, light(dice, n))
    weave = (bent * spread(dice.between(8, 60, n))).sin() > 0
    striped = (weave * spread(dice.chance(0.3, n)))[:, None]
    plain = paints(dice, n)[:, :, None, None]
    pattern = plain + striped * (paints(dice, n)[:, :, None, None] - plain)
    printed = dice.chance(0.2, n)[:, None, None, None]
    pattern = pattern * (1 - printed) + printed * site.scraps
    grain = (1 + 0.04 * dice.cloud(n, site.size, 60))[:, None]
    return shaded(pattern, shade, 0.4) * grain
