"""A picture in memory: its frames, and what goes back into its file beside them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image
from torch import Tensor

from mien.media.colors import Colors
from mien.media.metadata import Metadata
from mien.media.moments import Encoding
from mien.types import Frame

PictureLike: TypeAlias = str | os.PathLike[str] | npt.NDArray[Any] | Image.Image | Tensor
"""What counts as a picture: a path, an RGB array or tensor (H, W, 3), or a PIL image."""


def as_list(pictures: PictureLike | Sequence[PictureLike]) -> list[PictureLike]:
    """Return one picture, or several, as a list."""
    if isinstance(pictures, Sequence) and not isinstance(pictures, str | bytes):
        return list(pictures)
    return [pictures]


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture as the engine sees it, and what must go back into the file beside it."""

    frames: tuple[Frame, ...]
    """One, or those of an animation."""

    name: str
    """For messages: the file's name, or what kind of object it was."""

    path: Path | None = None
    durations: tuple[Fraction, ...] = ()
    """Seconds for which each frame of an animation is shown."""

    metadata: Metadata = field(default_factory=Metadata)
    encoding: Encoding | None = None
    """How its file was written; None for pictures that were in memory."""

    palettes: tuple[npt.NDArray[np.uint8], ...] = ()
    """The colours (N, 3) of each frame of a GIF."""

    @property
    def frame(self) -> Frame:
        """The first frame."""
        return self.frames[0]

    @cached_property
    def digest(self) -> str:
        """The sha256 of size and colours: the same for the same content under any name."""
        pixels = self.frame.view.cpu().contiguous().numpy()
        content = hashlib.sha256(f"{pixels.shape}".encode())
        content.update(pixels.reshape(-1).data)
        return content.hexdigest()


def in_srgb(picture: Picture, frame: Frame) -> npt.NDArray[np.uint8]:
    """Return the pixels of ``frame``, one of ``picture``'s, in sRGB: uint8 (H, W, 3), a copy."""
    pixels = frame.pixels.cpu().numpy()
    colors = Colors(pixels.shape[2], picture.metadata.profile, picture.name)
    seen = colors.sight(pixels)
    return pixels.copy() if seen is None else seen.contiguous().numpy()
