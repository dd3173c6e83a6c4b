"""From samples of 8 bits and 4:2:0 to RGB, on the device where they lie.

FFmpeg's scaler works on the CPU only. These are the formulas of H.273, as in ``convert``, from
which it differs by a code here and there.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mien.media.clip.colour import Colour, Siting


class Yuv420:
    """Converts frames of one size and colour: 8 bits, 4:2:0."""

    def __init__(self, colour: Colour, siting: Siting, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._on_column = siting in ("left", "topleft")
        self._on_row = siting == "topleft"
        red, blue = colour.weights(height)
        green = 1 - red - blue
        self._black, self._gain = (0.0, 1.0) if colour.full else (16.0, 255 / 219)
        spread = 1.0 if colour.full else 255 / 224
        self._red = 2 * (1 - red) * spread
        self._blue = 2 * (1 - blue) * spread
        self._green = -blue / green * self._blue, -red / green * self._red

    def __call__(self, luma: Tensor, blue: Tensor, red: Tensor) -> Tensor:
        """Return planes of red, green and blue, uint8 (3, H, W), in new memory.

        ``luma`` is uint8 (H, W); ``blue`` and ``red`` are chroma, uint8 of half the rows and
        columns, rounded up.
        """
        chroma = torch.stack([blue, red]).float() - 128
        chroma = _doubled(chroma, 1, on_sample=self._on_row)
        chroma = _doubled(chroma, 2, on_sample=self._on_column)
        over_blue, over_red = chroma[:, : self.height, : self.width]
        light = (luma.float() - self._black) * self._gain
        of_blue, of_red = self._green
        rgb = torch.stack(
            [
                light + self._red * over_red,
                light + of_blue * over_blue + of_red * over_red,
                light + self._blue * over_blue,
            ]
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
