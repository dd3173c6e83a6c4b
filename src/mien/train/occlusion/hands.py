"""Hands and arms before faces: jointed capsules with skin, creases and nails."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mien.train.occlusion.canvas import Layer, Site, capsules, edge, light, lit, paints, shaded

# a hand of length 1 that points up, seen flat, its wrist at the origin: where fingers begin, how
# long they are, and how thick (proportions after Drillis & Contini 1966, rounded)
KNUCKLES = ((-0.155, -0.44), (-0.052, -0.49), (0.052, -0.47), (0.150, -0.42))
FINGERS = (0.41, 0.47, 0.43, 0.33)
BONES = (0.45, 0.31, 0.24)
THICK = (0.055, 0.045)
THUMB = ((-0.15, -0.13), (0.19, 0.15), (0.066, 0.050))

WEB = 0.016
"""How far neighbouring parts flow into each other."""


def hand(site: Site) -> Layer:
    """Draw a hand, often with a part of its arm, whose tone is the face's own or another's."""
    dice, n = site.dice, len(site)
    a, b, thick, thin = _bones(site)
    side = (2 * dice.picks(2, n) - 1).float()
    a, b = (torch.stack([p[..., 0] * side[:, None], p[..., 1]], dim=2) for p in (a, b))
    angle = dice.normal(0.9, n)
    length = dice.between(2.2, 3.4, n)
    middle = torch.stack([dice.normal(0.8, n), dice.between(-0.5, 2.2, n)], dim=1)
    # what lies on the face is a place somewhere in the hand, not the wrist
    u, v, pixel = site.turned(middle, angle, length)
    v = v - dice.between(0.3, 0.9, n)[:, None, None]
    away, t, radius = capsules(u, v, (a, b), (thick, thin))
    distance = -WEB * torch.logsumexp((radius - away) / WEB, dim=1) + WEB * 0.3
    height = (radius.square() - away.square()).clamp_min(0).sqrt()
    relief = 0.012 * torch.logsumexp(height / 0.012, dim=1) + 0.004 * dice.cloud(n, site.size, 10)
    shade = lit(relief * 0.85, pixel, light(dice, n))
    deep = (height.amax(dim=1) / 0.045).clamp(0, 1)
    shade = shade * (0.5 + 0.5 * deep) * _creases(t, away < radius, dice.between(0, 0.35, n))
    own = dice.chance(0.5, n)[:, None]
    skin = site.skin * own + site.other * (1 - own)
    skin = skin * dice.between(0.75, 1.12, n, 1) * (1 + dice.normal(0.03, n, 3))
    colour = _flesh(skin, shade) + 0.02 * dice.cloud(n, site.size, 30)[:, None]
    colour = _nails(site, colour, shade, (u, v, pixel), (b, thin))
    return _sleeved(site, colour, shade, distance, (t[:, -1], away[:, -1], radius[:, -1], pixel))


def arm(site: Site) -> Layer:
    """Draw a bare or sleeved arm that crosses the crop."""
    dice, n = site.dice, len(site)
    angle = dice.between(0, math.pi, n)
    middle = torch.stack([dice.normal(0.9, n), dice.between(-0.8, 2.0, n)], dim=1)
    u, v, pixel = site.turned(middle, angle, torch.ones_like(angle))
    bend = dice.normal(0.06, n)[:, None, None]
    wide = dice.between(0.45, 0.75, n)[:, None, None] * (1 + 0.08 * u)
    away = (v - bend * u.square()).abs()
    relief = (wide.square() - away.square()).clamp_min(0).sqrt()
    folds = 0.02 * dice.cloud(n, site.size, 12) * dice.between(0, 2, n)[:, None, None]
    bare = dice.chance(0.5, n)[:, None, None, None]
    folds = folds * (1 - 0.85 * bare[:, 0])
    shade = lit((relief + folds) * 0.8, pixel, light(dice, n))
    own = dice.chance(0.5, n)[:, None]
    skin = (site.skin * own + site.other * (1 - own)) * dice.between(0.75, 1.1, n, 1)
    colour = bare * _flesh(skin, shade) + (1 - bare) * shaded(paints(dice, n), shade)
    colour = colour + 0.01 * dice.cloud(n, site.size, 28)[:, None]
    alpha = edge(away - wide, pixel)[:, None]
    return Layer(colour.clamp(0, 1), alpha, alpha)


def _bones(site: Site) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return ends (n, K, 2) and radii (n, K) of the parts of hands; the arm comes last."""
    dice, n = site.dice, len(site)
    stretched = dice.between(0.78, 1.0, n, 4)
    curled = dice.between(0.3, 0.5, n, 4)
    pose = dice.between(0, 1, n, 1)
    single = torch.where(dice.chance(0.5, n, 4) > 0, stretched, curled)
    reach = torch.where(pose < 0.55, stretched, torch.where(pose < 0.75, curled, single))
    spread = dice.between(0.0, 0.16, n)
    common, twist = dice.normal(0.10, n), dice.normal(0.05, n, 4, 3)
    fat = dice.between(0.85, 1.2, n)
    starts: list[Tensor] = []
    ends: list[Tensor] = []
    radii: list[tuple[Tensor, Tensor]] = []
    bases = dice.normal(0.008, n, 4, 2) + site.skin.new_tensor(KNUCKLES)
    for finger, length in enumerate(FINGERS):
        at = bases[:, finger]
        way = spread * (finger - 1.5) + dice.normal(0.03, n)
        for bone, share in enumerate(BONES):
            way = way + common + twist[:, finger, bone]
            step = (length * share * reach[:, finger])[:, None]
            to = at + step * torch.stack([way.sin(), -way.cos()], dim=1)
            girth = THICK[0] + (THICK[1] - THICK[0]) * bone / 3
            starts, ends = [*starts, at], [*ends, to]
            radii.append((fat * girth, fat * (girth - 0.004)))
            at = to
    at = site.skin.new_tensor(THUMB[0]).expand(n, 2)
    way = -dice.between(0.2, 1.1, n)
    for bone_length in THUMB[1]:
        to = at + bone_length * torch.stack([way.sin(), -way.cos()], dim=1)
        starts, ends = [*starts, at], [*ends, to]
        radii.append((fat * THUMB[2][0], fat * THUMB[2][1]))
        at, way = to, way + dice.between(-0.1, 0.5, n)
    wrist = bases * bases.new_tensor([0.6, 0.08])
    for finger in range(4):
        starts, ends = [*starts, wrist[:, finger]], [*ends, bases[:, finger]]
        radii.append((fat * 0.085, fat * 0.062))
    starts, ends = [*starts, wrist.mean(dim=1)], [*ends, wrist.mean(dim=1) * 0 + _down(site)]
    radii.append((fat * 0.135, fat * 0.2))
    thick, thin = (torch.stack(list(parts), dim=1) for parts in zip(*radii, strict=True))
    return torch.stack(starts, dim=1), torch.stack(ends, dim=1), thick, thin


def _down(site: Site) -> Tensor:
    way = site.dice.normal(0.25, len(site))
    return 1.6 * torch.stack([way.sin(), way.cos()], dim=1)


def _flesh(skin: Tensor, shade: Tensor) -> Tensor:
    """Return skin (n, 3) in a light (n, S, S): light scatters in it, so its shadows are redder."""
    soft = (0.30 + 0.85 * shade).clamp_min(0.05)[:, None]
    power = skin.new_tensor([0.80, 1.0, 1.08])[:, None, None]
    return skin[:, :, None, None] * soft**power


def _creases(t: Tensor, inside: Tensor, strength: Tensor) -> Tensor:
    """Return a darkening (n, S, S) across the joints of fingers."""
    joints = torch.exp(-((t[:, :12] - 0.03) / 0.05).square()) * inside[:, :12]
    joints = joints * (t[:, :12] > 0.005)
    return 1 - strength[:, None, None] * joints.amax(dim=1)


def _nails(
    site: Site,
    colour: Tensor,
    shade: Tensor,
    where: tuple[Tensor, Tensor, Tensor],
    tips: tuple[Tensor, Tensor],
) -> Tensor:
    """Paint nails on the finger tips of hands that show their back."""
    dice, n = site.dice, len(site)
    (u, v, pixel), (ends, thin) = where, tips
    last = [2, 5, 8, 11, 13]
    at, radius = ends[:, last], thin[:, last]
    near = torch.stack([u[:, None] - at[:, :, 0, None, None], v[:, None] - at[:, :, 1, None, None]])
    far = torch.hypot(near[0], near[1]) - radius[..., None, None] * 0.62
    shown = dice.chance(0.55, n)[:, None, None] * edge(far.amin(dim=1), pixel)
    polish = dice.chance(0.25, n)[:, None]
    pink = site.skin * 0.75 + site.skin.new_tensor([0.32, 0.22, 0.21])
    paint = polish * paints(dice, n) + (1 - polish) * pink
    return colour + shown[:, None] * (shaded(paint.clamp(0, 1), shade, 0.45) - colour)


def _sleeved(
    site: Site,
    colour: Tensor,
    shade: Tensor,
    distance: Tensor,
    arm_: tuple[Tensor, Tensor, Tensor, Tensor],
) -> Layer:
    """Put some arms into sleeves, a little wider than they are."""
    dice, n = site.dice, len(site)
    t, away, radius, pixel = arm_
    begins = torch.where(dice.chance(0.6, n) > 0, dice.between(0.03, 0.25, n), 9.0)
    inside = torch.maximum(away - radius * 1.18, (begins[:, None, None] - t) * 1.6)
    cloth = edge(inside, pixel)
    folded = shade * (0.9 + 0.12 * dice.cloud(n, site.size, 14))
    colour = colour + cloth[:, None] * (shaded(paints(dice, n), folded) - colour)
    alpha = torch.maximum(edge(distance, pixel), cloth)[:, None]
    return Layer(colour.clamp(0, 1), alpha, alpha)
