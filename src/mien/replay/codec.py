"""Pixel formats whose numbers lie on the device, so that nothing is copied there frame by frame."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mien.models.contracts import PixelFormat


class Codec(nn.Module):
    """Does what ``PixelFormat.encode`` and ``decode`` do."""

    gain: Tensor
    shift: Tensor

    def __init__(self, pixels: PixelFormat) -> None:
        super().__init__()
        self._flipped, self._last = pixels.order == "BGR", pixels.layout == "NHWC"
        mean, std = torch.tensor(pixels.mean), torch.tensor(pixels.std)
        spread = pixels.high - pixels.low
        self.register_buffer("gain", (spread / std)[:, None, None])
        self.register_buffer("shift", ((pixels.low - mean) / std)[:, None, None])

    def encode(self, pixels: Tensor) -> Tensor:
        """Return RGB (N, 3, H, W) in [0, 1] as the network wants it, float32."""
        values = torch.addcmul(self.shift, pixels, self.gain)
        if self._flipped:
            values = values.flip(1)
        return values.permute(0, 2, 3, 1) if self._last else values

    def decode(self, values: Tensor) -> Tensor:
        """Return a picture of this format as RGB (N, 3, H, W), nominally in [0, 1], unclamped."""
        if self._last:
            values = values.permute(0, 3, 1, 2)
        if self._flipped:
            values = values.flip(1)
        return (values - self.shift) / self.gain
