"""Hair before faces: fringes, curtains at the sides, locks, and single strands."""

from __future__ import annotations

import torch
from torch import Tensor

from mien.train.occlusion.canvas import Dice, Layer, Site, edge, line_noise, spread

LOCKS, STRANDS = 10, 9


def tones(dice: Dice, rows: int) -> Tensor:
    """Return colours of hair (rows, 3): mostly black and brown, also fair, red, grey, dyed."""
    named = [
        (0.05, 0.045, 0.04), (0.09, 0.07, 0.06), (0.16, 0.10, 0.07), (0.25, 0.16, 0.10),
        (0.38, 0.25, 0.15), (0.62, 0.48, 0.32), (0.45, 0.20, 0.10), (0.55, 0.55, 0.55),
    ]  # fmt: skip
    tone = torch.tensor(named, device=dice.device)[dice.picks(len(named), rows)]
    dyed = dice.chance(0.06, rows)[:, None] * dice.between(0, 1, rows, 3)
    return (tone * dice.between(0.7, 1.4, rows, 1) + 0.6 * dyed).clamp(0.02, 0.95)


def hair(site: Site) -> Layer:
    """Draw locks: a fringe over the brow, hair that hangs at the sides, or a lock across."""
    dice, n = site.dice, len(site)
    roots, way, length, thick = _styles(site)
    u, v = site.u[:, None] - spread(roots[..., 0]), site.v[:, None] - spread(roots[..., 1])
    cos, sin = spread(way.cos()), spread(way.sin())
    along, across = u * sin + v * cos, u * cos - v * sin
    bend = spread(dice.normal(0.10, n, 1) + dice.normal(0.05, n, LOCKS))
    wave = spread(dice.between(0, 0.05, n, 1)) * (along * spread(dice.between(2, 6, n, 1))).sin()
    across = across - bend * along.square() - wave
    long, wide = spread(length), spread(thick)
    table = dice.normal(1, n, 257)
    shift = spread(dice.between(0, 200, n, LOCKS))
    fine = spread(dice.between(14, 40, n, 1))
    streak = line_noise(table, across * fine + shift + 0.4 * along)
    ragged = line_noise(table, across * fine * 0.4 + shift * 1.7)
    ends = long * (1 + 0.22 * ragged)
    shape = (1 - (along / ends).clamp(0, 1) ** 2).sqrt() * wide * (1 + 0.10 * streak)
    pixel = site.pixel[:, None]
    body = edge(across.abs() - shape, 1.5 * pixel) * edge(along - ends, 2 * pixel)
    body = body * (along > -0.8)
    # towards edges and tips single hairs part and skin shows between them
    loose = (across.abs() / shape.clamp_min(1e-3)) ** 3 + 0.6 * (along / ends).clamp(0, 1) ** 3
    alpha = body * (1.9 - 1.5 * loose * (0.9 - streak).clamp(0, 2)).clamp(0, 1)
    gloss = torch.exp(-((along - 0.45 * long) / (0.25 * long)).square())
    gloss = gloss * spread(dice.between(0, 0.5, n, 1))
    round_ = (1 - (across / wide.clamp_min(1e-3)).square()).clamp(0, 1)
    value = (0.55 + 0.28 * streak + 0.35 * round_).clamp(0.15, 2) + gloss * (0.6 + 0.5 * streak)
    tone = tones(dice, n)
    shown = torch.zeros_like(alpha[:, 0])
    bright = torch.zeros_like(shown)
    for lock in range(LOCKS):
        bright = bright + alpha[:, lock] * (value[:, lock] - bright)
        shown = torch.maximum(shown, alpha[:, lock])
    colour = tone[:, :, None, None] * bright[:, None] + 0.05 * (bright - 0.8).clamp(0, 1)[:, None]
    return Layer(colour.clamp(0, 1), shown[:, None], shown[:, None])


def strands(site: Site) -> Layer:
    """Draw single strands, some thinner than a pixel: these do not count as before the face."""
    dice, n = site.dice, len(site)
    roots = torch.stack([dice.normal(0.9, n, STRANDS), dice.between(-1.5, -0.2, n, STRANDS)], dim=2)
    way = dice.normal(0.35, n, 1) + dice.normal(0.25, n, STRANDS)
    u, v = site.u[:, None] - spread(roots[..., 0]), site.v[:, None] - spread(roots[..., 1])
    cos, sin = spread(way.cos()), spread(way.sin())
    along, across = u * sin + v * cos, u * cos - v * sin
    bend, turn = spread(dice.normal(0.18, n, STRANDS)), spread(dice.normal(0.04, n, STRANDS))
    slope = 2 * bend * along + 3 * turn * along.square()
    away = (across - bend * along.square() - turn * along**3).abs() / (1 + slope.square()).sqrt()
    long = spread(dice.between(0.6, 2.6, n, STRANDS))
    thick = spread(dice.between(0.008, 0.035, n, STRANDS))
    thick = thick * (1 - (along / long).clamp(0, 1)).sqrt()
    pixel = site.pixel[:, None]
    # what a line thinner than a pixel takes of it is its width
    alpha = edge(away - thick, pixel) * (2 * thick / pixel).clamp(0, 1)
    alpha = (alpha * (along > 0) * (along < long)).amax(dim=1)
    tone = tones(dice, n)[:, :, None, None] * (1 + 0.3 * dice.cloud(n, site.size, 12))[:, None]
    hides = ((alpha - 0.4) / 0.2).clamp(0, 1)[:, None]
    return Layer(tone.clamp(0, 1), alpha[:, None], hides)


def _styles(site: Site) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return roots (n, K, 2), directions from straight down, lengths and half widths (n, K)."""
    dice, n = site.dice, len(site)
    style = dice.picks(3, n)[:, None]
    rank = torch.linspace(-1, 1, LOCKS, device=dice.device).expand(n, LOCKS)
    side = (2 * dice.picks(2, n) - 1).float()[:, None]
    both = torch.where(rank < 0, -1.0, 1.0)
    # fringe: side by side along the hairline
    fringe_u = rank * dice.between(0.8, 1.3, n, 1) + dice.normal(0.1, n, LOCKS)
    fringe = (
        fringe_u,
        dice.between(-1.5, -1.0, n, 1) + 0.25 * fringe_u.square(),
        dice.normal(0.35, n, 1) + 0.12 * rank + dice.normal(0.12, n, LOCKS),
        dice.between(0.3, 1.3, n, 1) * dice.between(0.7, 1.2, n, LOCKS),
        dice.between(0.16, 0.34, n, LOCKS),
    )
    # curtains: at one side or both, hanging
    sides = torch.where(dice.chance(0.5, n, 1) > 0, both, side)
    curtain = (
        sides * (dice.between(0.75, 1.15, n, 1) + dice.normal(0.12, n, LOCKS)),
        dice.between(-1.4, -0.9, n, LOCKS),
        sides * dice.normal(0.12, n, 1) + dice.normal(0.06, n, LOCKS),
        dice.between(1.2, 4.0, n, 1) * dice.between(0.8, 1.1, n, LOCKS),
        dice.between(0.14, 0.3, n, LOCKS),
    )
    # a lock: close together, across the face
    lock_u, lock_v = dice.normal(0.9, n, 1), dice.between(-1.6, -0.6, n, 1)
    few = (rank < dice.between(-0.7, 0.2, n, 1)).float()
    lock = (
        lock_u + dice.normal(0.12, n, LOCKS),
        lock_v + dice.normal(0.1, n, LOCKS),
        -0.5 * lock_u + dice.normal(0.2, n, 1) + dice.normal(0.08, n, LOCKS),
        few * dice.between(0.8, 3.0, n, 1) + 1e-3,
        dice.between(0.05, 0.16, n, LOCKS),
    )
    chosen = [
        torch.where(style == 0, a, torch.where(style == 1, b, c))
        for a, b, c in zip(fringe, curtain, lock, strict=True)
    ]
    return torch.stack(chosen[:2], dim=2), chosen[2], chosen[3], chosen[4]
