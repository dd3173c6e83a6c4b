"""Imprint: what goes into pixels that are about to be written, and into no others.

This is the one place where pixels get marks, for pictures and for clips: whoever writes something
in which a face was swapped takes its pixels through an Imprint, last of all. Pixels in memory stay
without: what they promise is that nothing outside of the faces has changed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mien.media import Picture
from mien.media.clip import Look, StoredFrame
from mien.media.lettering import check_letters, lettering
from mien.safety.label import Label
from mien.safety.manifest import SoftBinding
from mien.safety.watermark import Change, Marker, identifier, marked
from mien.types import Frame, Rectangle

log = logging.getLogger(__name__)

PLATE = 0.7
"""How dark the plate behind the letters is: white on it is to be read on white paper too."""


EVERY = 4
"""Frames of a clip that share what a watermark changes: it need not be computed for each."""

BOLD = 1.3
"""By how much a change in a clip may pass what is noticeable in a still picture: what moves hides
more, and codecs take more away."""

ALGORITHM = "io.mien.watermark.2"
"""What manifests call the watermark."""


@dataclass(frozen=True, slots=True)
class Imprint:
    """The marks in the pixels of what one swapper writes: the invisible one, and a label.

    Raises InvalidOption for a text that cannot be drawn.
    """

    label: Label | None = None
    """What is to be seen; None for nothing."""

    produced: str | None = None
    """The id of what is written, which the watermark stands for; None: it has no watermark."""

    def __post_init__(self) -> None:
        if self.label is not None:
            check_letters(self.label.text)

    def __bool__(self) -> bool:
        return self.label is not None or self.produced is not None

    def of(self, produced: str) -> Imprint:
        """Return the imprint of one file, or of what is written with it, with its watermark."""
        return Imprint(self.label, produced)

    def report(self) -> dict[str, str] | None:
        """Return what is to be seen, ready for JSON; None if nothing is."""
        return None if self.label is None else self.label.report()

    @property
    def watermark(self) -> str | None:
        """What the watermark says, 12 hexadecimal digits; None if there is none."""
        return None if self.produced is None else f"{identifier(self.produced):012x}"

    @property
    def binding(self) -> SoftBinding | None:
        """What a manifest says of the watermark."""
        return None if self.watermark is None else SoftBinding(ALGORITHM, self.watermark)

    def labelled(self, frame: Frame) -> tuple[Frame, tuple[Rectangle, ...]]:
        """Return ``frame`` with the label alone, and where that may have changed it.

        The frame that is given stays as it is. The one returned is for writing: it has no
        ``sight``.
        """
        if self.label is None:
            return frame, ()
        drawn = lettering(self.label.text, self.label.place, frame.width, frame.height)
        if drawn.plate.empty:
            log.warning("%dx%d pixels are too few for a label.", frame.width, frame.height)
            return frame, ()
        made = replace(
            frame,
            pixels=frame.pixels.clone(),
            alpha=None if frame.alpha is None else frame.alpha.clone(),
            sight=None,
        )
        ink = torch.from_numpy(drawn.ink.copy()).to(made.pixels.device)
        _lay_plate(made, drawn.plate, ink)
        return made, (drawn.plate,)

    def picture(self, picture: Picture) -> Picture:
        """Return ``picture`` with its marks in every frame."""
        if not self:
            return picture
        frames = [self.labelled(frame)[0] for frame in picture.frames]
        if self.produced is not None:
            marker = Marker(identifier(self.produced))
            frames = [
                replace(frame, pixels=marked(frame.pixels, marker), sight=None) for frame in frames
            ]
        return replace(picture, frames=tuple(frames))

    def film(self) -> Film:
        """Return what lays the marks on the frames of one clip, in order."""
        return Film(self)


class Film:
    """Lays marks on the frames of one clip that is written, in order."""

    def __init__(self, imprint: Imprint) -> None:
        self._imprint = imprint
        self._marker: Marker | None = None
        self._shift: tuple[Change, Look, Tensor] | None = None
        """A change of brightness, and what it is in the samples of a look: frames share it."""

        if imprint.produced is not None:
            self._marker = Marker(identifier(imprint.produced), every=EVERY, bold=BOLD)

    def __call__(
        self, stored: StoredFrame, picture: Frame | None = None, changed: Iterable[Rectangle] = ()
    ) -> StoredFrame:
        """Return a frame with its marks.

        ``picture`` is what it shows by now, where ``changed`` says; None: what is ``stored``. The
        label changes its own place alone, and the watermark brightness alone.
        """
        if self._imprint.label is not None:
            picture, plates = self._imprint.labelled(picture or stored.picture())
            changed = (*changed, *plates)
        if changed and picture is not None:
            stored = stored.with_changes(picture, changed)
        if self._marker is None:
            return stored
        width, height = stored.size
        change, look = self._marker(stored.luma, height, width), stored.look
        known = self._shift
        if known is None or known[0] is not change or known[1] is not look:
            known = self._shift = change, look, look.shift(change.whole)
        return stored.shifted(known[2])


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
