"""Preview: a strip of frames before and after, to look at."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from mien.geometry import uncover
from mien.media import Picture, write_picture
from mien.media.atomic import Seal
from mien.media.clip import Look
from mien.media.colors import to_eight_bits
from mien.pipeline import NONE, Imprint
from mien.types import Frame, Swapped

COLUMNS = 6
WIDEST = 320
"""Pixels of a frame's longer side in the strip."""

GAP = 4
"""Pixels of white between frames."""

Bytes = npt.NDArray[np.uint8]


class Preview:
    """Takes the frames of a clip as they go by and keeps a few, evenly spread, before and after.

    Of each of COLUMNS parts of the time from ``start`` to ``end`` it keeps the first frame with a
    swapped face, or the first frame if there is none.
    """

    def __init__(self, start: Fraction, end: Fraction | None) -> None:
        self._start, self._end = start, end
        self._kept: dict[int, tuple[bool, Bytes, Bytes]] = {}

    def lacks(self, time: Fraction) -> bool:
        """Return whether a swapped frame of ``time`` would be kept."""
        kept = self._kept.get(self._slot(time))
        return kept is None or not kept[0]

    def __call__(self, done: Swapped, look: Look, time: Fraction) -> None:
        """Keep the frame, or pass it by."""
        slot = self._slot(time)
        if not self.lacks(time) or (slot in self._kept and not done.chosen):
            return
        after = _small(done.frame, look)
        before = after
        if done.layers is not None:
            pixels = done.frame.pixels.clone()
            uncover(pixels, done.layers.covered)
            before = _small(replace(done.frame, pixels=pixels), look)
        self._kept[slot] = (bool(done.chosen), before, after)

    @property
    def frames(self) -> int:
        """How many frames are kept."""
        return len(self._kept)

    def save(
        self,
        path: Path,
        xmp: bytes | None,
        seal: Seal | None = None,
        imprint: Imprint = NONE,
    ) -> None:
        """Write the strip, before above after. Raises PictureUnwritable, and as ``seal`` does."""
        columns = [
            np.concatenate([before, np.full((GAP, before.shape[1], 3), 255, np.uint8), after])
            for _, (_, before, after) in sorted(self._kept.items())
        ]
        line = np.full((columns[0].shape[0], GAP, 3), 255, np.uint8)
        strip = columns[0]
        for column in columns[1:]:
            strip = np.concatenate([strip, line, column], axis=1)
        picture = Picture((Frame(torch.from_numpy(np.ascontiguousarray(strip))),), name=path.name)
        write_picture(path, imprint.picture(picture), xmp=xmp, seal=seal)

    def _slot(self, time: Fraction) -> int:
        if self._end is None or self._end <= self._start:
            return min(int(time - self._start), COLUMNS - 1)  # the first seconds, one frame each
        share = (time - self._start) / (self._end - self._start)
        return min(max(int(share * COLUMNS), 0), COLUMNS - 1)


def _small(frame: Frame, look: Look) -> Bytes:
    """Return the frame in sRGB, at most WIDEST pixels long."""
    pixels = frame.pixels.cpu().numpy()
    seen = to_eight_bits(pixels) if look.tones.plain else look.tones.sight(pixels)
    image = Image.fromarray(seen)
    image.thumbnail((WIDEST, WIDEST))
    return np.array(image)
