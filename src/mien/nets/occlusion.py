"""The occlusion network: which pixels of an aligned face show it, and which what is before it.

A U-Net (Ronneberger et al. 2015) small enough to run beside every swap. The crop is folded two by
two into channels, so nothing is computed at the full side, and the map is unfolded likewise at the
end (sub-pixel convolution, Shi et al. 2016). At the bottom the mean over the whole crop is added
to each place: what skin looks like on this face, and in this light, is known to all of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True, slots=True, kw_only=True)
class OcclusionShape:
    """The size of an occlusion network."""

    size: int = 128
    """Side of the crop in pixels; a multiple of 16."""

    widths: tuple[int, int, int, int] = (24, 40, 72, 112)
    """Channels at a half, a quarter, an eighth and a sixteenth of the side."""

    def __post_init__(self) -> None:
        if self.size % 16 or self.size < 32:
            raise ValueError(f"size must be a multiple of 16 from 32, not {self.size}")


OCCLUSION_128 = OcclusionShape()
"""The default network."""


class OcclusionNet(nn.Module):
    """Says where an aligned face is visible.

    Takes crops, float (N, 3, S, S) in [-1, 1], RGB, on the points of ``arcface_128`` scaled to S.
    Returns logits (N, 1, S, S): positive where the face is seen, negative where something is
    before it and where there is no face.
    """

    def __init__(self, shape: OcclusionShape = OCCLUSION_128) -> None:
        super().__init__()
        self.shape = shape
        half, quarter, eighth, sixteenth = shape.widths
        self.stem = _Conv(12, half)
        self.down_quarter = nn.Sequential(_Conv(half, quarter, stride=2), _Residual(quarter))
        self.down_eighth = nn.Sequential(_Conv(quarter, eighth, stride=2), _Residual(eighth))
        self.down_sixteenth = nn.Sequential(
            _Conv(eighth, sixteenth, stride=2), _Residual(sixteenth)
        )
        self.whole = nn.Conv2d(sixteenth, sixteenth, 1)
        self.bottom = _Residual(sixteenth)
        self.up_eighth = _Up(sixteenth, eighth)
        self.up_quarter = _Up(eighth, quarter)
        self.up_half = _Up(quarter, half)
        self.out = nn.Conv2d(half, 4, 3, padding=1)

    def forward(self, crops: Tensor) -> Tensor:
        """Return the logits (N, 1, S, S)."""
        half = self.stem(functional.pixel_unshuffle(crops, 2))
        quarter = self.down_quarter(half)
        eighth = self.down_eighth(quarter)
        x = self.down_sixteenth(eighth)
        x = self.bottom(x + self.whole(x.mean(dim=(2, 3), keepdim=True)))
        x = self.up_eighth(x, eighth)
        x = self.up_quarter(x, quarter)
        x = self.up_half(x, half)
        return functional.pixel_shuffle(self.out(x), 2)


class _Conv(nn.Module):
    """A convolution, batch normalisation (which an export takes into it) and a rectifier."""

    def __init__(self, channels: int, to: int, *, stride: int = 1, rectify: bool = True) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, to, 3, stride=stride, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(to)
        self.rectify = rectify

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.conv(x))
        return functional.relu(x) if self.rectify else x


class _Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = _Conv(channels, channels)
        self.second = _Conv(channels, channels, rectify=False)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(x + self.second(self.first(x)))


class _Up(nn.Module):
    """Doubles the side and takes in what was there on the way down."""

    def __init__(self, channels: int, to: int) -> None:
        super().__init__()
        self.narrow = nn.Conv2d(channels, to, 1)  # before the enlargement it costs a quarter
        self.fuse = _Conv(2 * to, to)

    def forward(self, x: Tensor, before: Tensor) -> Tensor:
        x = functional.interpolate(self.narrow(x), scale_factor=2.0, mode="nearest")
        fused: Tensor = self.fuse(torch.cat([x, before], dim=1))
        return fused
