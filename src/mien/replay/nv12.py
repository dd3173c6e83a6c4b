"""From the samples that a GPU decodes to, NV12, to RGB, with the clip's own matrix and range.

The decoder could convert, too, but it does not say with which matrix and range, nor where it takes
chroma to lie. These are the formulas of H.273, as in ``media.clip.convert``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mien.media.clip import Look


class Nv12:
    """Converts frames of one look: 8 bits, 4:2:0, of even width and height."""

    def __init__(self, look: Look) -> None:
        self.height, self.width = look.height, look.width
        self._on_column = look.siting in ("left", "topleft")
        self._on_row = look.siting == "topleft"
        red, blue = look.colour.weights(look.height)
        green = 1 - red - blue
        full = look.colour.full
        self._black, self._gain = (0.0, 1.0) if full else (16.0, 255 / 219)
        spread = 1.0 if full else 255 / 224
        self._red = 2 * (1 - red) * spread
        self._blue = 2 * (1 - blue) * spread
        self._green = -blue / green * self._blue, -red / green * self._red

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of a frame's samples: luma, and below it chroma."""
        return self.height * 3 // 2, self.width

    def __call__(self, samples: Tensor) -> Tensor:
        """Return RGB, uint8 (H, W, 3), of ``samples``, uint8 (3 H / 2, W); on their device.

        Rows of chroma are Cb, Cr, Cb, Cr and so on. The result is new memory.
        """
        luma = (samples[: self.height].float() - self._black) * self._gain
        chroma = samples[self.height :].float() - 128
        chroma = chroma.unflatten(1, (self.width // 2, 2))
        chroma = _doubled(chroma, 0, on_sample=self._on_row)
        blue, red = _doubled(chroma, 1, on_sample=self._on_column).unbind(dim=2)
        of_blue, of_red = self._green
        rgb = torch.stack(
            [
                luma + self._red * red,
                luma + of_blue * blue + of_red * red,
                luma + self._blue * blue,
            ],
            dim=2,
        )
        return rgb.add_(0.5).clamp_(0, 255).byte()


def _doubled(values: Tensor, dim: int, *, on_sample: bool) -> Tensor:
    """Return ``values`` at twice as many places along ``dim``, interpolated linearly.

    The first of two places lies on its sample, or both lie around it. Beyond the edge it goes on
    as at the edge.
    """
    count = values.shape[dim]
    after = torch.cat([values.narrow(dim, 1, count - 1), values.narrow(dim, count - 1, 1)], dim)
    if on_sample:
        pair = values, (values + after) / 2
    else:
        before = torch.cat([values.narrow(dim, 0, 1), values.narrow(dim, 0, count - 1)], dim)
        pair = torch.lerp(values, before, 0.25), torch.lerp(values, after, 0.25)
    return torch.stack(pair, dim + 1).flatten(dim, dim + 1)
