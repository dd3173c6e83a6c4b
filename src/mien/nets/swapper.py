"""The swap network: a U-Net whose decoder is modulated by an identity.

The target is taken down to a sixteenth of its side by strided convolutions, so most of the work is
done at a quarter of the side and below. The bottleneck and the decoder's blocks are normalised per
picture and channel and re-scaled by the identity (adaptive instance normalisation, Huang &
Belongie 2017; its use for swapping: SimSwap, Chen et al. 2020). At each decoder level a learned
gate chooses, place by place and channel by channel, between what the identity made and what the
target had (the idea of FaceDancer's feature fusion, Rosberg et al. 2023). The picture is made by
sub-pixel convolutions (Shi et al. 2016) that start as nearest-neighbour enlargements (ICNR, Aitken
et al. 2017), which leaves no checkerboard to unlearn.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

SLOPE = 0.2
"""Slope of the leaky rectifiers for negative values."""

EPSILON = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapperShape:
    """The size of a swapper: everything its parameters' shapes depend on."""

    size: int = 256
    """Side of target and output in pixels; a multiple of 16."""

    space: int = 128
    """Dimension of the source's embedding."""

    style: int = 256
    """Dimension of the code that modulates the blocks."""

    fine: int = 32
    """Channels at half the side."""

    widths: tuple[int, int, int] = (128, 256, 320)
    """Channels at a quarter, an eighth and a sixteenth of the side."""

    middle: int = 3
    """Identity blocks at a sixteenth of the side."""

    blocks: tuple[int, int] = (2, 2)
    """Identity blocks of the decoder at a quarter and at an eighth of the side."""

    def __post_init__(self) -> None:
        if self.size % 16 or self.size < 32:
            raise ValueError(f"size must be a multiple of 16 from 32, not {self.size}")


MIEN_256 = SwapperShape()
"""The default network."""

LITE = SwapperShape(size=160, style=160, fine=24, widths=(72, 128, 208))
"""The small network, for live use on a CPU."""


class Swapper(nn.Module):
    """Gives a target another identity.

    Takes a target, float (N, 3, S, S) in [-1, 1], RGB, on the points of ``arcface_128`` scaled to
    S, and a source, float (N, 128), a unit SFace embedding. Returns a picture like the target.
    """

    def __init__(self, shape: SwapperShape = MIEN_256) -> None:
        super().__init__()
        self.shape = shape
        fine, (quarter, eighth, sixteenth), style = shape.fine, shape.widths, shape.style
        self.code = nn.Sequential(
            nn.Linear(shape.space, style), nn.LeakyReLU(SLOPE), nn.Linear(style, style)
        )
        self.down = nn.ModuleList(
            [
                _Down(3, fine, refine=False),
                _Down(fine, quarter, refine=False),
                _Down(quarter, eighth, refine=True),
                _Down(eighth, sixteenth, refine=False),
            ]
        )
        self.middle = _blocks(sixteenth, style, shape.middle)
        self.up_eighth = _Up(sixteenth, eighth, style, shape.blocks[1])
        self.up_quarter = _Up(eighth, quarter, style, shape.blocks[0])
        self.up_half = nn.Conv2d(quarter, 4 * fine, 3, padding=1)
        self.fuse = _Gate(fine)
        self.detail = nn.Conv2d(fine, fine, 3, padding=1)
        self.out = nn.Conv2d(fine, 4 * 3, 3, padding=1)
        start_as_nearest(self.up_half, factor=2)
        start_as_nearest(self.out, factor=2, gain=0.1)  # the first pictures are nearly grey

    def forward(self, target: Tensor, source: Tensor) -> Tensor:
        """Return the swapped picture, (N, 3, S, S) in [-1, 1]."""
        # the norm of an embedding says how sharp its picture was, not who it shows; at unit length
        # its numbers are about 0.09 each, too small for a linear layer's usual start
        code = functional.leaky_relu(self.code(source * source.shape[1] ** 0.5), SLOPE)
        half = self.down[0](target)
        quarter = self.down[1](half)
        eighth = self.down[2](quarter)
        x = self.down[3](eighth)
        for block in self.middle:
            x = block(x, code)
        x = self.up_eighth(x, eighth, code)
        x = self.up_quarter(x, quarter, code)
        x = functional.leaky_relu(functional.pixel_shuffle(self.up_half(x), 2), SLOPE)
        x = self.fuse(x, half)
        x = x + functional.leaky_relu(self.detail(x), SLOPE)
        return torch.tanh(functional.pixel_shuffle(self.out(x), 2))


class _Down(nn.Module):
    """Halves the side; ``refine`` adds a residual block."""

    def __init__(self, channels: int, to: int, *, refine: bool) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, to, 4, stride=2, padding=1)
        self.refine = (
            nn.Sequential(
                nn.Conv2d(to, to, 3, padding=1),
                nn.LeakyReLU(SLOPE),
                nn.Conv2d(to, to, 3, padding=1),
            )
            if refine
            else None
        )

    def forward(self, x: Tensor) -> Tensor:
        x = functional.leaky_relu(self.conv(x), SLOPE)
        return x if self.refine is None else x + self.refine(x)


class _Modulation(nn.Module):
    """Adaptive instance normalisation: each channel's mean and deviation are set by the code."""

    def __init__(self, channels: int, style: int) -> None:
        super().__init__()
        self.style = nn.Linear(style, 2 * channels)
        nn.init.normal_(self.style.weight, std=0.02)
        nn.init.zeros_(self.style.bias)

    def forward(self, x: Tensor, code: Tensor) -> Tensor:
        gain, bias = self.style(code)[:, :, None, None].chunk(2, dim=1)
        if torch.onnx.is_in_onnx_export():  # one operator of ONNX, which every runtime has tuned
            return torch.addcmul(bias, functional.instance_norm(x, eps=EPSILON), 1 + gain)
        # functional.instance_norm would leave channels-last; statistics of bfloat16 need float32
        variance, mean = torch.var_mean(x.float(), dim=(2, 3), correction=0, keepdim=True)
        scale = (1 + gain) * torch.rsqrt(variance + EPSILON)
        shift = bias - mean * scale
        return torch.addcmul(shift.to(x.dtype), x, scale.to(x.dtype))


class _Block(nn.Module):
    """A residual block modulated by the identity."""

    def __init__(self, channels: int, style: int) -> None:
        super().__init__()
        # a bias would be taken away by the normalisation
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.modulate_first = _Modulation(channels, style)
        self.modulate_second = _Modulation(channels, style)

    def forward(self, x: Tensor, code: Tensor) -> Tensor:
        y = functional.leaky_relu(self.modulate_first(self.first(x), code), SLOPE)
        change: Tensor = self.modulate_second(self.second(y), code)
        return x + change


class _Gate(nn.Module):
    """Chooses between two maps, place by place and channel by channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.skip = nn.Conv2d(channels, channels, 1)
        self.choice = nn.Conv2d(2 * channels, channels, 1)
        # at first three quarters come from the identity: a target let through is the lazy way out
        nn.init.normal_(self.choice.weight, std=0.02)
        assert self.choice.bias is not None
        nn.init.constant_(self.choice.bias, 1.0)

    def forward(self, made: Tensor, target: Tensor) -> Tensor:
        target = self.skip(target)
        chosen = torch.sigmoid(self.choice(torch.cat([made, target], dim=1)))
        return target + chosen * (made - target)


class _Up(nn.Module):
    """Doubles the side, takes in the target's features, and applies identity blocks."""

    def __init__(self, channels: int, to: int, style: int, blocks: int) -> None:
        super().__init__()
        # before the enlargement a convolution costs a quarter
        self.conv = nn.Conv2d(channels, to, 3, padding=1, bias=False)
        self.modulate = _Modulation(to, style)
        self.gate = _Gate(to)
        self.blocks = _blocks(to, style, blocks)

    def forward(self, x: Tensor, target: Tensor, code: Tensor) -> Tensor:
        x = self.modulate(self.conv(x), code)
        x = functional.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)
        x = functional.leaky_relu(self.gate(x, target), SLOPE)
        for block in self.blocks:
            x = block(x, code)
        return x


def _blocks(channels: int, style: int, count: int) -> nn.ModuleList:
    return nn.ModuleList([_Block(channels, style) for _ in range(count)])


def start_as_nearest(conv: nn.Conv2d, factor: int, gain: float = 1.0) -> None:
    """Set ``conv`` so that with a pixel shuffle by ``factor`` it repeats pixels (ICNR)."""
    with torch.no_grad():
        kernel = torch.empty_like(conv.weight[:: factor**2])
        nn.init.kaiming_normal_(kernel, a=SLOPE)
        conv.weight.copy_(gain * kernel.repeat_interleave(factor**2, dim=0))
        if conv.bias is not None:
            conv.bias.zero_()
