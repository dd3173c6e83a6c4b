"""Blocks that several networks are made of."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional


class ConvNorm(nn.Module):
    """A convolution, batch normalisation (which an export takes into it) and a rectifier."""

    def __init__(self, channels: int, to: int, *, stride: int = 1, rectify: bool = True) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, to, 3, stride=stride, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(to)
        self.rectify = rectify

    def forward(self, x: Tensor) -> Tensor:
        """Return features (N, to, H / stride, W / stride) of features (N, channels, H, W)."""
        x = self.norm(self.conv(x))
        return functional.relu(x) if self.rectify else x


class Residual(nn.Module):
    """Adds what two convolutions say."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = ConvNorm(channels, channels)
        self.second = ConvNorm(channels, channels, rectify=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return features of the shape of ``x``, (N, channels, H, W)."""
        return functional.relu(x + self.second(self.first(x)))
