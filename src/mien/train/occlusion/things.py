"""Things held before faces: microphones, phones, cups, sticks, sheets of paper."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mien.train.occlusion.canvas import (
    Layer,
    Site,
    box,
    capsules,
    edge,
    light,
    line_noise,
    lit,
    opaque,
    oval,
    paints,
    shaded,
    spread,
)


def _mixed(under: Tensor, over: Tensor, share: Tensor) -> Tensor:
    """Return ``under`` (n, 3, S, S) covered by ``over`` where ``share`` (n, S, S) is 1."""
    if over.ndim == 2:
        over = over[:, :, None, None]
    return under + share[:, None] * (over - under)


def microphone(site: Site) -> Layer:
    """Draw a microphone: a ball of wire or foam on a handle that comes from below or aside."""
    dice, n = site.dice, len(site)
    middle = torch.stack([dice.normal(0.5, n), dice.between(0.6, 2.0, n)], dim=1)
    u, v, pixel = site.turned(middle, dice.normal(0.7, n), dice.between(0.55, 1.3, n))
    tall = spread(dice.between(1.0, 1.4, n))
    head = oval(u, v, (torch.full_like(tall, 0.42), 0.42 * tall))
    ends = (u.new_tensor([[[0.0, 0.3]]]), u.new_tensor([[[0.0, 5.0]]]))
    thick = dice.between(0.14, 0.27, n)[:, None]
    away, _, radius = capsules(u, v, (ends[0].expand(n, 1, 2), ends[1].expand(n, 1, 2)),
                               (thick, thick * 0.8))  # fmt: skip
    handle = (away - radius)[:, 0]
    round_ = (0.17 - (u.square() + (v / tall).square())).clamp_min(0).sqrt()
    shaft = (radius.square() - away.square()).clamp_min(0).sqrt()[:, 0]
    towards = light(dice, n)
    fine = spread(dice.between(30, 60, n))
    wire = ((u + v) * fine).sin() * ((u - v) * fine).sin()
    foam = dice.cloud(n, site.size, 50)
    foamy = spread(dice.chance(0.5, n))
    grain = (1 - foamy) * 0.35 * wire + foamy * 0.16 * foam
    top = shaded(paints(dice, n), lit(round_, pixel, towards), 0.25) * (1 + grain)[:, None]
    dark = paints(dice, n) * dice.between(0.15, 0.9, n, 1)
    colour = shaded(dark, lit(shaft, pixel, towards), 0.2)
    colour = colour + (0.35 * lit(shaft, pixel, towards) ** 12)[:, None]
    collar = edge(box(u, v - 0.45 * tall, (thick[:, :, None] * 1.5, 0.07 * tall), 0.03), pixel)
    collar = collar * spread(dice.chance(0.6, n))
    colour = _mixed(colour, shaded(paints(dice, n), lit(shaft, pixel, towards)), collar)
    colour = _mixed(colour, top, edge(head, pixel))
    alpha = torch.maximum(edge(torch.minimum(head, handle), pixel), collar)[:, None]
    return Layer(colour.clamp(0, 1), alpha, alpha)


def phone(site: Site) -> Layer:
    """Draw a phone, its screen or its back with lenses towards us."""
    dice, n = site.dice, len(site)
    middle = torch.stack([dice.normal(0.8, n), dice.between(-0.2, 2.0, n)], dim=1)
    angle = dice.normal(0.35, n) + dice.chance(0.25, n) * (math.pi / 2)
    u, v, pixel = site.turned(middle, angle, dice.between(0.9, 1.3, n))
    u = u / spread(dice.between(0.5, 1.0, n))  # turned away from us
    half = (u.new_tensor(0.58), u.new_tensor(1.18))
    body = box(u, v, half, 0.13)
    rim = paints(dice, n)
    slope = spread(dice.between(0.6, 1.1, n)) + 0.15 * v * spread(dice.normal(1, n))
    colour = shaded(rim, slope.clamp(0, 1.2).expand_as(u))
    screen = spread(dice.chance(0.5, n))
    glass = edge(box(u, v, (half[0] - 0.05, half[1] - 0.07), 0.1), pixel) * screen
    bright = dice.between(0.02, 0.9, n, 1) ** 2
    shown = torch.where(
        dice.chance(0.3, n)[:, None, None, None] > 0,
        site.scraps * 0.9,
        (bright * paints(dice, n) + 0.03)[:, :, None, None],
    )
    colour = _mixed(colour, shown, glass)
    lenses = torch.minimum(
        oval(u + 0.33, v + 0.9, (u.new_tensor(0.12), u.new_tensor(0.12))),
        oval(u + 0.33, v + 0.58, (u.new_tensor(0.12), u.new_tensor(0.12))),
    )
    black = torch.full_like(rim, 0.04)
    colour = _mixed(colour, black, edge(lenses, pixel) * (1 - screen))
    streak = torch.exp(-((u * 0.8 + v * 0.5 - spread(dice.normal(0.6, n))) / 0.25).square())
    colour = colour + (streak * spread(dice.between(0, 0.25, n)))[:, None]
    return opaque(colour, body, pixel)


def cup(site: Site) -> Layer:
    """Draw a cup, a mug or a glass before the mouth, perhaps with a handle and a band."""
    dice, n = site.dice, len(site)
    middle = torch.stack([dice.normal(0.4, n), dice.between(1.0, 2.1, n)], dim=1)
    u, v, pixel = site.turned(middle, dice.normal(0.3, n), dice.between(0.8, 1.3, n))
    high = spread(dice.between(0.6, 1.1, n))
    wide = spread(dice.between(0.45, 0.75, n)) * (1 - spread(dice.between(0, 0.2, n)) * v / high)
    across = (u / wide).clamp(-1, 1)
    lid = 0.22 * wide * (1 - across.square()).clamp_min(0).sqrt()
    sides = torch.maximum(u.abs() - wide, (v.abs() - high) - lid)
    towards = light(dice, n)
    shade = lit(wide * (1 - across.square()).clamp_min(0).sqrt(), pixel, towards)
    colour = shaded(paints(dice, n), shade)
    band = edge((v - spread(dice.normal(0.3, n))).abs() - spread(dice.between(0.05, 0.4, n)), pixel)
    colour = _mixed(colour, shaded(paints(dice, n), shade), band * spread(dice.chance(0.5, n)))
    inside = oval(u, v + high, (wide, 0.22 * wide))
    colour = _mixed(colour, shaded(paints(dice, n) * 0.4, shade), edge(inside, pixel))
    ring = (torch.hypot(u - wide - 0.05, (v - 0.05) * 0.8) - 0.3 * high).abs() - 0.075
    handled = torch.where(spread(dice.chance(0.5, n)) > 0, ring, 9.0)
    shine = 0.4 * shade**10 * spread(dice.chance(0.6, n))
    return opaque(colour + shine[:, None], torch.minimum(sides, handled), pixel)


def stick(site: Site) -> Layer:
    """Draw one to three thin round things: pens, straws, cigarettes, cutlery, cords."""
    dice, n = site.dice, len(site)
    count = 3
    kept = torch.cat([torch.ones(n, 1, device=dice.device), dice.chance(0.25, n, count - 1)], dim=1)
    a = torch.stack([dice.normal(0.9, n, count), dice.between(-0.8, 1.8, n, count)], dim=2)
    way, long = dice.between(0, 2 * math.pi, n, count), dice.between(0.8, 5.0, n, count)
    b = a + long[..., None] * torch.stack([way.cos(), way.sin()], dim=2)
    thick = dice.between(0.02, 0.12, n, count)
    thin = thick * dice.between(0.4, 1.2, n, count)
    sag = spread(dice.normal(0.05, n))
    v = site.v + sag * site.u.square()
    away, t, radius = capsules(site.u, v, (a, b), (thick, thin))
    radius = radius * kept[..., None, None]
    away = away + 9 * (1 - kept[..., None, None])
    distance, top = (away - radius).min(dim=1)
    chosen = top[:, None]
    relief = (radius.square() - away.square()).clamp_min(0).sqrt().gather(1, chosen)[:, 0]
    along = t.gather(1, chosen)[:, 0]
    shade = lit(relief, site.pixel, light(dice, n))
    colour = shaded(paints(dice, n), shade, 0.3)
    bands = (along * spread(dice.between(3, 40, n))).sin() > spread(dice.between(0.2, 1.6, n))
    colour = _mixed(colour, shaded(paints(dice, n), shade, 0.3), bands.float())
    colour = colour + (0.4 * shade**12 * spread(dice.chance(0.5, n)))[:, None]
    return opaque(colour, distance, site.pixel)


def sheet(site: Site) -> Layer:
    """Draw a sheet, a book or a sign, perhaps with lines of writing on it."""
    dice, n = site.dice, len(site)
    side = dice.between(0, 2 * math.pi, n)
    far = dice.between(1.7, 2.6, n)
    middle = torch.stack([far * side.cos(), 0.7 + far * side.sin()], dim=1)
    u, v, pixel = site.turned(middle, dice.normal(0.4, n), torch.ones_like(far))
    u = u + 0.15 * spread(dice.normal(1, n)) * v  # seen askew
    half = (spread(dice.between(1.0, 1.8, n)), spread(dice.between(0.9, 1.8, n)))
    paper = torch.where(
        dice.chance(0.6, n)[:, None] > 0, 0.75 + 0.22 * paints(dice, n), paints(dice, n)
    )
    folds = 0.25 * dice.cloud(n, site.size, 3) * spread(dice.between(0, 1, n))
    shade = lit(folds, pixel.new_tensor(0.04), light(dice, n))
    colour = shaded(paper, shade, 0.45)
    printed = site.scraps * dice.between(0.6, 1, n)[:, None, None, None]
    picture = box(u, v + 0.3, (half[0] * 0.6, half[1] * 0.4), 0.0)
    colour = _mixed(colour, printed, edge(picture, pixel) * spread(dice.chance(0.3, n)))
    row = v * spread(dice.between(4, 12, n))
    words = line_noise(dice.normal(1, n, 97), u * 9 + row.floor() * 13.7) > -0.2
    lines = ((row - row.floor() - 0.5).abs() < 0.24) & words & (u.abs() < half[0] * 0.85)
    ink = paints(dice, n) * 0.4
    colour = _mixed(colour, ink, lines.float() * spread(0.85 * dice.chance(0.6, n)))
    return opaque(colour, box(u, v, half, 0.02), pixel)
