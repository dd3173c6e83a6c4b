"""The invisible watermark: patterns that are added to brightness, and the network that finds them.

Spread spectrum (Cox et al. 1997): each raw bit has a pattern of its own, a tile of chips of -1 and
1; tiles are added up with the bits' signs, beside a pilot that says nothing, by which a picture
that was cropped, turned or resized is put upright again. How far a pixel may change is bounded by
what is just noticeable there, and by a floor of PSNR. Nothing of that is learnt, so it costs next
to nothing, and its looks are known beforehand. What is learnt is the hard half: the ``Extractor``
says, of a picture that codecs and filters have been at, what of it is mark and what is picture.

Only brightness is changed: colour is kept at half the side, or less well, by every codec.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

LUMA = (0.299, 0.587, 0.114)
"""Brightness of red, green and blue (ITU-R BT.601)."""

SIDE = 256
"""What the shorter side of a picture is resized to, and the side of a tile, which then repeats."""

LONGEST = 8 * SIDE
"""What the longer side becomes at most: a picture of one row would else be resized to gigabytes."""

CHIPS = 128
"""Chips along the side of a tile: two pixels of SIDE each, so they outlive half the size."""

BITS = 127

PILOT = 0.25
"""Share of the pilot in the energy of the mark."""

FLAT, SLOPE, BOUND = 0.95, 1.9, 6.0
"""Codes of 255 that a pixel may change on flat parts; how many more for each code of deviation
about it; and at most."""

TANH = 0.36
"""Mean square of what the tanh in ``residual`` makes of a tile."""

GRAIN = 0.7
"""Deviation, in codes, that hides nothing: a camera's grain is finer than the chips."""

BRIGHTNESS = 0.3
"""How much more may be changed in black and white than in grey (Chou & Li 1995, simplified)."""

LIMIT = 1.95
"""Root mean square in codes that a change has at most, at SIDE: enlarging and rounding leave a
PSNR of 42 dB and more of it."""

WIDE = 9
"""Pixels of SIDE across which the extractor's picture is made even."""

LEAST = 2.0
"""Codes that a picture deviates at least, where it is made even."""


@cache
def chips() -> Tensor:
    """Return the patterns, int8 (1 + BITS, CHIPS, CHIPS) of -1 and 1, the pilot's first.

    They are bits of SHAKE-256, so that they are the same for ever.
    """
    count = (1 + BITS) * CHIPS * CHIPS
    content = hashlib.shake_256(b"mien watermark 2").digest(count // 8)
    bits = np.unpackbits(np.frombuffer(content, dtype=np.uint8))
    return torch.from_numpy(bits.astype(np.int8) * 2 - 1).view(1 + BITS, CHIPS, CHIPS)


def tiles(patterns: Tensor) -> Tensor:
    """Return patterns (N, CHIPS, CHIPS) as float32 (N, SIDE, SIDE)."""
    step = SIDE // CHIPS
    return patterns.float().repeat_interleave(step, dim=1).repeat_interleave(step, dim=2)


def brightness(pictures: Tensor) -> Tensor:
    """Return the brightness (N, 1, H, W) of RGB pictures (N, 3, H, W), in their range."""
    red, green, blue = LUMA
    return pictures[:, :1] * red + pictures[:, 1:2] * green + pictures[:, 2:] * blue


def mean(x: Tensor, window: int) -> Tensor:
    """Return the mean of each pixel's neighbours in a square, as far as they are in the picture."""
    return functional.avg_pool2d(x, window, 1, window // 2, count_include_pad=False)


def noticeable(y: Tensor) -> Tensor:
    """Return how far pixels may change unseen, in codes, of brightness (N, 1, H, W) in codes.

    Texture hides much; an edge next to a flat part hides little, so the least deviation of a
    neighbourhood counts: the just-noticeable differences of Chou & Li (1995), simplified.
    """
    middle = _mean_of_five(y)
    apart = y - middle
    deviation = (_mean_of_five(apart * apart) + 1e-3).sqrt()
    least = _least(_least(deviation, 2), 3)
    light = (middle / 127.5 - 1).square()
    return ((FLAT + SLOPE * (least - GRAIN).clamp_min(0)) * (1 + BRIGHTNESS * light)).clamp_max(
        BOUND
    )


def _mean_of_five(x: Tensor) -> Tensor:
    """Return ``mean(x, 5)``, but for rounding; avg_pool2d takes eight times as long on a CPU."""
    for dim in (2, 3):
        x = _summed(x, dim) / _summed(torch.ones_like(x[:1, :1].narrow(5 - dim, 0, 1)), dim)
    return x


def _summed(x: Tensor, dim: int) -> Tensor:
    """Return the sum of five neighbours along ``dim``, as far as they are in the picture."""
    x = functional.pad(x, (2, 2) if dim == 3 else (0, 0, 2, 2))
    count = x.shape[dim] - 4
    pairs = x.narrow(dim, 0, count + 2) + x.narrow(dim, 1, count + 2)
    return pairs.narrow(dim, 0, count) + pairs.narrow(dim, 2, count) + x.narrow(dim, 4, count)


def _least(x: Tensor, dim: int) -> Tensor:
    """Return the least of nine neighbours along ``dim``, as far as they are in the picture.

    That of two, four and eight on the way there: max_pool2d takes ten times as long on a CPU.
    """
    x = functional.pad(x, (4, 4) if dim == 3 else (0, 0, 4, 4), value=math.inf)
    for reach in (1, 2, 4, 1):
        count = x.shape[dim] - reach
        x = torch.minimum(x.narrow(dim, 0, count), x.narrow(dim, reach, count))
    return x


def composed(patterns: Tensor, words: Tensor) -> Tensor:
    """Return the tiles (N, 1, SIDE, SIDE) of words (N, BITS) of -1 and 1, of variance 1.

    ``patterns`` is what ``chips`` returns.
    """
    pilot = words.new_full((len(words), 1), math.sqrt(PILOT))
    weights = torch.cat([pilot, words * math.sqrt((1 - PILOT) / BITS)], dim=1)
    mixed = weights @ patterns.to(weights).flatten(1)
    return tiles(mixed.view(-1, CHIPS, CHIPS))[:, None]


def repeated(tile: Tensor, height: int, width: int) -> Tensor:
    """Return tiles (N, 1, SIDE, SIDE) side by side, as far as (N, 1, height, width) goes."""
    return tile.repeat(1, 1, -(-height // SIDE), -(-width // SIDE))[..., :height, :width]


def residual(y: Tensor, tile: Tensor, *, bold: float = 1.0, loud: Tensor | float = 1.0) -> Tensor:
    """Return by how much to change brightness, float32 (N, 1, H, W) in codes.

    ``y`` is brightness in codes, the shorter side SIDE, and ``tile`` what ``composed`` returns, one
    for each row. Whatever the picture, the change keeps to
    ``noticeable`` times ``bold`` and to LIMIT; both times ``loud``, which is for training.
    """
    pattern = torch.tanh(repeated(tile, *y.shape[-2:]) * 0.9)
    bound = noticeable(y) * bold
    return pattern * torch.minimum(bound, _cap(bound)) * loud


def _cap(bound: Tensor) -> Tensor:
    """Return what to cap bounds (N, 1, H, W) at, (N, 1, 1, 1), so that a change keeps to LIMIT.

    To weaken a change everywhere would take the mark from the flat parts, where it is read best.
    """
    seen = bound[..., ::4, ::4]
    low = torch.zeros_like(seen[..., :1, :1])
    high = torch.full_like(low, BOUND)
    for _ in range(8):
        middle = (low + high) / 2
        strength = torch.minimum(seen, middle).square().mean(dim=(-2, -1), keepdim=True)
        less = strength <= LIMIT**2 / TANH
        low, high = torch.where(less, middle, low), torch.where(less, high, middle)
    return low


def size_of(height: int, width: int) -> tuple[int, int]:
    """Return the height and width at which a picture is marked and looked at."""
    scale = SIDE / min(height, width)
    rows, columns = (min(max(round(side * scale), SIDE), LONGEST) for side in (height, width))
    return rows, columns


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractorShape:
    """The size of an extractor."""

    width: int = 64
    """Channels, at half the side."""

    reach: tuple[int, ...] = (1, 2, 4, 1, 2, 4, 1)
    """The steps between taps, block by block: how far it looks about."""


class Extractor(nn.Module):
    """Says what of a picture is mark.

    Takes brightness, float (N, 1, H, W) in codes about 0 (-128 to 127), the shorter side near SIDE;
    sides are even. Returns its best guess of the tile there, float (N, 1, H, W), of variance 1 at
    most: the surer, the larger. It looks the same way everywhere, so crops are nothing to it; turns
    and sizes it has seen.
    """

    def __init__(self, shape: ExtractorShape | None = None) -> None:
        super().__init__()
        self.shape = shape = shape or ExtractorShape()
        self.stem = nn.Conv2d(2, shape.width, 6, stride=2, padding=2)
        self.blocks = nn.Sequential(*(_Block(shape.width, step) for step in shape.reach))
        self.out = nn.Conv2d(shape.width, 4, 3, padding=1)

    def forward(self, y: Tensor) -> Tensor:
        """Return the guess."""
        apart = y - mean(y, WIDE)
        inverse = (mean(apart * apart, WIDE) + LEAST**2).rsqrt()
        even = (apart * inverse).clamp(-3.0, 3.0)
        x = self.out(self.blocks(self.stem(torch.cat([y / 64, even], dim=1))))
        found: Tensor = functional.pixel_shuffle(x, 2)
        return found


class _Block(nn.Module):
    """Adds what two convolutions say; little to begin with, so that no norm is needed."""

    def __init__(self, channels: int, step: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=step, dilation=step)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        with torch.no_grad():
            self.second.weight.mul_(0.2)

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = self.second(
            functional.leaky_relu(self.first(functional.leaky_relu(x, 0.1)), 0.1)
        )
        return x + added
