"""Colours: how a picture's own channels stand to the sRGB that networks were taught.

Pixels keep the channels and colours of their file: gray, RGB in any colour space, CMYK. Networks
look at a copy in sRGB, and what they make goes through a table into the pixels' own colours. So
what is not painted over never goes through a conversion.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from io import BytesIO

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageCms
from torch import Tensor

log = logging.getLogger(__name__)

STEPS = 52
"""Steps of a table per axis, which lie at whole codes of 255; between them it is trilinear."""

ALIKE = 2
"""A profile that moves no colour by more than this many codes of 255 is taken for sRGB."""

BAND = 1 << 22
"""Pixels converted at a time."""

LUMA = (0.299, 0.587, 0.114)
"""Weights of a gray pixel (ITU-R BT.601), as every reader of gray pictures assumes."""

MODES = {1: "L", 3: "RGB", 4: "CMYK"}
"""Pillow's names of 8-bit pixels, by the number of channels."""

SPACES = {1: b"GRAY", 3: b"RGB ", 4: b"CMYK"}
"""What an ICC profile calls its pixels (ICC.1, 7.2.6), by the number of channels."""

Pixels = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]


class Colors:
    """The colours of pixels with ``channels`` channels and an ICC ``profile``, or None for sRGB.

    A profile that cannot be used is reported in the log, with ``name``, and ignored.
    """

    def __init__(self, channels: int, profile: bytes | None, name: object) -> None:
        self.channels = channels
        self._to_srgb: ImageCms.ImageCmsTransform | None = None
        self._from_srgb: ImageCms.ImageCmsTransform | None = None
        if profile is None:
            return
        try:
            self._to_srgb, self._from_srgb = _transforms(channels, profile)
        except (ImageCms.PyCMSError, OSError, TypeError, ValueError) as error:
            log.warning("%s: its colour profile cannot be used and is ignored (%s).", name, error)

    @property
    def plain(self) -> bool:
        """Whether the pixels are sRGB."""
        return self.channels == 3 and self._to_srgb is None

    def sight(self, pixels: Pixels) -> Tensor | None:
        """Return ``pixels`` (H, W, C) in sRGB, uint8 (H, W, 3); None if they are that already."""
        if pixels.dtype == np.uint8 and self.plain:
            return None
        height, width = pixels.shape[:2]
        if pixels.dtype == np.uint8 and self.channels == 1 and self._to_srgb is None:
            return torch.from_numpy(pixels).expand(-1, -1, 3)
        seen = np.empty((height, width, 3), np.uint8)
        rows = max(1, BAND // width)
        for top in range(0, height, rows):
            band = to_eight_bits(pixels[top : top + rows])
            seen[top : top + rows] = self._convert(band)
        return torch.from_numpy(seen)

    def table(self) -> Tensor | None:
        """Return the table from sRGB into the pixels' colours; see Frame.table."""
        if self.plain:
            return None
        cube = _cube()
        if self._from_srgb is not None:
            values = _applied(self._from_srgb, cube) / 255
        elif self.channels == 1:
            values = (cube @ np.array(LUMA))[..., None] / 255
        else:
            values = np.dstack([255 - cube, np.zeros_like(cube[..., :1])]) / 255
        grid = values.reshape(STEPS, STEPS, STEPS, self.channels)
        return torch.from_numpy(grid).permute(3, 0, 1, 2).float().contiguous()

    def _convert(self, band: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        if self.plain or (self.channels == 1 and self._to_srgb is None):
            return band
        image = Image.fromarray(band[..., 0] if self.channels == 1 else band, MODES[self.channels])
        if self._to_srgb is None:
            return np.asarray(image.convert("RGB"))
        converted = ImageCms.applyTransform(image, self._to_srgb)
        assert converted is not None  # it is, unless it is made in place
        return np.asarray(converted)


def to_eight_bits(pixels: Pixels) -> npt.NDArray[np.uint8]:
    """Return ``pixels`` as uint8, rounded."""
    if pixels.dtype == np.uint8:
        return pixels  # type: ignore[return-value]
    return ((pixels.astype(np.uint32) + 128) // 257).astype(np.uint8)


@lru_cache(maxsize=8)
def _transforms(
    channels: int, profile: bytes
) -> tuple[ImageCms.ImageCmsTransform | None, ImageCms.ImageCmsTransform | None]:
    """Return the ways to sRGB and back, or twice None if the profile is sRGB's.

    They are kept, for making them takes as long as a small swap, and pictures of one camera share a
    profile. Raises PyCMSError, OSError, TypeError, ValueError.
    """
    own = ImageCms.ImageCmsProfile(BytesIO(profile))
    srgb = ImageCms.createProfile("sRGB")
    mode = MODES[channels]
    there, back = _transform(own, srgb, mode, "RGB"), _transform(srgb, own, "RGB", mode)
    if channels == 3 and np.abs(_applied(back, _cube()) - _cube()).max() <= ALIKE:
        return None, None
    return there, back


def _transform(
    start: object, end: object, start_mode: str, end_mode: str
) -> ImageCms.ImageCmsTransform:
    # colours that both spaces have stay what they are; black stays black
    return ImageCms.buildTransform(
        start,  # type: ignore[arg-type]
        end,  # type: ignore[arg-type]
        start_mode,
        end_mode,
        renderingIntent=ImageCms.Intent.RELATIVE_COLORIMETRIC,
        flags=ImageCms.Flags.BLACKPOINTCOMPENSATION,
    )


@lru_cache(maxsize=1)
def _cube() -> npt.NDArray[np.int64]:
    """Return the colours at the steps of a table, (STEPS, STEPS * STEPS, 3)."""
    line = np.arange(0, 256, 255 // (STEPS - 1))
    return np.stack(np.meshgrid(line, line, line, indexing="ij"), axis=-1).reshape(STEPS, -1, 3)


def _applied(
    transform: ImageCms.ImageCmsTransform, cube: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    image = Image.fromarray(cube.astype(np.uint8), "RGB")
    converted = ImageCms.applyTransform(image, transform)
    assert converted is not None
    values = np.asarray(converted).astype(np.int64)
    return values[..., None] if values.ndim == 2 else values
