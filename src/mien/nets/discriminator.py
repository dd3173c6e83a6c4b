"""Patch discriminators: which parts of a picture look real."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import spectral_norm

from mien.nets.swapper import SLOPE


class Discriminator(nn.Module):
    """A patch discriminator (PatchGAN, Isola et al. 2017) with spectral norm (Miyato et al. 2018).

    Takes pictures (N, 3, H, W) in [-1, 1]; returns logits (N, 1, h, w), each of which sees a patch,
    and the activations of every layer, from shallow to deep.
    """

    def __init__(self, width: int = 48, *, strides: int = 4, most: int = 8) -> None:
        """Make one with ``width`` channels in the first layer and ``most`` times that at most.

        ``strides`` layers halve the side; a last one does not.
        """
        super().__init__()
        channels = [3, *(width * min(2**i, most) for i in range(strides))]
        layers = [nn.Conv2d(a, b, 4, stride=2, padding=1) for a, b in pairwise(channels)]
        layers.append(nn.Conv2d(channels[-1], channels[-1], 3, padding=1))
        self.layers = nn.ModuleList([spectral_norm(layer) for layer in layers])
        self.head = spectral_norm(nn.Conv2d(channels[-1], 1, 3, padding=1))

    def forward(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return logits and activations."""
        seen = []
        for layer in self.layers:
            x = functional.leaky_relu(layer(x), SLOPE)
            seen.append(x)
        return self.head(x), seen
