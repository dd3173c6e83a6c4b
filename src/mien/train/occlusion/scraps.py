"""What else may lie before a face: leaves, writing, pieces of other pictures."""

from __future__ import annotations

import math

import torch
from torch.nn import functional

from mien.train.geometry import looked, views
from mien.train.occlusion.canvas import (
    Layer,
    Site,
    box,
    convex,
    edge,
    light,
    lit,
    opaque,
    oval,
    paints,
    shaded,
    spread,
)


def leaves(site: Site) -> Layer:
    """Draw some leaves or petals, each with a vein, one over the other."""
    dice, n, size = site.dice, len(site), site.size
    colour = torch.zeros(n, 3, size, size, device=dice.device)
    alpha = torch.zeros(n, size, size, device=dice.device)
    tint = torch.where(
        dice.chance(0.7, n)[:, None] > 0,
        dice.between(0.25, 1, n, 1) * site.skin.new_tensor([0.35, 0.6, 0.22]),
        paints(dice, n),
    )
    towards, cluster = light(dice, n), dice.normal(0.8, n, 2)
    long = dice.between(0.25, 0.9, n)
    for _ in range(6):
        middle = cluster + dice.normal(0.7, n, 2) + site.skin.new_tensor([0, 0.5])
        u, v, pixel = site.turned(middle, dice.between(0, 2 * math.pi, n), long)
        bow = spread(dice.between(0.25, 0.8, n))
        u = u + spread(dice.normal(0.2, n)) * v.square()
        # two circles meet at the tips (0, -1) and (0, 1)
        reach = (1 + bow.square()) / (2 * bow)
        distance = torch.hypot(u.abs() + reach - bow, v) - reach
        vein = torch.exp(-(u / 0.03).square()) + 0.5 * torch.exp(
            -(((v * 7 + u.abs() * 5) % 1 - 0.5) / 0.07).square()
        )
        shade = lit(0.12 * (u.abs() * 4).sin() + 0.1 * v, pixel, towards)
        own = tint * dice.between(0.7, 1.25, n, 1) * (1 + dice.normal(0.08, n, 3))
        drawn = shaded(own, shade, 0.4) * (1 + 0.18 * vein)[:, None]
        here = edge(distance, pixel) * spread(dice.chance(0.75, n))
        colour = colour + here[:, None] * (drawn - colour)
        alpha = torch.maximum(alpha, here)
    return Layer(colour.clamp(0, 1), alpha[:, None], alpha[:, None])


def writing(site: Site) -> Layer:
    """Draw lines of letter-like signs over the picture, as subtitles and stickers have them."""
    dice, n = site.dice, len(site)
    middle = torch.stack([dice.normal(0.5, n), dice.between(-0.8, 1.9, n)], dim=1)
    u, v, _ = site.turned(middle, dice.normal(0.12, n), dice.between(0.25, 0.6, n))
    cells = dice.chance(0.5, n, 4, 16, 7, 5)
    cells[:, :, :, :, 4] = 0  # between letters
    cells[:, :, :, 6] = 0  # between lines
    cells = cells * dice.chance(0.85, n, 4, 16, 1, 1)  # between words
    row, column = (v * 7 + 7 * 2).floor().long(), (u * 6 + 5 * 8).floor().long()
    lines = dice.picks(3, n)[:, None, None] + 1
    inside = (row >= 0) & (row < 7 * lines) & (column >= 0) & (column < 5 * 16)
    row, column = row.clamp(0, 27), column.clamp(0, 79)
    index = ((row // 7 * 16 + column // 5) * 7 + row % 7) * 5 + column % 5
    ink = cells.flatten(1).gather(1, index.flatten(1)).view_as(u) * inside
    ink = functional.avg_pool2d(ink[:, None], 3, stride=1, padding=1)[:, 0]
    ink = ((ink - 0.35) * 6).clamp(0, 1)
    rim = functional.max_pool2d(ink[:, None], 3, stride=1, padding=1)[:, 0]
    letters = torch.where(dice.chance(0.5, n)[:, None] > 0, 0.9 + 0 * site.skin, paints(dice, n))
    bordered = spread(dice.chance(0.6, n))
    alpha = bordered * rim + (1 - bordered) * ink
    dark = (1 - letters) * 0.15
    plate = spread(dice.chance(0.2, n)) * inside.float()
    colour = dark[:, :, None, None] + ink[:, None] * (letters - dark)[:, :, None, None]
    alpha = torch.maximum(alpha, plate)[:, None]
    return Layer(colour.clamp(0, 1), alpha, alpha)


def patch(site: Site) -> Layer:
    """Lay a piece of another picture before the face: a blob, a box, an oval or a polygon."""
    dice, n, size = site.dice, len(site), site.size
    middle = torch.stack([dice.normal(0.8, n), dice.between(-0.8, 2.0, n)], dim=1)
    u, v, pixel = site.turned(middle, dice.between(0, math.pi, n), dice.between(0.4, 1.3, n))
    tall = spread(dice.between(0.4, 1.2, n))
    one = torch.ones_like(tall)
    blob = torch.hypot(u, v / tall) - 0.75 + 0.28 * dice.cloud(n, size, 5)
    around = torch.linspace(0, 2 * math.pi, 8, device=dice.device)[:-1]
    around = around + dice.normal(0.25, n, 1)
    corners = torch.stack([around.cos(), around.sin()], dim=2) * dice.between(0.7, 1.1, n, 1, 1)
    shapes = torch.stack(
        [blob, box(u, v, (one, tall), 0.05), oval(u, v, (one, tall)), convex(u, v, corners)]
    )
    kind = dice.picks(4, n)
    distance = shapes[kind, torch.arange(n, device=dice.device)]
    mirror = (2 * dice.picks(2, n) - 1).float()
    view = views(
        dice.between(-3, 3, n), dice.between(0.25, 0.9, n), dice.normal(0.25, n, 2), mirror
    )
    seen = looked(site.scraps, view, size, mode="bilinear", padding="reflection")
    swell = (-distance).clamp(0, 0.4) * 0.8 * spread(dice.between(0, 1, n))
    shade = lit(swell, pixel, light(dice, n))
    gain = dice.between(0.6, 1.3, n)[:, None, None, None]
    return opaque(shaded(seen * gain, shade, 0.45), distance, pixel)
