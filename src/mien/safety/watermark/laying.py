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
"""Rows that are changed at a time on a CPU: what is worked on stays in the cache."""

Small = Callable[[int, int], Tensor]
"""Returns the brightness of a picture, resized to a height and width, float32 in codes of 255."""


class Change:
    """What a mark changes in a frame: at SIDE, and enlarged where it is asked for."""

    def __init__(self, residual: Tensor, height: int, width: int) -> None:
        """``residual`` is float32 (h, w) in codes, for a frame of ``height`` and ``width``."""
        self.shape = height, width
        rows, columns = residual.shape
        shrinks = height < rows or width < columns
        # along rows now; along columns for the rows that are asked for, as pictures may be huge
        self._lines = functional.interpolate(
            residual[None, None],
            (height if shrinks else rows, width),
            mode="bilinear",
            antialias=shrinks,
            align_corners=False,
        )[0, 0]
        self._whole: Tensor | None = None

    def rows(self, first: int, last: int) -> Tensor:
        """Return what to add to brightness in rows ``first`` to ``last`` - 1, int16 (n, width)."""
        known = len(self._lines)
        step = known / self.shape[0]
        at = torch.arange(first, last, device=self._lines.device, dtype=torch.float32)
        at = ((at + 0.5) * step - 0.5).clamp_(0, known - 1)
        above = at.long()
        share = (at - above)[:, None]
        lines = self._lines.index_select(0, above)
        below = self._lines.index_select(0, (above + 1).clamp_max(known - 1))
        return lines.lerp_(below, share).round_().to(torch.int16)

    @property
    def whole(self) -> Tensor:
        """The same of all rows, kept."""
        if self._whole is None:
            height = self.shape[0]
            band = BAND if self._lines.device.type == "cpu" else height
            self._whole = self._lines.new_empty(self.shape, dtype=torch.int16)
            for first in range(0, height, band):
                last = min(first + band, height)
                self._whole[first:last] = self.rows(first, last)
        return self._whole


class Marker:
    """Says what to change in a picture, or in the frames of one clip, to lay one mark on it."""

    def __init__(self, identifier: int, *, every: int = 1, bold: float = 1.0) -> None:
        """Make one for the 48 bits of an identifier.

        ``bold`` is by how much a change may pass what is just noticeable in a picture that is
        looked at at leisure; see ``nets.watermark.residual``.

        The change of a frame is used for the ``every`` - 1 frames after it too, while they are of
        its size: the picture hides it less well where something moves, and no computing is needed.
        """
        word = torch.from_numpy(code.write(identifier)).float() * 2 - 1
        self._tile = composed(chips(), word[None])
        self._every, self._used, self._bold = every, 0, bold
        self._change: Change | None = None

    @torch.inference_mode()
    def __call__(self, small: Small, height: int, width: int) -> Change:
        """Return what to change in a frame of a size.

        ``small`` is asked for its brightness, unless the change is that of the frame before.
        """
        change = self._change
        if change is None or self._used >= self._every or change.shape != (height, width):
            change = self._change = self._computed(small, height, width)
            self._used = 0
        self._used += 1
        return change

    def _computed(self, small: Small, height: int, width: int) -> Change:
        y = small(*size_of(height, width))
        self._tile = self._tile.to(y.device)
        change = residual(y[None, None], self._tile, bold=self._bold)
        return Change(change[0, 0], height, width)


def marked(pixels: Tensor, marker: Marker) -> Tensor:
    """Return a picture, uint8 or uint16 (H, W, C), with a mark; it stays as it is.

    C is 1 for gray, 3 for RGB and 4 for CMYK, where more is darker; black ink stays.
    """
    height, width, channels = pixels.shape
    colours = min(channels, 3)
    deep = pixels.dtype != torch.uint8
    unit = (257 if deep else 1) * (-1 if channels == 4 else 1)
    change = marker(lambda rows, columns: shrunk(pixels, rows, columns), height, width)
    made = pixels.clone()
    band = BAND if pixels.device.type == "cpu" else height
    for first in range(0, height, band):
        last = min(first + band, height)
        by = change.rows(first, last)
        by = (by.to(torch.int32) if deep else by) * unit
        every = by[..., None].expand(-1, -1, colours).contiguous()  # adds in one go
        part = made[first:last, :, :colours]
        part.copy_(every.add_(part.to(by.dtype)).clamp_(0, 65535 if deep else 255))
    return made


def shrunk(pixels: Tensor, rows: int, columns: int) -> Tensor:
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
