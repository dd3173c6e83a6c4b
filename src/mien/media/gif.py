"""GIF: at most 256 colours a frame, and a place for the mark."""

from __future__ import annotations

import logging
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from PIL import Image

from mien.media.colors import Pixels

log = logging.getLogger(__name__)

OPAQUE = 128
"""Alpha from which a pixel of a GIF is shown; there is nothing between."""

Bytes = npt.NDArray[np.uint8]


def to_palette(pixels: Pixels, alpha: Pixels | None, known: Bytes | None) -> Image.Image:
    """Return uint8 ``pixels`` (H, W, 3) as a picture of at most 256 colours.

    Colours that are in ``known`` (N, 3), the palette of the frame before faces were swapped, stay
    exactly what they are; new colours get the entries that are left. If there are too few, they
    are mixed from what there is, by dithering.
    """
    shown = np.ones(pixels.shape[:2], bool) if alpha is None else alpha >= OPAQUE
    clear = not shown.all()
    room = 255 if clear else 256
    codes = _codes(pixels)
    used = np.unique(codes[shown])
    kept = used if known is None else np.intersect1d(used, _codes(known))
    if len(kept) > room:  # frames with palettes of their own, laid over each other
        log.warning(
            "A frame has %d colours, and a GIF holds %d: it is recoloured.", len(kept), room
        )
        kept = kept[:0]
    new = np.setdiff1d(used, kept)
    palette = kept
    if len(new) and len(kept) < room:
        if len(new) > room - len(kept):
            fresh = pixels[shown & np.isin(codes, new)][None]
            few = Image.fromarray(fresh).quantize(room - len(kept), Image.Quantize.MEDIANCUT)
            new = np.unique(_codes(np.asarray(few.convert("RGB"))))
        palette = np.union1d(kept, new)
    if not len(palette):
        palette = np.zeros(1, np.int64)
    colours = _colours(palette)
    at = np.searchsorted(palette, codes).clip(0, len(palette) - 1)
    exact = palette[at] == codes
    if not exact[shown].all():
        nearest = _dithered(pixels, colours)
        at = np.where(exact, at, nearest)
    indices = at.astype(np.uint8)
    if clear:
        indices[~shown] = len(palette)
        colours = np.vstack([colours, colours[:1]])
    image = Image.fromarray(indices, "P")
    image.putpalette(colours.tobytes())
    if clear:
        image.info["transparency"] = len(palette)
    return image


def colours_of(pixels: npt.NDArray[Any]) -> Bytes:
    """Return the colours (N, 3), uint8, that ``pixels`` (H, W, 3) have."""
    return _colours(np.unique(_codes(pixels)))


def with_xmp(data: bytes, xmp: bytes) -> bytes:
    """Return the GIF file ``data`` with an XMP packet (XMP specification, part 3, 1.1.2)."""
    table = 3 << ((data[10] & 7) + 1) if data[10] & 0x80 else 0
    start = 13 + table
    trailer = b"\x01" + bytes(range(255, -1, -1)) + b"\x00"
    # extensions came with GIF89a; Pillow calls a picture that needs none GIF87a
    return b"GIF89a" + data[6:start] + b"\x21\xff\x0bXMP DataXMP" + xmp + trailer + data[start:]


def xmp_in(file: BinaryIO) -> bytes:
    """Return the XMP packet of a GIF file; nothing if it has none."""
    file.seek(0)
    data = file.read()
    start = data.find(b"\x21\xff\x0bXMP DataXMP")
    end = data.find(b"\x01\xff\xfe\xfd", start)
    return data[start + 14 : end] if 0 <= start < end else b""


def _codes(pixels: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    red, green, blue = (pixels[..., i].astype(np.int64) for i in range(3))
    return red << 16 | green << 8 | blue


def _colours(codes: npt.NDArray[np.int64]) -> Bytes:
    return np.stack([codes >> 16, codes >> 8 & 255, codes & 255], axis=-1).astype(np.uint8)


def _dithered(pixels: Pixels, colours: Bytes) -> npt.NDArray[np.uint8]:
    palette = Image.new("P", (1, 1))
    # unused entries repeat the last colour, so that no other colour is chosen
    filled = np.vstack([colours, np.repeat(colours[-1:], 256 - len(colours), axis=0)])
    palette.putpalette(filled.tobytes())
    mixed = Image.fromarray(pixels).quantize(palette=palette, dither=Image.Dither.FLOYDSTEINBERG)
    return np.asarray(mixed).clip(max=len(colours) - 1).astype(np.uint8)
