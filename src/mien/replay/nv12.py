"""From the samples that a GPU decodes to, NV12, to RGB, with the clip's own matrix and range.

The decoder could convert, too, but it does not say with which matrix and range, nor where it takes
chroma to lie. The formulas are those of ``media.clip.yuv420``.
"""

from __future__ import annotations

from torch import Tensor

from mien.media.clip import Look
from mien.media.clip.yuv420 import Yuv420


class Nv12:
    """Converts frames of one look: 8 bits, 4:2:0, of even width and height."""

    def __init__(self, look: Look) -> None:
        self.height, self.width = look.height, look.width
        self._rgb = Yuv420(look.colour, look.siting, look.width, look.height)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of a frame's samples: luma, and below it chroma."""
        return self.height * 3 // 2, self.width

    def __call__(self, samples: Tensor) -> Tensor:
        """Return RGB, uint8 (H, W, 3), of ``samples``, uint8 (3 H / 2, W); on their device.

        Rows of chroma are Cb, Cr, Cb, Cr and so on. The result is new memory.
        """
        chroma = samples[self.height :].unflatten(1, (self.width // 2, 2))
        planes = self._rgb(samples[: self.height], *chroma.unbind(dim=2))
        return planes.permute(1, 2, 0).contiguous()
