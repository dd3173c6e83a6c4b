"""What decoding a file gives and encoding one takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from mien.media.colors import Pixels

ZLIB_EFFORT = 4
"""Of PNG and TIFF, 0 to 9: beyond it, time grows more than files shrink."""


class TooLarge(Exception):
    """The picture has more pixels than allowed; the message says how many."""


class NotAPicture(Exception):
    """The file is of no kind that can be read; the message may say why."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a file was written, so that another one can be written alike."""

    name: str
    """Pillow's name of the format."""

    options: Mapping[str, Any] = field(default_factory=dict)
    """What to tell the encoder so that it writes a file like it."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The pixels of a picture, or of one frame of an animation."""

    pixels: Pixels
    """uint8 or uint16 (H, W, C): C is 1 for gray, 3 for RGB, 4 for CMYK."""

    alpha: Pixels | None = None
    """(H, W), of the same dtype."""

    duration: Fraction = Fraction(0)
    """Seconds for which it is shown; 0 in a picture that does not move."""

    @property
    def samples(self) -> npt.NDArray[Any]:
        """Colours and, behind them, alpha if there is any: (H, W, C or C + 1)."""
        return self.pixels if self.alpha is None else np.dstack([self.pixels, self.alpha])
