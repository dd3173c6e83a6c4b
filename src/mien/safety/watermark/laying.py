"""A watermark on whole pictures: shrink, ask the network, enlarge, add; and the way back.

Networks are anything that is called like ``mien.nets.watermark.Encoder`` and ``Decoder``: modules,
or engines with files of theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from mien.safety.watermark import code

BAND = 64
"""Rows that are changed at a time on a CPU."""

Encode = Callable[[Tensor, Tensor], Tensor]
Decode = Callable[[Tensor], Tensor]


def shrunk(pixels: Tensor, size: int) -> Tensor:
    """Return a picture, uint8 (H, W, 3), as networks take it: float32 (1, 3, S, S) in [-1, 1]."""
    planes = pixels.permute(2, 0, 1)[None]
    if planes.is_cuda or max(pixels.shape[:2]) < size:
        planes = planes.float()  # bytes are resized on a CPU only
    small = functional.interpolate(
        planes, (size, size), mode="bilinear", align_corners=False, antialias=True
    )
    return small.float().div_(127.5).sub_(1)


def enlarged(residual: Tensor, height: int, width: int) -> Tensor:
    """Return a residual (1, 1, S, S) in codes as changes of all samples, int16 (H, W, 3)."""
    planes = functional.interpolate(residual, (height, width), mode="bilinear", align_corners=False)
    change = planes[0, 0].round_().to(torch.int16)
    # spelt out: to add one plane to three interleaved ones takes ten times as long on a CPU
    return torch.stack([change, change, change], dim=2)


def added(pixels: Tensor, change: Tensor) -> Tensor:
    """Return a picture, uint8 (H, W, 3), with changes, int16 (H, W, 3), added to it."""
    result = torch.empty_like(pixels)
    # on a CPU a band at a time: what is worked on stays in the cache
    for old, by, new in zip(*(x.split(_band(x)) for x in (pixels, change, result)), strict=True):
        new.copy_(old.to(torch.int16).add_(by).clamp_(0, 255))
    return result


def _band(x: Tensor) -> int:
    return max(1, len(x)) if x.is_cuda else BAND


def laid(pixels: Tensor, residual: Tensor) -> Tensor:
    """Return a picture, uint8 (H, W, 3), with a residual (1, 1, S, S) in codes added to it.

    The residual is enlarged to the picture, whatever its shape, and rounded once.
    """
    return added(pixels, enlarged(residual, *pixels.shape[:2]))


class Marker:
    """Lays a mark on pictures: on frames of a clip, in order, the same in all of them."""

    def __init__(self, encode: Encode, identifier: int, size: int, *, every: int = 1) -> None:
        """Make one for the 48 bits of an identifier.

        The residual of a frame is used for the ``every`` - 1 frames after it too, while they are of
        its size: the picture hides it less well where something moves, and no computing is needed.
        """
        bits = torch.from_numpy(code.write(identifier)).float()[None] * 2 - 1
        self._encode, self._bits, self._size, self._every = encode, bits, size, every
        self._change: Tensor | None = None
        self._used = 0

    def __call__(self, pixels: Tensor) -> Tensor:
        """Return a frame, uint8 (H, W, 3), with the mark."""
        change = self._change
        if change is None or self._used >= self._every or change.shape != pixels.shape:
            residual = self._encode(shrunk(pixels, self._size), self._bits.to(pixels.device))
            change = self._change = enlarged(residual, *pixels.shape[:2])
            self._used = 0
        self._used += 1
        return added(pixels, change)


def voted(logits: Iterable[Tensor]) -> Tensor:
    """Return logits (B,) that frames with logits (B + 1,) agree on.

    Each frame votes with its logits as they are, by how sure the network is that it has a mark.
    Frames of one mark only: marks of two clips that were joined would be added up.
    """
    rows = torch.stack(list(logits)).float()
    votes = rows[:, :-1] * torch.sigmoid(rows[:, -1:])
    return votes.sum(dim=0)


def read(decode: Decode, frames: Iterable[Tensor], size: int) -> code.Found | None:
    """Return the mark in a picture, or in frames of a clip, uint8 (H, W, 3); None if none is."""
    logits = [decode(shrunk(pixels, size))[0].cpu() for pixels in frames]
    if not logits:
        return None
    return code.read(np.asarray(voted(logits).numpy(), dtype=np.float64))
