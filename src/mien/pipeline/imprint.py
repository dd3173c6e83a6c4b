"""Imprint: what goes into pixels that are about to be written, and into no others.

This is the one place where pixels get marks, for pictures and for clips: whoever writes something
in which a face was swapped takes its pixels through an Imprint, last of all. Pixels in memory stay
without: what they promise is that nothing outside of the faces has changed.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mien.media import Picture
from mien.media.clip import StoredFrame
from mien.media.lettering import check_letters, lettering
from mien.safety.label import Label
from mien.types import Frame, Rectangle

log = logging.getLogger(__name__)

PLATE = 0.7
"""How dark the plate behind the letters is: white on it is to be read on white paper too."""


@dataclass(frozen=True, slots=True)
class Imprint:
    """The marks in the pixels of what one swapper writes.

    Without a ``label`` it returns all that it is given as it is. Raises InvalidOption for a text
    that cannot be drawn.
    """

    label: Label | None = None
    """What is to be seen; None for nothing."""

    def __post_init__(self) -> None:
        if self.label is not None:
            check_letters(self.label.text)

    def __bool__(self) -> bool:
        return self.label is not None

    def report(self) -> dict[str, str] | None:
        """Return what is to be seen, ready for JSON; None if nothing is."""
        return None if self.label is None else self.label.report()

    def frame(self, frame: Frame) -> tuple[Frame, tuple[Rectangle, ...]]:
        """Return ``frame`` with its marks, and where they may have changed it.

        The frame that is given stays as it is. The one returned is for writing: it has no
        ``sight``.
        """
        if self.label is None:
            return frame, ()
        drawn = lettering(self.label.text, self.label.place, frame.width, frame.height)
        if drawn.plate.empty:
            log.warning("%dx%d pixels are too few for a label.", frame.width, frame.height)
            return frame, ()
        marked = replace(
            frame,
            pixels=frame.pixels.clone(),
            alpha=None if frame.alpha is None else frame.alpha.clone(),
            sight=None,
        )
        _lay_plate(marked, drawn.plate, torch.from_numpy(drawn.ink.copy()))
        return marked, (drawn.plate,)

    def picture(self, picture: Picture) -> Picture:
        """Return ``picture`` with its marks in every frame."""
        if not self:
            return picture
        return replace(picture, frames=tuple(self.frame(each)[0] for each in picture.frames))

    def stored(self, stored: StoredFrame) -> StoredFrame:
        """Return a frame of a clip with its marks; other samples keep their value."""
        if not self:
            return stored
        return stored.with_changes(*self.frame(stored.picture()))


NONE = Imprint()
"""No marks at all."""


def _lay_plate(frame: Frame, plate: Rectangle, ink: Tensor) -> None:
    """Lay a dark plate with white letters over ``frame``, in place and in its own colours.

    ``ink`` is uint8 (h, w). The plate is opaque where the frame is not: what is hidden there stays
    hidden.
    """
    left, top, right, bottom = plate
    pixels = frame.pixels[top:bottom, left:right]
    peak = float(frame.peak)
    below = pixels.float() / peak
    black, white = _extremes(frame, below)
    letters = ink.to(below)[..., None] / 255
    seen = below.new_ones(())
    if frame.alpha is not None:
        alpha = frame.alpha[top:bottom, left:right]
        seen = alpha.float()[..., None] / peak
        alpha.fill_(frame.peak)
    dark = black + (below - black) * seen * (1 - PLATE)
    pixels.copy_((torch.lerp(dark, white.expand_as(dark), letters) * peak).round_())


def _extremes(frame: Frame, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return sRGB's black and white (C,) in the colours of ``frame``, 0 to 1."""
    if frame.table is None:
        return like.new_zeros(like.shape[-1]), like.new_ones(like.shape[-1])
    return frame.table[:, 0, 0, 0].to(like), frame.table[:, -1, -1, -1].to(like)
