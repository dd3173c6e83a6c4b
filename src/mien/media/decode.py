"""From files to pixels: the kinds of picture that can be read, and how each is unpacked."""

from __future__ import annotations

import logging
import struct
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageFile, JpegImagePlugin
from PIL.AvifImagePlugin import AvifImageFile
from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.TiffImagePlugin import TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

from mien.media import tiff
from mien.media.colors import SPACES, Pixels
from mien.media.gif import xmp_in
from mien.media.metadata import Metadata, exif_in, orientation, read_metadata
from mien.media.moments import Encoding, Moment, NotAPicture, TooLarge
from mien.media.tags import read_tags

log = logging.getLogger(__name__)


class _TiffFile(TiffImageFile):
    """A TIFF of whatever size: mien has checked it."""

    def load_prepare(self) -> None:
        """Make room for the pixels, as Pillow does after its own check."""
        if self._im is None:
            self.im = Image.core.new(self.mode, self._tile_size)  # type: ignore[attr-defined]
        ImageFile.ImageFile.load_prepare(self)


class _JpegFile(JpegImageFile):
    """A JPEG whose EXIF data are left to mien: Pillow's reader warns of what is malformed."""

    def _read_dpi_from_exif(self) -> None:
        pass


FILES: Mapping[str, type[Image.Image]] = MappingProxyType(
    {
        "JPEG": _JpegFile,
        "PNG": PngImageFile,
        "WEBP": WebPImageFile,
        "BMP": BmpImageFile,
        "GIF": GifImageFile,
    }
)
"""Readers by the name of the format. They are called directly: what else Pillow can read is out
of reach of a hostile file, and mien's own limit of size holds, not one for the whole process."""

TIFF_STARTS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
AVIF_BRANDS = frozenset({b"avif", b"avis"})
HEIC_BRANDS = frozenset({b"heic", b"heix", b"hevc", b"heim", b"heis", b"hevm", b"hevs", b"hevx"})

MOST_FRAMES = 10_000
BAND = 1 << 24
"""Bytes copied from Pillow at a time, so that no second copy of a huge picture is made."""

FINEST = 65_535
"""Denominator of a time in an animated PNG at most; other formats count milliseconds."""

UPRIGHT: Mapping[int, tuple[int, bool]] = MappingProxyType(
    {
        1: (0, False),
        2: (0, True),
        3: (2, False),
        4: (2, True),
        5: (3, True),
        6: (3, False),
        7: (1, True),
        8: (1, False),
    }
)
"""What undoes each EXIF orientation (EXIF 2.32, tag 274): quarter turns to the left, then whether
to mirror left and right."""

MEMORY = "the PIL image"

ALPHA_MODES = {"LA": 1, "RGBA": 3}
"""Modes with an alpha channel, and how many others there are."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a file holds."""

    moments: list[Moment]
    """One, or the frames of an animation, upright."""

    metadata: Metadata
    encoding: Encoding | None


def decode(file: BinaryIO, *, max_megapixels: float, name: object) -> Decoded:
    """Return what the picture ``file`` holds; ``name`` is for warnings.

    Raises NotAPicture, TooLarge, and whatever decoders raise on damaged files.
    """
    with warnings.catch_warnings():
        # what Pillow finds odd about a file that it can read is of no use to its owner
        warnings.simplefilter("ignore")
        return _decode(file, max_megapixels, name)


def _decode(file: BinaryIO, max_megapixels: float, name: object) -> Decoded:
    start = file.read(32)
    file.seek(0)
    if start.startswith(TIFF_STARTS):
        return _decode_tiff(file, max_megapixels, name)
    with _open(file, start, max_megapixels) as image:
        frames = _frame_count(image)
        check_size(image.width, image.height, frames, max_megapixels)
        encoding = _encoding(image, file, frames)
        deep = _is_deep(image)  # before anything loads the pixels
        metadata = read_metadata(image, name)
        if image.format == "GIF":
            metadata = replace(metadata, xmp=xmp_in(file))
        turn = orientation(exif_in(image), metadata.xmp)
        if frames > 1:
            moments = list(_frames(image, frames, max_megapixels))
        else:
            moments = [_deep_png(file) if deep else split(image)]
    return _upright(Decoded(moments, metadata, encoding), turn, name)


def decode_image(image: Image.Image, *, max_megapixels: float) -> Decoded:
    """Return what a PIL image holds; of an animation, the frame it stands at.

    Raises as ``decode`` does.
    """
    check_size(image.width, image.height, 1, max_megapixels)
    image.load()  # which turns a TIFF upright
    metadata = read_metadata(image, MEMORY)
    exif = exif_in(image) or image.getexif().tobytes()
    return _upright(
        Decoded([split(image)], metadata, None), orientation(exif, metadata.xmp), MEMORY
    )


def check_size(width: int, height: int, frames: int, max_megapixels: float) -> None:
    """Raise TooLarge if all frames together have more than ``max_megapixels``."""
    if width <= 0 or height <= 0:
        raise NotAPicture("it has no pixels")
    megapixels = width * height * frames / 1e6
    if megapixels > max_megapixels:
        of = f" in {frames:,} frames" if frames > 1 else ""
        raise TooLarge(f"it has {megapixels:,.0f} megapixels{of}")
    if frames > MOST_FRAMES:
        raise TooLarge(f"it has {frames:,} frames, of which {MOST_FRAMES:,} can be read")


def split(image: Image.Image) -> Moment:
    """Return the pixels of ``image``: colours, and alpha if it has any. Raises NotAPicture."""
    image.load()
    mode = image.mode
    if mode.startswith("I;16"):
        return Moment(np.asarray(image).astype(np.uint16)[..., None])
    if mode in ("I", "F"):
        raise NotAPicture(
            f"it has {mode!r} pixels (32 bits per channel), which mien does not read; "
            "convert it to 8 or 16 bits"
        )
    clear = "transparency" in image.info
    wanted = {
        "1": "L",
        "L": "LA" if clear else "L",
        "La": "LA",
        "P": "RGBA" if clear else "RGB",
        "PA": "RGBA",
        "RGB": "RGBA" if clear else "RGB",
        "RGBa": "RGBA",
    }.get(mode, mode)
    if wanted not in ("L", "LA", "RGB", "RGBA", "CMYK"):
        wanted = "RGB"
    if wanted != mode:
        image = image.convert(wanted)
    pixels = _array(image)
    if wanted not in ALPHA_MODES:
        return Moment(pixels)
    colors = ALPHA_MODES[wanted]
    return Moment(pixels[..., :colors], pixels[..., colors])


def _open(file: BinaryIO, start: bytes, max_megapixels: float) -> Image.Image:
    """Return the picture in ``file``, its pixels not yet decoded, if it can be left till later."""
    if start[4:8] == b"ftyp":
        brands = _brands(file)
        if brands & AVIF_BRANDS:
            return AvifImageFile(file, "")
        if brands & HEIC_BRANDS:
            return _open_heic(file, max_megapixels)
    for name, reader in FILES.items():
        accept = Image.OPEN[name][1]
        if accept is not None and accept(start) is True:
            return reader(file, "")  # type: ignore[call-arg]
    raise NotAPicture


def _brands(file: BinaryIO) -> set[bytes]:
    """Return the brands that a file of boxes says it is of (ISO/IEC 14496-12, 4.3)."""
    size = struct.unpack(">I", file.read(4))[0]
    box = file.read(min(size, 4096) - 4) if size > 16 else b""
    file.seek(0)
    return {box[4:8]} | {box[i : i + 4] for i in range(12, len(box) - 3, 4)}


def _open_heic(file: BinaryIO, max_megapixels: float) -> Image.Image:
    try:
        import pi_heif
    except ImportError:
        raise NotAPicture("it is a HEIC picture: pip install 'mien[heic]' to read it") from None
    picture = pi_heif.open_heif(file)
    width, height = picture.size
    check_size(width, height, 1, max_megapixels)
    image: Image.Image = picture.to_pillow()
    image.format = "HEIF"
    return image


def _decode_tiff(file: BinaryIO, max_megapixels: float, name: object) -> Decoded:
    tags = read_tags(file)
    check_size(*tiff.size_of(tags), 1, max_megapixels)
    if tags.following:
        log.warning("%s may have several pages; only the first is read and written.", name)
    metadata, encoding = tiff.read_tiff_metadata(tags), tiff.tiff_encoding(tags)
    if tiff.is_plain(tags):
        decoded = Decoded([tiff.read_tiff(file, tags)], metadata, encoding)
        return _upright(decoded, tiff.turn_of(tags), name)
    file.seek(0)
    with _TiffFile(file, "") as image:
        check_size(image.width, image.height, 1, max_megapixels)
        return _upright(
            Decoded([split(image)], metadata, encoding), 1, name
        )  # Pillow has turned it


def _upright(decoded: Decoded, turn: int, name: object) -> Decoded:
    """Return the same with its moments turned upright, and a profile only if it is theirs."""
    moments = [
        replace(
            moment,
            pixels=_turned(moment.pixels, turn),
            alpha=None if moment.alpha is None else _turned(moment.alpha, turn),
        )
        for moment in decoded.moments
    ]
    if len(moments) > 1 and all(np.all(moment.alpha == 255) for moment in moments):
        moments = [replace(moment, alpha=None) for moment in moments]
    metadata, profile = decoded.metadata, decoded.metadata.profile
    if profile is not None and profile[16:20] != SPACES[moments[0].pixels.shape[2]]:
        log.warning("%s: its colour profile is for other pixels and is ignored.", name)
        metadata = metadata.without_profile()
    return Decoded(moments, metadata, decoded.encoding)


def _turned(pixels: Pixels, turn: int) -> Pixels:
    """Return ``pixels`` (H, W, ...) with EXIF orientation ``turn`` undone."""
    quarters, mirror = UPRIGHT[turn]
    if quarters:
        pixels = np.rot90(pixels, quarters)
    if mirror:
        pixels = pixels[:, ::-1]
    return np.require(pixels, requirements=["C", "W"])


def _frame_count(image: Image.Image) -> int:
    """Return how many frames an animation has; 1 for every other picture."""
    return int(getattr(image, "n_frames", 1)) if image.format != "HEIF" else 1


def _frames(image: Image.Image, count: int, max_megapixels: float) -> Iterator[Moment]:
    size = image.size
    for number in range(count):
        image.seek(number)
        check_size(*image.size, count, max_megapixels)  # a frame may reach beyond the first
        image.load()
        frame = image.convert("RGBA")
        moment = split(frame if frame.size == size else frame.crop((0, 0, *size)))
        shown = number > 0 or not image.info.get("default_image")
        seconds = Fraction(image.info.get("duration", 0) or 0) / 1000 if shown else Fraction(0)
        yield replace(moment, duration=seconds.limit_denominator(FINEST))


def _is_deep(image: Image.Image) -> bool:
    """Return whether a PNG has 16 bits per channel, for which Pillow mostly has no pixels."""
    tiles = getattr(image, "tile", [])
    return image.format == "PNG" and any(";16" in str(tile.args) for tile in tiles)


def _deep_png(file: BinaryIO) -> Moment:
    import imagecodecs

    file.seek(0)
    pixels = np.asarray(imagecodecs.png_decode(file.read()))
    if pixels.dtype != np.uint16:
        raise NotAPicture(f"its pixels, {pixels.dtype} {pixels.shape}, are of an unknown layout")
    if pixels.ndim == 2:
        pixels = pixels[..., None]
    colors = pixels.shape[2] - 1 + pixels.shape[2] % 2  # of an even number, the last is alpha
    return Moment(pixels[..., :colors], pixels[..., colors] if colors < pixels.shape[2] else None)


def _array(image: Image.Image) -> npt.NDArray[np.uint8]:
    """Return the bytes of ``image``, (H, W, bands)."""
    width, height, bands = image.width, image.height, len(image.getbands())
    pixels = np.empty((height, width, bands), np.uint8)
    rows = max(1, BAND // (width * bands))
    for top in range(0, height, rows):
        bottom = min(top + rows, height)
        part = image if rows >= height else image.crop((0, top, width, bottom))
        pixels[top:bottom] = np.asarray(part).reshape(bottom - top, width, bands)
    return pixels


def _encoding(image: Image.Image, file: BinaryIO, frames: int) -> Encoding:
    """Return how ``image``, which was opened from ``file``, was written."""
    name = image.format or ""
    options: dict[str, Any] = {}
    if name == "JPEG":
        options |= _jpeg_options(image)
    elif name == "WEBP":
        options["lossless"] = _is_lossless(file)
    elif name == "AVIF":
        options |= _avif_options(file)
    if frames > 1:
        loop = image.info.get("loop")
        if name == "GIF":  # which counts what comes after the first time
            options["plays"] = 1 if loop is None else loop + 1 if loop else 0
        else:
            options["plays"] = loop or 0
        if image.info.get("default_image"):
            options["default_image"] = True
    return Encoding(name, MappingProxyType(options))


def _jpeg_options(image: Any) -> dict[str, Any]:
    tables = [image.quantization[table] for *_, table in image.layer]
    while len(tables) > 1 and tables[-1] == tables[-2]:
        tables.pop()  # the last one counts for all components that follow
    sampling = JpegImagePlugin.get_sampling(image)
    options: dict[str, Any] = {"qtables": tables}
    if len(image.layer) == 3:  # one that Pillow does not write becomes the finest
        options["subsampling"] = max(sampling, 0)
    if image.info.get("progressive"):
        options["progressive"] = True
    return options


def _is_lossless(file: BinaryIO) -> bool:
    """Return whether the first frame of a WebP file is lossless (RFC 9649)."""
    at = 12
    while True:
        file.seek(at)
        head = file.read(8)
        if len(head) < 8:
            return False
        kind, size = head[:4], struct.unpack("<I", head[4:])[0]
        if kind in (b"VP8L", b"VP8 "):
            return kind == b"VP8L"
        # a frame of an animation is a chunk with chunks in it
        at += 8 + 16 if kind == b"ANMF" else 8 + size + size % 2


def _avif_options(file: BinaryIO) -> dict[str, Any]:
    """Return the subsampling of an AVIF file, from its configuration box (AV1-ISOBMFF, 2.3)."""
    file.seek(0)
    start = file.read(1 << 16)
    at = start.find(b"av1C")
    if at < 0 or at + 7 > len(start):
        return {}
    flags = start[at + 6]
    if flags & 0x40:
        log.warning("An AVIF picture with more than 8 bits per channel is read with 8.")
    if flags & 0x10:
        return {}
    return {"subsampling": {0x0C: "4:2:0", 0x08: "4:2:2", 0x00: "4:4:4"}.get(flags & 0x0C, "4:2:0")}
