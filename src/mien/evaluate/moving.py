"""Clips whose motion is known: portraits that move before a background, with a camera's noise.

What a tracker and a filter are measured with: the truth is where the picture was put.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import cos, radians, sin
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from mien.geometry import invert, sample
from mien.types import Frame

HEAD = (0.51, 0.44, 0.31, 0.42)
"""Centre and half axes of the ellipse that is cut out around a head, by the portrait's side."""

SOFT = 0.03
"""Width of the ellipse's soft edge by its half axes."""

BACKGROUND = 12
"""Cells across the background, a gray and soft pattern."""


class Place(NamedTuple):
    """Where the middle of an actor's picture is, in pixels, and how it lies there."""

    x: float
    y: float
    scale: float = 1.0
    roll: float = 0.0
    """Degrees, positive clockwise."""

    opacity: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Actor:
    """A picture that moves."""

    pixels: Tensor
    """uint8 (h, w, 3), about as large as it is shown."""

    path: Callable[[float], Place | None]
    """Where it is at a time in seconds; None if it is not there."""

    head: bool = True
    """Whether only the head of the portrait is shown, in an ellipse; else all of it."""

    opacity: Tensor | None = None
    """float32 (h, w) in [0, 1]: how opaque the picture is; it takes the place of the ellipse."""

    def matrix(self, seconds: float) -> Tensor:
        """Return the similarity, float32 (2, 3), from the picture's pixels to the frame's."""
        place = self.path(seconds)
        assert place is not None
        c, s = (place.scale * f(radians(place.roll)) for f in (cos, sin))
        linear = torch.tensor([[c, -s], [s, c]], dtype=torch.float64)
        middle = torch.tensor([self.pixels.shape[1] - 1, self.pixels.shape[0] - 1]).double() / 2
        shift = torch.tensor([place.x, place.y], dtype=torch.float64) - linear @ middle
        return torch.cat([linear, shift[:, None]], dim=1).float()

    def layer(self) -> Tensor:
        """Return its colours, codes multiplied by the opacity, and that, float32 (1, 4, h, w)."""
        height, width = self.pixels.shape[:2]
        opacity = torch.ones(1, 1, height, width)
        if self.opacity is not None:
            opacity = self.opacity[None, None]
        elif self.head:
            x0, y0, a, b = HEAD
            x = (torch.arange(width) / width - x0) / a
            y = (torch.arange(height)[:, None] / height - y0) / b
            opacity = ((1 - (x.square() + y.square()).sqrt()) / SOFT).clamp(0, 1)[None, None]
        planes = self.pixels.permute(2, 0, 1)[None].float()
        return torch.cat([planes * opacity, opacity], dim=1)


def actor(portrait: Tensor, side: int, path: Callable[[float], Place | None]) -> Actor:
    """Return the head of a square ``portrait``, uint8 (H, H, 3), as ``side`` pixels show it."""
    planes = portrait.permute(2, 0, 1)[None].float()
    small = functional.interpolate(planes, (side, side), mode="bilinear", antialias=True)
    return Actor(small[0].round().clamp(0, 255).to(torch.uint8).permute(1, 2, 0), path)


def times(seconds: float, rate: float) -> list[Fraction]:
    """Return the times of the frames of a clip at a constant ``rate`` per second."""
    step = 1 / Fraction(rate).limit_denominator(1001)
    return [i * step for i in range(round(seconds * rate))]


def play(
    actors: Sequence[Actor],
    moments: Sequence[Fraction],
    *,
    size: tuple[int, int] = (360, 640),
    noise: float = 0.0,
    seed: int = 0,
    light: Callable[[float], float] = lambda _: 1.0,
) -> Iterator[Frame]:
    """Yield a frame, uint8 of ``size`` (H, W), for each time; later actors stand in front.

    ``noise`` is the standard deviation of the sensor's noise in codes of 255, fresh in each frame;
    ``seed`` decides it and the background. ``light`` multiplies the codes, at a time.
    """
    random = torch.Generator().manual_seed(seed)
    cells = 90 + 40 * torch.rand(
        1, 1, BACKGROUND * size[0] // size[1], BACKGROUND, generator=random
    )
    backdrop = functional.interpolate(cells, size, mode="bicubic").expand(-1, 3, -1, -1)
    for time in moments:
        picture = backdrop.clone()
        for each in actors:
            place = each.path(float(time))
            if place is not None:
                grid = invert(each.matrix(float(time)))
                shown = sample(each.layer(), grid, *size, outside="zeros")
                opacity = shown[:, 3:] * place.opacity
                picture = picture * (1 - opacity) + shown[:, :3] * place.opacity
        picture = picture * light(float(time))
        picture = picture + noise * torch.randn(picture.shape, generator=random)
        pixels = picture[0].permute(1, 2, 0).round().clamp(0, 255).to(torch.uint8)
        yield Frame(pixels.contiguous(), time=time)
