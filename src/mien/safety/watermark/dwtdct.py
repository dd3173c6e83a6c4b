"""A watermark without learning, to compare with: quantised cosine coefficients of a wavelet band.

As is common (Al-Haj 2007): the low band of a Haar wavelet of brightness is cut into blocks of
8 x 8, of whose cosine transform low coefficients are quantised so that they say a bit (quantisation
index modulation, Chen & Wornell 2001). Each bit is said by many blocks, which vote. To be as hard
to beat as it can be it works, like the networks, on pictures resized to one size, so that mere
resizing does not lose the places of the blocks; and with the same code and the same PSNR. For
comparison only: nothing else uses it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from mien.nets.watermark import brightness
from mien.safety.watermark import code

SIZE, BLOCK = 512, 8

USED = ((0, 1), (1, 0), (1, 1))
"""Coefficients of a block that are quantised."""


def step(floor: float) -> float:
    """Return the step of quantisation that costs a PSNR of ``floor`` dB.

    An error is spread evenly over a step, and its square is a twelfth of the step's on average.
    Transforms keep squares: a block's go to the 2 x 8 by 2 x 8 pixels below it.
    """
    return 255 * 10 ** (-floor / 20) * math.sqrt(12 * (2 * BLOCK) ** 2 / len(USED))


class DwtDct:
    """Hides and reads bits; called like the networks, with pictures of SIZE."""

    def __init__(self, floor: float = 42.5) -> None:
        self.step = step(floor)
        place = torch.arange(BLOCK, dtype=torch.float32)
        basis = torch.cos((2 * place + 1) * place[:, None] * (math.pi / (2 * BLOCK))) / 2
        basis[0] *= math.sqrt(0.5)
        self._basis = basis
        count = (SIZE // 2 // BLOCK) ** 2
        order = torch.randperm(count, generator=torch.Generator().manual_seed(1))
        self._bit = torch.arange(count)[order] % code.BITS
        """Which bit each block says."""

    def encode(self, pictures: Tensor, bits: Tensor) -> Tensor:
        """Return residuals (n, 1, S, S) in codes for pictures in [-1, 1] and bits of -1 and 1."""
        coefficients = self._coefficients(pictures)
        wanted = (bits[:, self._bit] > 0).float()[..., None] / 2
        values = self._used(coefficients)
        # ones lie halfway between zeros
        nearest = ((values / self.step - wanted).round() + wanted) * self.step
        change = torch.zeros_like(coefficients)
        for i, (row, column) in enumerate(USED):
            change[..., row, column] = (nearest - values)[..., i]
        side = SIZE // 2 // BLOCK
        cut = (self._basis.T @ change @ self._basis).view(-1, side, side, BLOCK, BLOCK)
        low = cut.transpose(2, 3).reshape(-1, 1, SIZE // 2, SIZE // 2)
        return low.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3) / 2

    def decode(self, pictures: Tensor) -> Tensor:
        """Return logits (n, B) of pictures in [-1, 1]."""
        values = self._used(self._coefficients(pictures)) / self.step
        # 1 where a value says zero, -1 where it says one
        says = torch.cos(2 * math.pi * values).sum(dim=2)
        return torch.zeros(len(pictures), code.BITS).index_add_(1, self._bit, -says)

    def laid(self, pixels: Tensor, bits: Tensor) -> Tensor:
        """Return a picture, uint8 (H, W, 3), with bits (1, B) of -1 and 1."""
        change = functional.interpolate(
            self.encode(_shrunk(pixels), bits), pixels.shape[:2], mode="bilinear"
        )
        return (pixels + change[0, 0, :, :, None].round()).clamp(0, 255).to(torch.uint8)

    def said(self, pixels: Tensor) -> Tensor:
        """Return the logits (B,) of a picture, uint8 (H, W, 3)."""
        return self.decode(_shrunk(pixels))[0]

    def _coefficients(self, pictures: Tensor) -> Tensor:
        """Return the transforms (n, K, 8, 8) of the low band's K blocks."""
        y = (brightness(pictures) + 1) * 127.5
        low = (y[..., ::2, ::2] + y[..., 1::2, ::2] + y[..., ::2, 1::2] + y[..., 1::2, 1::2]) / 2
        side = SIZE // 2 // BLOCK
        cut = low.reshape(-1, side, BLOCK, side, BLOCK).transpose(2, 3)
        return self._basis @ cut.reshape(len(pictures), -1, BLOCK, BLOCK) @ self._basis.T

    @staticmethod
    def _used(coefficients: Tensor) -> Tensor:
        return torch.stack([coefficients[..., row, column] for row, column in USED], dim=2)


def _shrunk(pixels: Tensor) -> Tensor:
    planes = pixels.permute(2, 0, 1)[None].float()
    small = functional.interpolate(planes, (SIZE, SIZE), mode="bilinear", antialias=True)
    return small / 127.5 - 1
