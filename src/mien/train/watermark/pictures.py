"""Whole pictures to learn from, made of packs of faces and of what is drawn.

Packs hold small crops of faces only. A watermark has to work on anything: so a quarter of the rows
are mosaics of several crops, a quarter are faces before drawn skies, and an eighth are drawn whole:
skies, gradients, flat colours and lines like those of writing. Flat parts are where marks are seen
first and where they last least.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from mien.train.geometry import looked
from mien.train.occlusion.canvas import Dice

PARTS = 8


class Pictures:
    """Draws batches from ``pixels``, uint8 (n, 3, P, P), RGB."""

    def __init__(self, pixels: Tensor, side: int, dice: Dice) -> None:
        self.pixels, self.side, self.dice = pixels, side, dice

    def __call__(self, count: int) -> Tensor:
        """Return ``count`` pictures, float32 (count, 3, side, side) in [0, 1]."""
        if count % PARTS:
            raise ValueError(f"a batch is a multiple of {PARTS}, not {count}")
        eighth = count // PARTS
        made = torch.cat(
            [
                self.close(3 * eighth, self.side, 0.45, 1.0),
                self.mosaic(2 * eighth),
                self.before(2 * eighth),
                self.drawn(eighth),
            ]
        )
        # parts of a batch are damaged each in its way: what they show must be any of these
        order = self.dice.between(0, 1, count).argsort()
        return made[order].clamp(0, 1)

    def close(self, count: int, side: int, least: float, most: float) -> Tensor:
        """Return views of faces that show from ``least`` to ``most`` of their sides."""
        dice = self.dice
        rows = dice.picks(len(self.pixels), count)
        share = dice.between(least, most, count, 2)
        share = share * torch.exp(dice.between(-0.15, 0.15, count, 2))  # other pixel shapes too
        share = share.clamp_max(1)
        at = dice.between(-1, 1, count, 2) * (1 - share)
        mirror = 1 - 2 * dice.chance(0.5, count)
        zero = torch.zeros_like(mirror)
        view = [share[:, 0] * mirror, zero, at[:, 0], zero, share[:, 1], at[:, 1]]
        return looked(
            self.pixels[rows].float() / 255,
            torch.stack(view, dim=1).view(-1, 2, 3),
            side,
            mode="bilinear",
            padding="border",
        )

    def mosaic(self, count: int) -> Tensor:
        """Return four views each, and some of them many more, side by side."""
        half = self.side // 2
        four = self.close(4 * count, half, 0.3, 1.0).view(4, count, 3, half, half)
        rows = [torch.cat([four[i], four[i + 1]], dim=3) for i in (0, 2)]
        whole = torch.cat(rows, dim=2)
        # half as large, four times: smaller things than faces in crops
        few = functional.interpolate(
            whole, (half, half), mode="bilinear", align_corners=False, antialias=True
        )
        many = torch.cat([few, few.flip(3)], dim=3)
        many = torch.cat([many, many.roll(1, 0).flip(2)], dim=2)
        return torch.where(self.dice.chance(0.3, count)[:, None, None, None] > 0, many, whole)

    def before(self, count: int) -> Tensor:
        """Return faces, softly cut out, before what is drawn."""
        dice, side = self.dice, self.side
        u, v = self._places()
        middle, radius = dice.between(0.25, 0.75, 2, count, 1, 1), dice.between(0.2, 0.5, count)
        radius = radius[:, None, None]
        away = ((u - middle[0]).square() + (v - middle[1]).square()).sqrt() / radius
        alpha = ((1 - away) * radius * side / 8).clamp(0, 1)[:, None]
        view = torch.zeros(count, 2, 3, device=u.device)
        view[:, 0, 0] = view[:, 1, 1] = 0.5 / radius[:, 0, 0]
        view[:, :, 2] = (1 - 2 * middle[:, :, 0, 0].T) * view[:, 0, 0, None]
        faces = looked(
            self.close(count, side, 0.7, 1), view, side, mode="bilinear", padding="border"
        )
        return torch.lerp(self.drawn(count), faces, alpha)

    def drawn(self, count: int) -> Tensor:
        """Return skies, gradients, flat colours, and writing on some of them."""
        dice, side = self.dice, self.side
        u, v = self._places()
        grey, colour = dice.between(0, 1, 3, count, 1, 1, 1), dice.between(0, 1, 3, count, 3, 1, 1)
        top, low, ink = torch.lerp(grey, colour, 0.6 * dice.between(0, 1, 3, count, 1, 1, 1))
        low = torch.where(dice.chance(0.3, count, 1, 1, 1) > 0, top, low)  # flat
        slant = dice.between(-1, 1, count, 1, 1)
        at = (v + slant * (u - 0.5)).clamp(0, 1)[:, None]
        base = torch.lerp(top, low, at * dice.between(0.1, 0.7, count, 1, 1, 1))
        clouds = dice.cloud(count, side, 4) + 0.5 * dice.cloud(count, side, 11)
        clouds = (clouds * 0.4).clamp(0, 1) * dice.between(0, 0.6, count, 1, 1)
        base = base + clouds[:, None] * dice.chance(0.4, count, 1, 1, 1) * (0.95 - base)
        # words: runs of bars in lines
        lines, across = dice.between(8, 30, 2, count, 1, 1)
        row = v * lines
        cells = dice.between(0, 1, count, 1, 64, 256)
        grid = torch.stack([u * across / 32 * 2 - 1, row.floor() / 32 - 1], dim=3)
        bars = functional.grid_sample(cells, grid, mode="nearest", align_corners=False)[:, 0]
        written = (bars > 0.45) & ((row - row.floor() - 0.5).abs() < 0.28)
        written = written.float() * dice.chance(0.25, count, 1, 1)
        base = torch.lerp(base, ink.expand_as(base), written[:, None])
        grain = dice.normal(1, count, 1, side, side) * dice.between(0, 0.015, count, 1, 1, 1)
        return base + grain * dice.chance(0.6, count, 1, 1, 1)

    def _places(self) -> tuple[Tensor, Tensor]:
        """Return where pixels lie, across and down, (1, S, S) each in [0, 1]."""
        line = (torch.arange(self.side, device=self.pixels.device) + 0.5) / self.side
        return line.expand(1, self.side, -1), line[:, None].expand(1, -1, self.side)
