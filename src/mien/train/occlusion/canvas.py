"""What occluders are drawn with: places on faces, chance, shapes as distance fields, light.

Everything is drawn for n faces at once. Places (u, v) are those of the face: the origin lies
between the eyes, u runs along them to the right, v down the face, and the unit is the distance
between the eyes. The mouth is then near v = 1.1, the chin near 1.9, the temples near u = 1.
Distances are negative inside a shape.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

LEFT_CORNERS, RIGHT_CORNERS = (33, 133), (362, 263)
"""Corners of the eyes in the mesh."""


class Dice:
    """Random numbers on a device, the same for the same seed."""

    def __init__(self, seed: int, device: torch.device) -> None:
        self.device = device
        self._generator = torch.Generator(device).manual_seed(seed)

    def between(self, low: float, high: float, *shape: int) -> Tensor:
        """Return numbers spread evenly from ``low`` to ``high``."""
        return low + (high - low) * torch.rand(
            *shape, generator=self._generator, device=self.device
        )

    def normal(self, spread: float, *shape: int) -> Tensor:
        """Return normal numbers about 0."""
        return spread * torch.randn(*shape, generator=self._generator, device=self.device)

    def chance(self, share: float, *shape: int) -> Tensor:
        """Return ones and zeros, float; ``share`` of them are ones."""
        return (self.between(0, 1, *shape) < share).float()

    def picks(self, count: int, *shape: int) -> Tensor:
        """Return whole numbers from 0 to ``count`` - 1."""
        return torch.randint(count, shape, generator=self._generator, device=self.device)

    def rows(self, shares: Tensor, count: int) -> Tensor:
        """Return ``count`` row numbers, each row as often as its share says."""
        return torch.multinomial(shares, count, True, generator=self._generator)

    def cloud(self, rows: int, size: int, cells: int) -> Tensor:
        """Return smooth noise (rows, size, size), about 0 with a spread of about 1."""
        grid = self.normal(1.2, rows, 1, cells + 2, cells + 2)
        side = (size, size)
        return functional.interpolate(grid, side, mode="bicubic", align_corners=True)[:, 0]


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """n faces to draw on."""

    u: Tensor
    """float32 (n, S, S): where pixels lie."""

    v: Tensor
    mesh: Tensor
    """float32 (n, 468, 2): the face mesh, as (u, v)."""

    pixel: Tensor
    """float32 (n, 1, 1): how wide a pixel is."""

    skin: Tensor
    """float32 (n, 3) in [0, 1]: the face's own skin."""

    other: Tensor
    """float32 (n, 3): somebody else's skin."""

    scraps: Tensor
    """float32 (n, 3, S, S) in [0, 1]: other pictures."""

    dice: Dice

    def __len__(self) -> int:
        return len(self.skin)

    @property
    def size(self) -> int:
        """Side S of the crops."""
        return self.u.shape[-1]

    def rows(self, rows: Tensor) -> Site:
        """Return the faces of some rows, numbers (k,)."""
        return Site(
            u=self.u[rows],
            v=self.v[rows],
            mesh=self.mesh[rows],
            pixel=self.pixel[rows],
            skin=self.skin[rows],
            other=self.other[rows],
            scraps=self.scraps[rows],
            dice=self.dice,
        )

    def turned(self, middle: Tensor, angle: Tensor, scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return where pixels lie to things at ``middle`` (n, 2), turned and enlarged (n,).

        Two maps (n, S, S) and the width of a pixel, (n, 1, 1).
        """
        u, v = self.u - spread(middle[:, 0]), self.v - spread(middle[:, 1])
        cos, sin, scale = spread(angle.cos()), spread(angle.sin()), spread(scale)
        return (u * cos + v * sin) / scale, (v * cos - u * sin) / scale, self.pixel / scale


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """Something drawn before n faces."""

    colour: Tensor
    """float32 (n, 3, S, S) in [0, 1]."""

    alpha: Tensor
    """float32 (n, 1, S, S) in [0, 1]: how much of the picture it takes."""

    hides: Tensor
    """float32 (n, 1, S, S) in [0, 1]: how far it counts as before the face.

    Less than ``alpha`` where a face is seen through it, as through clear lenses."""


def opaque(colour: Tensor, distance: Tensor, pixel: Tensor) -> Layer:
    """Return a layer of a shape, ``distance`` (n, S, S), in ``colour`` (n, 3, S, S)."""
    alpha = edge(distance, pixel)[:, None]
    return Layer(colour.clamp(0, 1), alpha, alpha)


def edge(distance: Tensor, pixel: Tensor) -> Tensor:
    """Return 1 inside, 0 outside, and between over the width of a pixel."""
    return (0.5 - distance / pixel).clamp(0, 1)


def spread(values: Tensor) -> Tensor:
    """Return numbers (n,) or (n, K) so that they go with maps (n, S, S) or (n, K, S, S)."""
    return values[..., None, None]


def eye_corners(mesh: Tensor) -> tuple[Tensor, Tensor]:
    """Return outer and inner corner of the left and the right eye as seen, two of (n, 2, 2)."""
    left, right = mesh[:, list(LEFT_CORNERS)], mesh[:, list(RIGHT_CORNERS)].flip(1)
    mirrored = (left[:, :, 0].mean(dim=1) > right[:, :, 0].mean(dim=1))[:, None, None]
    return torch.where(mirrored, right, left), torch.where(mirrored, left, right)


# Shapes


def capsules(
    u: Tensor, v: Tensor, ends: tuple[Tensor, Tensor], radii: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return how far pixels are from the axes of capsules, how far along, and the radius there.

    ``u`` and ``v`` are (n, S, S); ends (n, K, 2) and radii (n, K) make three maps (n, K, S, S).
    """
    (a, b), (thick, thin) = ends, radii
    along = (b - a)[..., None, None]
    from_u, from_v = u[:, None] - a[:, :, 0, None, None], v[:, None] - a[:, :, 1, None, None]
    length = along.square().sum(dim=2).clamp_min(1e-6)
    t = ((from_u * along[:, :, 0] + from_v * along[:, :, 1]) / length).clamp(0, 1)
    away = torch.hypot(from_u - t * along[:, :, 0], from_v - t * along[:, :, 1])
    start = thick[..., None, None]
    return away, t, start + t * (thin[..., None, None] - start)


def box(u: Tensor, v: Tensor, half: tuple[Tensor, Tensor], corner: Tensor | float) -> Tensor:
    """Return the distance from boxes of half sides ``half`` with round corners."""
    across, down = u.abs() - half[0] + corner, v.abs() - half[1] + corner
    outside = torch.hypot(across.clamp_min(0), down.clamp_min(0))
    return outside + torch.maximum(across, down).clamp_max(0) - corner


def oval(u: Tensor, v: Tensor, half: tuple[Tensor, Tensor], power: Tensor | float = 2.0) -> Tensor:
    """Return about the distance from ovals; a greater ``power`` makes them squarer."""
    a, b = half
    across, down = (u / a).abs().clamp_min(1e-4), (v / b).abs().clamp_min(1e-4)
    inside = (across**power + down**power) ** (1 / power)
    slope = (across ** (power - 1) / a).square() + (down ** (power - 1) / b).square()
    return (inside - 1) * inside.clamp_min(1e-3) ** (power - 1) / slope.sqrt().clamp_min(1e-3)


def convex(u: Tensor, v: Tensor, corners: Tensor) -> Tensor:
    """Return the distance from convex polygons (n, K, 2), given in either sense."""
    after = corners.roll(-1, dims=1)
    area = (corners[..., 0] * after[..., 1] - corners[..., 1] * after[..., 0]).sum(dim=1)
    side = functional.normalize(after - corners, dim=2)
    far = side[..., 0, None, None] * (v[:, None] - corners[..., 1, None, None])
    far = far - side[..., 1, None, None] * (u[:, None] - corners[..., 0, None, None])
    return -(far * area.sign()[:, None, None, None]).amin(dim=1)


def line_noise(table: Tensor, at: Tensor) -> Tensor:
    """Return smooth noise of one coordinate: ``table`` (n, M) looked up at ``at`` (n, ...)."""
    count = table.shape[1]
    low = at.floor()
    part = at - low
    part = part * part * (3 - 2 * part)
    index = low.long().flatten(1) % count
    first = table.gather(1, index).view_as(at)
    second = table.gather(1, (index + 1) % count).view_as(at)
    return first + part * (second - first)


# Light


def light(dice: Dice, rows: int) -> Tensor:
    """Return directions (rows, 3) towards a light, mostly from above and before the face."""
    way = torch.stack(
        [dice.normal(0.6, rows), dice.normal(0.4, rows) - 0.4, dice.between(0.5, 1.2, rows)], dim=1
    )
    return functional.normalize(way, dim=1)


def lit(height: Tensor, pixel: Tensor, towards: Tensor) -> Tensor:
    """Return how much light a relief (n, S, S) gets, about 0 to 1 (Lambert, half wrapped)."""
    framed = functional.pad(height[:, None], (1, 1, 1, 1), mode="replicate")[:, 0]
    across = (framed[:, 1:-1, 2:] - framed[:, 1:-1, :-2]) / (2 * pixel)
    down = (framed[:, 2:, 1:-1] - framed[:, :-2, 1:-1]) / (2 * pixel)
    x, y, z = (spread(part) for part in towards.unbind(dim=1))
    facing = (z - across * x - down * y) / (1 + across.square() + down.square()).sqrt()
    return ((facing + 0.35) / 1.35).clamp(0, 1)


def shaded(colour: Tensor, shade: Tensor, dark: Tensor | float = 0.35) -> Tensor:
    """Return ``colour``, (n, 3) or (n, 3, S, S), in a light (n, S, S); ``dark`` is left of none."""
    if colour.ndim == 2:
        colour = colour[:, :, None, None]
    return colour * (dark + (1.15 - dark) * shade[:, None])


def paints(dice: Dice, rows: int) -> Tensor:
    """Return colours (rows, 3) of things: black, white, grey, muted and bright ones."""
    value = dice.between(0.03, 0.95, rows, 1)
    kind = dice.picks(4, rows)[:, None]
    value = torch.where(kind == 0, value * 0.2, torch.where(kind == 1, 0.75 + 0.2 * value, value))
    hue = dice.between(0, 1, rows, 3)
    strength = torch.where(kind == 3, dice.between(0.4, 1, rows, 1), 0.12 * hue[:, :1])
    return (value * (1 - strength) + hue * strength).clamp(0.02, 0.97)
