"""Laying a watermark on pictures and frames: what it changes, and how that is added.

The change is computed at a side of 256 pixels, enlarged to the picture, rounded and added to all
channels. It is the same whatever holds the samples: bytes, 16 bits, RGB, gray, the luma of a clip.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from mien.nets.watermark import SIDE, brightness, chips, composed, residual, size_of
from mien.safety.watermark import code

BAND = 64
"""Rows that are changed at a time on a CPU."""


class Marker:
    """Says what to change in a picture, or in the frames of one clip, to lay one mark on it."""

    def __init__(self, identifier: int, *, every: int = 1) -> None:
        """Make one for the 48 bits of an identifier.

        The change of a frame is used for the ``every`` - 1 frames after it too, while they are of
        its size: the picture hides it less well where something moves, and no computing is needed.
        """
        word = torch.from_numpy(code.write(identifier)).float() * 2 - 1
        self._tile = composed(chips(), word)
        self._every, self._used = every, 0
        self._change: Tensor | None = None

    @torch.inference_mode()
    def __call__(self, small: Callable[[int, int], Tensor], height: int, width: int) -> Tensor:
        """Return what to add to the brightness of a frame, int16 (height, width), in codes of 255.

        ``small`` is asked for brightness, float32 (h, w) in codes, at a height and a width, unless
        the change is that of the frame before.
        """
        change = self._change
        if change is None or self._used >= self._every or change.shape != (height, width):
            change = self._change = self._computed(small, height, width)
            self._used = 0
        self._used += 1
        return change

    def _computed(self, small: Callable[[int, int], Tensor], height: int, width: int) -> Tensor:
        y = small(*size_of(height, width))
        self._tile = self._tile.to(y.device)
        laid = functional.interpolate(
            residual(y[None, None], self._tile),
            (height, width),
            mode="bilinear",
            antialias=min(height, width) < SIDE,
            align_corners=False,
        )
        return laid[0, 0].round_().to(torch.int16)


def marked(pixels: Tensor, marker: Marker) -> Tensor:
    """Return a picture, uint8 or uint16 (H, W, C), with a mark; it stays as it is.

    C is 1 for gray, 3 for RGB and 4 for CMYK, where more is darker; black ink stays.
    """
    height, width, channels = pixels.shape
    colours, sign = min(channels, 3), -1 if channels == 4 else 1
    deep = pixels.dtype != torch.uint8
    change = marker(lambda rows, columns: _small(pixels, rows, columns), height, width) * sign
    if deep:
        change = change.to(torch.int32) * 257
    every = change[..., None].expand(height, width, colours).contiguous()  # adds in one go
    made = pixels.clone()
    # on a CPU a band at a time: what is worked on stays in the cache
    band = height if pixels.is_cuda else BAND
    for new, by in zip(made.split(band), every.split(band), strict=True):
        part = new[..., :colours]
        part.copy_(part.to(by.dtype).add_(by).clamp_(0, 65535 if deep else 255))
    return made


def _small(pixels: Tensor, rows: int, columns: int) -> Tensor:
    """Return the brightness of a picture, resized, float32 (rows, columns) in codes of 255."""
    channels = pixels.shape[2]
    planes = pixels[..., :3].permute(2, 0, 1)[None]
    if planes.is_cuda or planes.dtype != torch.uint8 or min(pixels.shape[:2]) < SIDE:
        planes = planes.float()  # bytes are resized on a CPU only
    small = functional.interpolate(
        planes, (rows, columns), mode="bilinear", antialias=True, align_corners=False
    ).float()
    y = small[0, 0] if channels == 1 else brightness(small)[0, 0]
    y = y if pixels.dtype == torch.uint8 else y / 257
    return 255 - y if channels == 4 else y
