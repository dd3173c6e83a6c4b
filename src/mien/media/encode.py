"""From pixels to files: like the file they came from, as far as the format allows."""

from __future__ import annotations

import io
import logging
from collections.abc import Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import Any, BinaryIO, Literal, cast

import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from mien.media.colors import MODES
from mien.media.formats import AVIF, BMP, GIF, JPEG, PNG, TIFF, WEBP, Format
from mien.media.gif import to_palette, with_xmp
from mien.media.metadata import JPEG_SEGMENT, Metadata, iptc_segment
from mien.media.moments import ZLIB_EFFORT, Encoding, Moment
from mien.media.tiff import DEFLATE, write_tiff

log = logging.getLogger(__name__)

Subsampling = Literal["4:4:4", "4:2:2", "4:2:0"]

DEFAULTS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "JPEG": {"quality": 95, "subsampling": "4:4:4"},
        "WEBP": {"quality": 95},
        "AVIF": {"quality": 90, "subsampling": "4:4:4"},
        "TIFF": {"compression": DEFLATE},
    }
)
"""How a format is written when the input was of another one."""


class _Stream(io.RawIOBase):
    """A file without its number: given that, Pillow does not notice when a disk is full."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self._file.write(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


def encode(
    file: BinaryIO,
    moments: Sequence[Moment],
    kind: Format,
    *,
    metadata: Metadata,
    like: Encoding | None,
    quality: int | None,
    subsampling: Subsampling | None,
    palettes: Sequence[Any],
) -> None:
    """Write ``moments``, one or the frames of an animation, to ``file`` as a picture of ``kind``.

    Channels, depth and number of the moments must be such as ``kind`` can hold. ``like`` says how
    the input was written. ``palettes`` are the colours of each frame of a GIF before the swap.
    Raises what encoders raise.
    """
    options = _options(kind, like, quality, subsampling)
    if kind is TIFF:
        write_tiff(file, moments[0], metadata, **options)
        return
    if moments[0].pixels.dtype == np.uint16:
        _deep_png(file, moments[0], metadata)
        return
    default = options.get("default_image", False)
    if default and kind is not PNG:
        del options["default_image"]
        moments, palettes, default = moments[1:], palettes[1:], False
    options |= _beside(kind, metadata)
    if kind is GIF:
        known = palettes or [None] * len(moments)
        images = [to_palette(m.pixels, m.alpha, p) for m, p in zip(moments, known, strict=True)]
    else:
        images = [_image(moment) for moment in moments]
    if len(moments) > 1:
        options |= {
            "save_all": True,
            "append_images": images[1:],
            "duration": _durations(moments[1:] if default else moments, kind),
        }
        if kind is GIF:
            clear = any("transparency" in image.info for image in images)
            options["disposal"] = 2 if clear else 0
    if kind is GIF and metadata.xmp:
        whole = io.BytesIO()
        images[0].save(whole, kind.name, **options)
        file.write(with_xmp(whole.getvalue(), metadata.xmp))
    else:
        images[0].save(cast("BinaryIO", _Stream(file)), kind.name, **options)


def _durations(moments: Sequence[Moment], kind: Format) -> list[float]:
    """Return the milliseconds of each frame, as the format counts them.

    What is rounded away in one frame is made up for in the next, so that the whole keeps its time.
    """
    if kind is PNG:  # which has fractions
        return [float(moment.duration * 1000) for moment in moments]
    unit = 10 if kind is GIF else 1
    ends = [round(end * 1000 / unit) * unit for end in accumulate(m.duration for m in moments)]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]


def _options(
    kind: Format, like: Encoding | None, quality: int | None, subsampling: Subsampling | None
) -> dict[str, Any]:
    """Return what says how to write: as the input was, unless given."""
    same = like is not None and like.name == kind.name
    options = dict(like.options if like is not None and same else DEFAULTS.get(kind.name, {}))
    given = {} if like is None else like.options
    options |= {k: given[k] for k in ("plays", "default_image") if k in given}
    if (plays := options.pop("plays", None)) is not None:
        if kind is not GIF:
            options["loop"] = plays
        elif plays != 1:  # a GIF says how often it is shown again
            options["loop"] = max(plays - 1, 0)
    if kind is PNG:
        options["compress_level"] = ZLIB_EFFORT
    if kind is WEBP and options.get("lossless"):
        options["exact"] = True  # colours that nobody sees, too
    elif kind is WEBP:
        options.setdefault("quality", DEFAULTS["WEBP"]["quality"])
    if kind is AVIF:
        options = {**DEFAULTS["AVIF"], **options}
    if quality is not None and kind.qualities:
        options.pop("qtables", None)
        options.pop("lossless", None)
        options.pop("exact", None)
        options["quality"] = quality
    if subsampling is not None and kind in (JPEG, AVIF):
        options["subsampling"] = subsampling
    return options


def _beside(kind: Format, metadata: Metadata) -> dict[str, Any]:
    """Return what says what goes beside the pixels."""
    beside: dict[str, Any] = {"icc_profile": metadata.profile}
    if metadata.dpi and kind in (JPEG, PNG, BMP):
        beside["dpi"] = metadata.dpi
    if kind is PNG:
        return beside | {"pnginfo": _png_texts(metadata), "exif": metadata.exif}
    if kind in (JPEG, WEBP, AVIF):
        beside |= {"xmp": metadata.xmp, "exif": metadata.exif}
    if kind is JPEG:
        beside["extra"] = iptc_segment(metadata.iptc)
        if len(metadata.exif) > JPEG_SEGMENT:
            log.warning("The picture's EXIF data are too long for a JPEG and are left out.")
            beside["exif"] = b""
    if kind in (JPEG, GIF) and 0 < len(metadata.comment) <= JPEG_SEGMENT:
        beside["comment"] = metadata.comment
    return beside


def _image(moment: Moment) -> Image.Image:
    channels = moment.pixels.shape[2]
    pixels = moment.pixels[..., 0] if channels == 1 else moment.pixels
    image = Image.fromarray(pixels, MODES[channels])
    if moment.alpha is not None:
        image.putalpha(Image.fromarray(moment.alpha))
    return image


def _png_texts(metadata: Metadata) -> PngInfo:
    texts = PngInfo()
    if metadata.xmp:
        texts.add_itxt("XML:com.adobe.xmp", metadata.xmp.decode("utf-8", "replace"))
    for key, value in metadata.texts:
        texts.add_itxt(key, value)
    return texts


def _deep_png(file: BinaryIO, moment: Moment, metadata: Metadata) -> None:
    """Write a PNG of 16 bits, which Pillow cannot; what goes beside the pixels, Pillow writes."""
    import imagecodecs

    samples = moment.samples
    pixels = imagecodecs.png_encode(
        samples[..., 0] if samples.shape[2] == 1 else samples, level=ZLIB_EFFORT
    )
    small = io.BytesIO()
    Image.new("L", (1, 1)).save(small, "PNG", **_beside(PNG, metadata))
    header = 8 + 25  # the signature and the first chunk
    file.write(pixels[:header])
    beside, at = small.getvalue(), header
    while beside[at + 4 : at + 8] != b"IEND":
        size = 12 + int.from_bytes(beside[at : at + 4], "big")
        if beside[at + 4 : at + 8] != b"IDAT":
            file.write(beside[at : at + size])
        at += size
    file.write(memoryview(pixels)[header:])
