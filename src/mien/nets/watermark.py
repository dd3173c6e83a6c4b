"""The watermark networks: one hides bits in a picture's brightness, the other reads them.

After HiDDeN (Zhu et al. 2018), with the residual laid on pictures of any size as VideoSeal and
TrustMark do it (Fernandez et al. 2024, Bui et al. 2023). The encoder works on a picture shrunk to
S x S, folded into channels, with separable convolutions (Howard et al. 2017): it runs beside every
frame. How far it may change a pixel is no matter of learning: a map of what is just noticeable
bounds the residual, and so does a floor of PSNR. What is learned is what to do within the bounds.

Both begin with patterns, one for each bit, which are added up and correlated with: from nothing but
chance, bits are learnt late or never. What a picture needs, and what is left of a mark that was
cropped, turned or coded, is learned on top of that.

Only brightness is changed: colour is kept at half the side, or less well, by every codec.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from mien.nets.blocks import ConvNorm, Residual

LUMA = (0.299, 0.587, 0.114)
"""Brightness of red, green and blue (ITU-R BT.601)."""

FLAT, SLOPE, BOUND = 0.65, 0.4, 8.0
"""Codes of 255 that a pixel may change on flat parts; how many more for each code of deviation
about it; and at most."""

BRIGHTNESS = 0.5
"""How much more may be changed in black and white than in grey (Chou & Li 1995, simplified)."""

WINDOW = 5
"""Pixels of S across which deviation is measured."""

WIDE = 9
"""Pixels of S across which means are taken from what is correlated with patterns."""

LEAST = 2.0
"""Codes that a picture deviates at least, where it is made even."""

SPREAD = 0.6
"""Root mean square of the patterns' sum to begin with, which a tanh bounds."""

CANCELLED = 3.0
"""How much of what a picture itself says of the bits is taken away to begin with: more than once,
since a pattern arrives weaker than it is written."""

MARGIN = 1.5
"""How clearly each bit is to be read, in what a pattern of weight 1 says of itself."""

PILOT = 0.25
"""Root mean square to begin with of the pattern that says nothing but that there is a mark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkShape:
    """The size of both networks."""

    size: int = 256
    """Side S of pictures for them; a multiple of 32."""

    bits: int = 127
    fold: int = 8
    """Pixels by pixels that the encoder folds into channels; divides S."""

    width: int = 96
    """Channels of the encoder."""

    depth: int = 5
    """Its residual blocks."""

    placed: int = 8
    """Channels of bits that have places, on a grid of 8 x 8."""

    cell: int = 4
    """Pixels by pixels of a cell of the patterns that bits are first written with; divides S."""

    widths: tuple[int, int, int, int, int] = (32, 64, 128, 192, 256)
    """Channels of the decoder at a half of the side down to a thirty-second."""

    rounds: int = 1
    """How often the encoder reads its own mark and writes louder what would not be read."""

    gain: float = 2.0
    """By how much the bounds of what is noticeable are multiplied."""

    floor: float = 42.5
    """PSNR in dB that a marked picture has at least."""

    def __post_init__(self) -> None:
        if self.size % 32 or self.size % self.fold:
            raise ValueError(f"size must be a multiple of 32 and of fold, not {self.size}")


WATERMARK_256 = WatermarkShape()
"""The default networks."""


class _Mean(nn.Module):
    """The mean of each pixel's neighbours in a square, as far as they lie in the picture."""

    box: Tensor
    share: Tensor

    def __init__(self, size: int, window: int) -> None:
        super().__init__()
        self.around = window // 2
        box = torch.full((1, 1, window, window), 1 / window**2)
        share = functional.conv2d(torch.ones(1, 1, size, size), box, padding=self.around)
        self.register_buffer("box", box, persistent=False)
        self.register_buffer("share", 1 / share, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        mean: Tensor = functional.conv2d(x, self.box, padding=self.around) * self.share
        return mean


class Noticeable(nn.Module):
    """Says how far pixels may change unseen, in codes of 255.

    Takes brightness, float (N, 1, S, S) in [-1, 1]; returns float (N, 1, S, S) from FLAT to BOUND.
    Texture hides much; an edge next to a flat part hides little, so the least deviation of a
    neighbourhood counts: the just-noticeable differences of Chou & Li (1995), simplified.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.mean = _Mean(size, WINDOW)

    def forward(self, y: Tensor) -> Tensor:
        """Return the bounds."""
        mean = self.mean(y)
        # means go first: fast convolutions are too coarse for a difference of two squares
        apart = y - mean
        deviation = (self.mean(apart * apart) + 1e-8).pow(0.5)
        least = functional.max_pool2d(deviation * -1.0, 2 * WINDOW - 1, 1, WINDOW - 1) * -1.0
        masked = FLAT + (SLOPE * 127.5) * least
        bounds: Tensor = (masked * (1 + BRIGHTNESS * mean * mean)).clamp(0.0, BOUND)
        return bounds


def brightness(pictures: Tensor) -> Tensor:
    """Return the brightness (N, 1, H, W) of RGB pictures (N, 3, H, W), in their range."""
    red, green, blue = LUMA
    return pictures[:, :1] * red + pictures[:, 1:2] * green + pictures[:, 2:] * blue


class _Cells(nn.Module):
    """What is correlated with patterns: the means of cells of a picture that is made even.

    Takes brightness (N, 1, S, S) in [-1, 1]. Of it the neighbourhood's mean is taken away, and what
    is left is divided by the neighbourhood's deviation, so that edges and textures, which are a
    hundred times as strong as marks, speak no louder than flat parts. Returns the divided picture
    and one over the divisor, (N, 1, S, S) each, and the cells (N, K).
    """

    box: Tensor

    def __init__(self, shape: WatermarkShape) -> None:
        super().__init__()
        self.cell = shape.cell
        self.mean = _Mean(shape.size, WIDE)
        box = torch.full((1, 1, shape.cell, shape.cell), 1 / shape.cell**2)
        self.register_buffer("box", box, persistent=False)

    def forward(self, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        apart = y - self.mean(y)
        inverse = (self.mean(apart * apart) + (LEAST / 127.5) ** 2).pow(-0.5)
        even = (apart * inverse).clamp(-3.0, 3.0)
        return even, inverse, functional.conv2d(even, self.box, stride=self.cell).flatten(1)


class Encoder(nn.Module):
    """Says how to change a picture so that it carries bits.

    Takes pictures, float (N, 3, S, S) in [-1, 1], RGB, and bits, float (N, B) of -1 and 1. Returns
    the residual (N, 1, S, S) in codes of 255, to be enlarged to the picture's own size and added
    to all three channels. Whatever the weights, it keeps to the bounds of ``Noticeable`` times
    ``gain`` and to ``floor`` dB.
    """

    def __init__(self, shape: WatermarkShape = WATERMARK_256) -> None:
        super().__init__()
        self.shape = shape
        width = shape.width
        self.noticeable = Noticeable(shape.size)
        self.stem = nn.Conv2d(shape.fold**2, width, 1)
        self.everywhere = nn.Linear(shape.bits, width)
        self.placed = nn.Linear(shape.bits, shape.placed * 64)
        self.join = nn.Conv2d(width + shape.placed, width, 1)
        self.blocks = nn.Sequential(*(_Separable(width) for _ in range(shape.depth)))
        self.out = nn.Conv2d(width, shape.fold**2, 3, padding=1)
        self.cells = shape.size // shape.cell
        self.pattern = nn.Linear(shape.bits, self.cells**2)
        nn.init.normal_(self.pattern.weight, std=SPREAD * shape.bits**-0.5)
        nn.init.normal_(self.pattern.bias, std=PILOT)
        self.seen = _Cells(shape)
        self.own = nn.Linear(self.cells**2, shape.bits, bias=False)
        # a pattern's correlation with itself, were it seen as it is written
        alike = self.cells**2 * SPREAD**2 / shape.bits
        with torch.no_grad():
            weight = self.pattern.weight.T * (CANCELLED / alike)
            self.own.weight.copy_(weight)

    def forward(
        self, pictures: Tensor, bits: Tensor, gain: Tensor | None = None, most: Tensor | None = None
    ) -> Tensor:
        """Return the residual (N, 1, S, S).

        ``gain`` and ``most``, tensors of one number, stand for the shape's gain and for the
        greatest root mean square, in codes, that its floor comes to: training changes them.
        """
        shape = self.shape
        limit = root_mean_square(shape.floor) if most is None else most
        loud = shape.gain if gain is None else gain
        with torch.autocast(pictures.device.type, enabled=False):
            y = brightness(pictures.float())
            bound = self.noticeable(y)
            # how loud patterns will be: as the bounds are, or as the floor lets them
            square = (bound * bound).mean(dim=(1, 2, 3)) * SPREAD**2
            strength = (loud - functional.relu(loud - square.pow(-0.5) * limit)).unsqueeze(1)
            _, inverse, cells = self.seen(y)
            strength = strength * (bound * inverse).mean(dim=(2, 3)) / 127.5
            own = (self.own(cells) / strength).clamp(-2.0, 2.0)
        grid = shape.size // shape.fold
        x = self.stem(functional.pixel_unshuffle(y, shape.fold))
        placed = self.placed(bits).view(-1, shape.placed, 8, 8)
        placed = functional.interpolate(placed, (grid, grid), mode="bilinear", align_corners=False)
        x = self.join(torch.cat([x + self.everywhere(bits)[:, :, None, None], placed], dim=1))
        x = functional.pixel_shuffle(self.out(self.blocks(x)), shape.fold)
        # spread spectrum to begin with (Cox et al. 1997): each bit has a pattern, which is added;
        # and what the picture itself says of the bit is taken away (Malvar & Florencio 2003)
        weights = bits - own
        residual = self._bounded(x, weights, bound * loud, limit)
        for _ in range(shape.rounds):
            # bounds have bent the patterns: bits that would not be read well are written louder
            with torch.autocast(pictures.device.type, enabled=False):
                said = self.own(self.seen(y + residual / 127.5)[2]) / strength
            weights = weights + bits * functional.relu(MARGIN - bits * said)
            residual = self._bounded(x, weights.clamp(-6.0, 6.0), bound * loud, limit)
        return residual

    def _bounded(self, x: Tensor, weights: Tensor, bound: Tensor, limit: Tensor | float) -> Tensor:
        """Return the residual of what was learnt and of patterns with weights (N, B)."""
        pattern = self.pattern(weights).view(-1, 1, self.cells, self.cells)
        pattern = functional.interpolate(
            pattern, (self.shape.size, self.shape.size), mode="bilinear", align_corners=False
        )
        residual = torch.tanh((x + pattern).float()) * bound
        square = (residual * residual).mean(dim=(2, 3), keepdim=True) + 1e-6
        within: Tensor = residual * (square.pow(-0.5) * limit).clamp(0.0, 1.0)
        return within


def root_mean_square(floor: float) -> float:
    """Return the root mean square in codes of 255 that a PSNR of ``floor`` dB comes to."""
    return float(255 * 10 ** (-floor / 20))


class Decoder(nn.Module):
    """Reads bits from pictures.

    Takes pictures, float (N, 3, S, S) in [-1, 1], RGB: whole ones, resized to S x S. Returns logits
    (N, B + 1): of the bits, and last of whether there is a mark at all.
    """

    def __init__(self, shape: WatermarkShape = WATERMARK_256) -> None:
        super().__init__()
        self.shape = shape
        widths = shape.widths
        self.stem = ConvNorm(8, widths[0])
        stages: list[nn.Module] = [Residual(widths[0])]
        for before, width, count in zip(widths, widths[1:], (2, 2, 2, 1), strict=False):
            stages.append(ConvNorm(before, width, stride=2))
            stages.extend(Residual(width) for _ in range(count))
        self.stages = nn.Sequential(*stages)
        self.narrow = nn.Conv2d(widths[-1], 16, 1)
        self.whole = nn.Linear(widths[-1], shape.bits + 1)
        # bits may be read anywhere, from what all places agree on, or each at its place
        self.places = nn.Linear(16 * (shape.size // 32) ** 2, shape.bits + 1, bias=False)
        self.seen = _Cells(shape)
        self.patterns = nn.Linear((shape.size // shape.cell) ** 2, shape.bits + 1, bias=False)

    def match(self, encoder: Encoder) -> None:
        """Begin with an encoder's patterns: correlation with them tells its bits, and a mark."""
        with torch.no_grad():
            self.patterns.weight[:-1] = encoder.pattern.weight.T
            self.patterns.weight[-1] = encoder.pattern.bias / (PILOT * encoder.cells)

    def forward(self, pictures: Tensor) -> Tensor:
        """Return the logits (N, B + 1)."""
        with torch.autocast(pictures.device.type, enabled=False):
            y = brightness(pictures.float())
            even, _, cells = self.seen(y)
        x = functional.pixel_unshuffle(torch.cat([y, even], dim=1), 2)
        x = self.stages(self.stem(x))
        mean = x.mean(dim=(2, 3))
        matched: Tensor = self.patterns(cells)
        logits: Tensor = matched + self.whole(mean) + self.places(self.narrow(x).flatten(1))
        return logits


class _Separable(nn.Module):
    """Adds what a depthwise and two pointwise convolutions say (5 x 5 and 1 x 1)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depth = nn.Conv2d(channels, channels, 5, padding=2, groups=channels)
        self.first = nn.Conv2d(channels, channels, 1)
        self.second = nn.Conv2d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = self.second(functional.relu(self.first(self.depth(x))))
        return x + added
