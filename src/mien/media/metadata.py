"""What a picture file says beside its pixels, carried from the file read to the file written.

Everything that describes the picture goes along: EXIF, XMP, IPTC, the colour profile, resolution,
comments. What would be wrong afterwards does not: the orientation (pixels are upright now), EXIF
thumbnails (they show the face that was replaced), references to parts that are gone.
"""

from __future__ import annotations

import logging
import re
import struct
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from PIL import Image

from mien.media.tags import EXIF, Directory, exif_bytes, read_exif

log = logging.getLogger(__name__)

ORIENTATION = 0x0112
ORIENTATION_IN_XMP = re.compile(rb"""tiff:Orientation(?:\s*=\s*["']|>)([1-8])""")
WIDTH_SHOWN, HEIGHT_SHOWN = 0xA002, 0xA003
"""Tags of the picture's size in EXIF data."""

STRUCTURE = frozenset(
    {
        *range(254, 270),
        *range(273, 282),
        *(284, 288, 289, 290, 291, 292, 293, 297, 301, 317, 318, 319, 320, 321, 322),
        *(323, 324, 325, 326, 327, 328, 330, 332, 333, 334, 336, 337, 338, 339, 340, 341, 342, 343),
        *(347, 512, 513, 514, 515, 517, 518, 519, 520, 521, 529, 530, 531, 532, 559, 700, 33723),
        *(34377, 34675, 37724, ORIENTATION),
    }
)
"""Tags that speak of how a TIFF is built, or are carried by another way; the others speak of the
picture."""

IPTC_RECORD = 0x0404
"""Photoshop's resource that holds IPTC captions, credits and keywords."""

JPEG_SEGMENT = 65_533
"""Bytes that fit in one segment of a JPEG."""

PREVIEWS = ("Raw profile type",)
"""Beginnings of the keys of texts in PNGs that repeat other metadata as they were, with their
thumbnails."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """What goes back into the file beside the pixels. Fields that are empty were not there."""

    profile: bytes | None = None
    """The ICC profile of the pixels, or None for sRGB."""

    exif: bytes = b""
    xmp: bytes = b""
    iptc: bytes = b""
    comment: bytes = b""
    texts: tuple[tuple[str, str], ...] = ()
    """Keys and values of a PNG's text chunks."""

    dpi: tuple[float, float] | None = None

    def without_profile(self) -> Metadata:
        """Return the same for pixels in sRGB."""
        return replace(self, profile=None)


def read_metadata(image: Image.Image, name: object) -> Metadata:
    """Return what ``image`` says beside its pixels; what is malformed is left out, with a warning.

    ``name`` is for the warning. TIFF files have a way of their own: see tiff.
    """
    info = image.info
    exif, (width, height) = exif_in(image), image.size
    if orientation(exif, _bytes(info.get("xmp"))) >= 5:
        width, height = height, width
    dpi: Any = info.get("dpi")
    texts = getattr(image, "text", {}) if image.format == "PNG" else {}
    profile = info.get("icc_profile")
    return Metadata(
        profile=profile if isinstance(profile, bytes) and profile else None,
        exif=clean_exif(exif, width, height, name),
        xmp=_bytes(info.get("xmp")),
        iptc=_iptc(info.get("photoshop")),
        comment=_bytes(info.get("comment")),
        texts=tuple(
            (key, str(value))
            for key, value in texts.items()
            if key != "XML:com.adobe.xmp" and not key.startswith(PREVIEWS)
        ),
        dpi=(float(dpi[0]), float(dpi[1])) if is_dpi(dpi) else None,
    )


def exif_in(image: Image.Image) -> bytes:
    """Return the EXIF data of ``image``, also where older programs put them in a PNG."""
    text = image.info.get("Raw profile type exif")
    if "exif" not in image.info and isinstance(text, str):
        with suppress(ValueError):
            return bytes.fromhex("".join(text.split("\n")[3:]))
    return _bytes(image.info.get("exif"))


def orientation(exif: bytes, xmp: bytes) -> int:
    """Return the orientation in EXIF data, else in XMP, 1 to 8; 1 if neither says it well."""
    try:
        found = read_exif(exif).whole(ORIENTATION)
    except ValueError:
        found = ()
    if not found and (said := ORIENTATION_IN_XMP.search(xmp)):
        found = (int(said[1]),)
    return one_of_eight(found)


def one_of_eight(found: tuple[int, ...]) -> int:
    """Return the orientation that a tag's values are; 1 if they are none."""
    return found[0] if len(found) == 1 and 1 <= found[0] <= 8 else 1


def clean_exif(exif: bytes, width: int, height: int, name: object) -> bytes:
    """Return ``exif`` without what does not hold of an upright picture of this size."""
    if not exif:
        return b""
    try:
        directory = read_exif(exif)
    except ValueError as error:
        log.warning("%s: its EXIF data are malformed and left out (%s).", name, error)
        return b""
    return exif_bytes(described(directory, width, height))


def described(directory: Directory, width: int, height: int) -> Directory:
    """Return what ``directory`` says of an upright picture of ``width`` x ``height``."""
    kept = without_structure(directory)
    details = kept.below.get(EXIF)
    if details is not None:
        for tag, size in ((WIDTH_SHOWN, width), (HEIGHT_SHOWN, height)):
            if tag in details.entries:
                details.put(tag, 4, size)
    return kept


def without_structure(directory: Directory) -> Directory:
    """Return ``directory`` without what speaks of a file's structure."""
    entries = {tag: entry for tag, entry in directory.entries.items() if tag not in STRUCTURE}
    return Directory(directory.order, entries, directory.below)


def iptc_segment(iptc: bytes) -> bytes:
    """Return a JPEG APP13 segment with an IPTC record, or nothing if there is none that fits."""
    if not iptc:
        return b""
    resource = b"Photoshop 3.0\x008BIM" + struct.pack(">HHI", IPTC_RECORD, 0, len(iptc)) + iptc
    resource += b"\x00" * (len(iptc) % 2)
    if len(resource) > JPEG_SEGMENT:
        log.warning("The picture's IPTC data are too long for a JPEG and are left out.")
        return b""
    return b"\xff\xed" + struct.pack(">H", len(resource) + 2) + resource


def _iptc(resources: Any) -> bytes:
    found = resources.get(IPTC_RECORD) if isinstance(resources, dict) else None
    return found if isinstance(found, bytes) else b""


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    return value if isinstance(value, bytes) else b""


def is_dpi(dpi: Any) -> bool:
    """Return whether ``dpi`` is a pair of resolutions that can be."""
    if not isinstance(dpi, tuple) or len(dpi) != 2:
        return False
    try:
        return all(0 < float(v) < 1e6 for v in dpi)
    except (TypeError, ValueError, ZeroDivisionError):
        return False
