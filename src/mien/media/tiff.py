"""TIFF (version 6.0), read and written by its tags.

Pillow knows neither 16 bits of several channels nor all kinds of alpha.
"""

from __future__ import annotations

import logging
import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import tifffile

from mien.media.metadata import (
    ORIENTATION,
    Metadata,
    described,
    is_dpi,
    one_of_eight,
    without_structure,
)
from mien.media.moments import ZLIB_EFFORT, Encoding, Moment, NotAPicture
from mien.media.tags import (
    ASCII,
    BYTE,
    LONG,
    RATIONAL,
    SHORT,
    UNDEFINED,
    Directory,
    Entry,
    directory_bytes,
    exif_bytes,
    header,
    read_exif,
)

log = logging.getLogger(__name__)

WIDTH, HEIGHT, BITS, COMPRESSION, PHOTOMETRIC = 256, 257, 258, 259, 262
STRIP_OFFSETS, SAMPLES, ROWS, STRIP_SIZES = 273, 277, 278, 279
X_RESOLUTION, Y_RESOLUTION, PLANES, UNIT, PREDICTOR = 282, 283, 284, 296, 317
EXTRA, FORMAT, XMP, IPTC, PROFILE = 338, 339, 700, 33723, 34675

CHANNELS = {0: 1, 1: 1, 2: 3, 5: 4}
"""Colour channels by photometric interpretation: white is zero, black is zero, RGB, inks."""

COLOURS = {1: 1, 3: 2, 4: 5}
"""And back: the photometric interpretation of so many channels."""

STRIP = 1 << 23
"""Bytes of pixels compressed at a time."""


def _deflate(rows: npt.NDArray[Any]) -> bytes:
    return zlib.compress(np.ascontiguousarray(rows).data, ZLIB_EFFORT)


def _lzw(rows: npt.NDArray[Any]) -> bytes:
    import imagecodecs

    return bytes(imagecodecs.lzw_encode(rows.tobytes()))


def _packbits(rows: npt.NDArray[Any]) -> bytes:
    import imagecodecs

    each = (row.tobytes() for row in rows)  # a run ends with its row
    return b"".join(bytes(imagecodecs.packbits_encode(row)) for row in each)


COMPRESSIONS: Mapping[str, tuple[int, Callable[[npt.NDArray[Any]], bytes], bool]] = {
    "raw": (1, lambda rows: rows.tobytes(), False),
    "tiff_lzw": (5, _lzw, True),
    "tiff_adobe_deflate": (8, _deflate, True),
    "packbits": (32773, _packbits, False),
}
"""The number and the function of each compression, and whether differences of pixels help it."""

DEFLATE = "tiff_adobe_deflate"


def is_plain(tags: Directory) -> bool:
    """Return whether the pixels are whole numbers of 8 or 16 bits, as this module reads them."""
    bits = set(tags.whole(BITS))
    photometric = (tags.whole(PHOTOMETRIC) or (1,))[0]
    compression = (tags.whole(COMPRESSION) or (1,))[0]
    numbers = set(tags.whole(FORMAT)) <= {1}
    # a JPEG in a TIFF may have its own idea of colours, which Pillow knows
    return bits in ({8}, {16}) and photometric in CHANNELS and numbers and compression not in (6, 7)


def size_of(tags: Directory) -> tuple[int, int]:
    """Return width and height in pixels; nought if the file does not say."""
    width, height = tags.whole(WIDTH), tags.whole(HEIGHT)
    return (width or (0,))[0], (height or (0,))[0]


def turn_of(tags: Directory) -> int:
    """Return the orientation, 1 to 8."""
    return one_of_eight(tags.whole(ORIENTATION))


def read_tiff(file: BinaryIO, tags: Directory) -> Moment:
    """Return the pixels of the first page of ``file``, as they are stored.

    Raises NotAPicture for layouts that are unknown, and errors of tifffile on damaged files.
    """
    file.seek(0)
    with tifffile.TiffFile(file) as pages:
        pixels = np.asarray(pages.pages[0].asarray(maxworkers=1))
    width, height = size_of(tags)
    channels = CHANNELS[(tags.whole(PHOTOMETRIC) or (1,))[0]]
    samples = (tags.whole(SAMPLES) or (1,))[0]
    if pixels.ndim == 2:
        pixels = pixels[..., None]
    if (tags.whole(PLANES) or (1,))[0] == 2 and samples > 1:
        pixels = np.moveaxis(pixels, 0, -1)
    known = pixels.dtype in (np.uint8, np.uint16)
    if samples > channels + 1:
        log.warning("Of the %d channels of a TIFF, only colours and alpha are kept.", samples)
    if not known or pixels.shape != (height, width, samples) or samples < channels:
        raise NotAPicture(f"its pixels, {pixels.dtype} {pixels.shape}, are of an unknown layout")
    top = np.iinfo(pixels.dtype).max
    colors, alpha = pixels[..., :channels], None
    if tags.whole(PHOTOMETRIC) == (0,):
        colors = top - colors
    kind = (tags.whole(EXTRA) or (2,))[0]
    if samples > channels:
        alpha = pixels[..., channels]
        if kind == 1:  # colours are multiplied by alpha; everywhere else they are not
            whole = np.maximum(alpha, 1)[..., None].astype(np.float64)
            colors = np.minimum(colors * (top / whole), top).round().astype(pixels.dtype)
    return Moment(colors, alpha)


def read_tiff_metadata(tags: Directory) -> Metadata:
    """Return what a TIFF says beside its pixels."""
    width, height = size_of(tags)
    if turn_of(tags) >= 5:
        width, height = height, width
    per_unit = tags.rational(X_RESOLUTION), tags.rational(Y_RESOLUTION)
    unit = {2: 1.0, 3: 2.54}.get((tags.whole(UNIT) or (2,))[0])
    dpi = None
    if unit and per_unit[0] and per_unit[1]:
        found = per_unit[0] * unit, per_unit[1] * unit
        dpi = found if is_dpi(found) else None
    return Metadata(
        profile=_data(tags, PROFILE) or None,
        exif=exif_bytes(described(tags, width, height)),
        xmp=_data(tags, XMP),
        iptc=_data(tags, IPTC),
        dpi=dpi,
    )


def tiff_encoding(tags: Directory) -> Encoding:
    """Return how a TIFF was compressed."""
    used = (tags.whole(COMPRESSION) or (1,))[0]
    names = {number: name for name, (number, *_) in COMPRESSIONS.items()}
    options: dict[str, Any] = {"compression": names.get(used, DEFLATE)}
    if tags.whole(EXTRA)[:1] == (0,):
        options["extra"] = 0  # a channel of unknown use stays one
    return Encoding("TIFF", options)


def write_tiff(
    file: BinaryIO, moment: Moment, metadata: Metadata, *, compression: str, extra: int = 2
) -> None:
    """Write a TIFF of 8 or 16 bits to ``file``, which can seek.

    ``extra`` says what the channel is that is no colour: 2 for alpha, 0 for something else.
    """
    samples = moment.samples
    height, width, count = samples.shape
    bits = samples.dtype.itemsize * 8
    tags = _directory_for(metadata)
    number, compress, differences = COMPRESSIONS[compression]
    file.write(header(tags.order, 0))
    rows = max(1, STRIP // (width * count * bits // 8))
    places, sizes = [], []
    for top in range(0, height, rows):
        strip = samples[top : top + rows]
        if differences:
            strip = strip.copy()
            strip[:, 1:] -= samples[top : top + rows, :-1]
        data = compress(strip.astype(samples.dtype.newbyteorder(tags.order)))
        places.append(file.tell())
        sizes.append(len(data))
        file.write(data)
    colors = moment.pixels.shape[2]
    tags.put(WIDTH, LONG, width)
    tags.put(HEIGHT, LONG, height)
    tags.put(BITS, SHORT, *[bits] * count)
    tags.put(COMPRESSION, SHORT, number)
    tags.put(PHOTOMETRIC, SHORT, COLOURS[colors])
    tags.put(STRIP_OFFSETS, LONG, *places)
    tags.put(SAMPLES, SHORT, count)
    tags.put(ROWS, LONG, rows)
    tags.put(STRIP_SIZES, LONG, *sizes)
    tags.put(PLANES, SHORT, 1)
    if differences:
        tags.put(PREDICTOR, SHORT, 2)
    if count > colors:
        tags.put(EXTRA, SHORT, extra)
    at = file.tell() + file.tell() % 2
    file.seek(at)
    file.write(directory_bytes(tags, at))
    file.seek(0)
    file.write(header(tags.order, at))


def _directory_for(metadata: Metadata) -> Directory:
    """Return a directory with what goes beside the pixels."""
    tags = without_structure(read_exif(metadata.exif)) if metadata.exif else Directory("<")
    for tag, kind, data in (
        (XMP, BYTE, metadata.xmp),
        (IPTC, UNDEFINED, metadata.iptc),
        (PROFILE, UNDEFINED, metadata.profile or b""),
    ):
        if data:
            tags.entries[tag] = Entry(kind, data)
    if metadata.dpi:
        for tag, dpi in zip((X_RESOLUTION, Y_RESOLUTION), metadata.dpi, strict=True):
            tags.put(tag, RATIONAL, round(dpi * 1000), 1000)
        tags.put(UNIT, SHORT, 2)
    return tags


def _data(tags: Directory, tag: int) -> bytes:
    entry = tags.entries.get(tag)
    if entry is None or entry.kind not in (BYTE, ASCII, UNDEFINED, LONG):
        return b""
    if entry.kind == LONG:  # some writers store bytes as numbers of four
        return struct.pack(f"<{entry.count}I", *tags.whole(tag))
    return entry.data
