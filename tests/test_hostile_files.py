"""Files that are broken, mislabelled or malign: a clear error or a right picture, and in time.

No traceback, no hang, and no output where there is no picture.
"""

from __future__ import annotations

import io
import os
import socket
import stat
import struct
import sys
import threading
import traceback
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import pytest
import tifffile
from conftest import CONSENT
from making import (
    LONG,
    ORIENTATION,
    SHORT,
    SIGNATURE,
    after_header,
    before_end,
    chunk,
    directory,
    exif,
    gif,
    gif_frame,
    header,
    noise,
    rgb_profile,
)
from making import SRGB as SRGB_PRIMARIES
from PIL import Image

from mien.errors import PictureUnreadable
from mien.media import read_picture

# What decoders warn of on their own account has a test in tests/media/test_metadata.py.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL")

SECONDS = 5.0
"""Longest that a file may take; most take milliseconds."""

MEGAPIXELS = 20.0


# What may come of a file


@dataclass(frozen=True)
class Case:
    """A hostile file, and what is right to do with it."""

    make: Callable[[Path], object]
    name: str = "target.png"
    shape: tuple[int, ...] | None = None
    """Of the picture that must be read; None if none can be."""

    either: bool = False
    """Whether it may be read or refused: damage need not show."""


def of(data: bytes, name: str = "target.png", **what: Any) -> Case:
    """Return the case of a file with this content."""
    return Case(lambda path: path.write_bytes(data), name, **what)


CASES: dict[str, Case] = {}


# Good files to start from


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def with_tifffile(pixels: np.ndarray, **options: Any) -> bytes:
    buffer = io.BytesIO()
    tifffile.imwrite(buffer, pixels, metadata=None, **options)
    return buffer.getvalue()


HEIGHT, WIDTH = 24, 32
IMAGES = [Image.fromarray(noise(HEIGHT, WIDTH, 3, seed=i)) for i in range(3)]
DEEP = noise(HEIGHT, WIDTH, 3, dtype=np.uint16)
PROFILE = rgb_profile(SRGB_PRIMARIES, "srgb")
BESIDE = {"exif": exif(6), "icc_profile": PROFILE, "xmp": b'<x:xmpmeta xmlns:x="adobe:ns:meta/"/>'}
MOVES = {"save_all": True, "append_images": IMAGES[1:], "duration": 50}

STILL = {
    "jpg": saved(IMAGES[0], "JPEG", **BESIDE),
    "progressive.jpg": saved(IMAGES[0], "JPEG", progressive=True),
    "inks.jpg": saved(IMAGES[0].convert("CMYK"), "JPEG"),
    "png": saved(IMAGES[0], "PNG", exif=exif(6), icc_profile=PROFILE),
    "palette.png": saved(IMAGES[0].quantize(16), "PNG", transparency=3),
    "deep.png": imagecodecs.png_encode(DEEP),
    "webp": saved(IMAGES[0], "WEBP", **BESIDE),
    "lossless.webp": saved(IMAGES[0], "WEBP", lossless=True),
    "avif": saved(IMAGES[0], "AVIF", **BESIDE),
    "tif": saved(IMAGES[0], "TIFF"),
    "lzw.tif": saved(IMAGES[0], "TIFF", compression="tiff_lzw"),
    "jpeg.tif": saved(IMAGES[0], "TIFF", compression="jpeg"),
    "deep.tif": with_tifffile(DEEP, photometric="rgb"),
    "deep.deflate.tif": with_tifffile(DEEP, photometric="rgb", compression="deflate"),
    "deep.tiles.tif": with_tifffile(DEEP, photometric="rgb", tile=(16, 16), byteorder=">"),
    "bmp": saved(IMAGES[0], "BMP"),
    "gif": saved(IMAGES[0].quantize(64), "GIF", comment="said"),
}
MOVING = {
    "moving.gif": saved(IMAGES[0], "GIF", **MOVES),
    "moving.png": saved(IMAGES[0], "PNG", **MOVES),
    "moving.webp": saved(IMAGES[0], "WEBP", **MOVES),
    "moving.avif": saved(IMAGES[0], "AVIF", **MOVES),
}


# Cut


for kind, data in (STILL | MOVING).items():
    for share in (0.1, 0.6, 0.95):
        # the last part of a file may be metadata, and an animation may end at any of its frames
        CASES[f"{kind}, cut at {share:.0%}"] = of(
            data[: int(share * len(data))], f"target.{kind}", either=share > 0.9 or kind in MOVING
        )


# Flipped


def flipped(data: bytes, seed: int) -> bytes:
    """Return ``data`` with three bits changed, one of them near the beginning."""
    changed, draw = bytearray(data), np.random.default_rng(seed)
    for high in (min(len(data), 200), len(data), len(data)):
        changed[draw.integers(0, high)] ^= 1 << draw.integers(0, 8)
    return bytes(changed)


for kind, data in (STILL | MOVING).items():
    for seed in range(3):
        CASES[f"{kind}, flipped {seed}"] = of(flipped(data, seed), f"target.{kind}", either=True)
for kind, data in STILL.items():
    blank = data[: len(data) // 3] + bytes(len(data) // 3) + data[2 * len(data) // 3 :]
    CASES[f"{kind}, blank in the middle"] = of(blank, f"target.{kind}", either=True)


def wrong_in_pixels(png: bytes) -> bytes:
    """Return ``png`` with a bit of its pixels changed, which its check then does not fit."""
    at = png.index(b"IDAT") + 40
    return png[:at] + bytes([png[at] ^ 4]) + png[at + 1 :]


ROWS = b"".join(b"\0" + row.tobytes() for row in np.array(IMAGES[0]))
PNGS = {kind: STILL[kind] for kind in ("png", "palette.png", "deep.png")} | {
    "unpacked.png": header(WIDTH, HEIGHT)
    + chunk(b"IDAT", zlib.compress(ROWS, 0))
    + chunk(b"IEND", b"")
}
for kind, data in PNGS.items():
    CASES[f"{kind}, a bit of its pixels wrong"] = of(wrong_in_pixels(data))


# Something else


def zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("target.png", STILL["png"])
    return buffer.getvalue()


ELSE = {
    "nothing": b"",
    "one byte": b"\xff",
    "zeros": bytes(5000),
    "text": b"These are words.\n" * 40,
    "HTML": b"<!DOCTYPE html><html><body><img src='target.png'></body></html>",
    "SVG": b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>',
    "JSON": b'{"target": "png"}',
    "a zip": zipped(),
    "gzip": zlib.compress(STILL["png"], wbits=31),
    "MP4": b"\0\0\0\x18ftypmp42\0\0\0\0isommp42" + bytes(400),
    "QuickTime": b"\0\0\0\x14ftypqt  \0\0\0\0qt  " + bytes(400),
    "PDF": b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog >>\nendobj\n",
    "PostScript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 99 99\nshowpage\n",
    "Photoshop": b"8BPS\0\1" + bytes(6) + struct.pack(">HIIHH", 3, 9, 9, 8, 3),
    "JPEG 2000": b"\0\0\0\x0cjP  \r\n\x87\n" + bytes(40),
    "an icon": saved(IMAGES[0], "ICO"),
    "a program": b"\x7fELF\2\1\1" + bytes(100),
    "a WAVE": b"RIFF\x24\0\0\0WAVEfmt " + bytes(30),
    "marks in UTF-16": "These are words.".encode("utf-16"),
    "a picture after a line": b"\n" + STILL["png"],
    "HTML before a picture": b"<html>" + STILL["jpg"],
    "bytes of all kinds": noise(5000, seed=3).tobytes(),
}
for name, data in ELSE.items():
    for suffix in ("png", "jpg") if name in ("text", "a zip", "MP4") else ("tif",):
        CASES[f"{name} as {suffix}"] = of(data, f"target.{suffix}")

BEGINNINGS = {
    "jpg": b"\xff\xd8\xff",
    "png": SIGNATURE,
    "gif": b"GIF89a",
    "webp": b"RIFF\x20\0\0\0WEBPVP8 ",
    "tif": b"II*\0",
    "big.tif": b"MM\0+\0\x08\0\0" + bytes(8),
    "bmp": b"BM",
    "avif": b"\0\0\0\x1cftypavif\0\0\0\0avifmif1miaf",
    "heic": b"\0\0\0\x18ftypheic\0\0\0\0mif1heic",
    "mif.heic": b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic",
}
for kind, data in BEGINNINGS.items():
    CASES[f"{kind}, only the beginning"] = of(data, f"target.{kind}")
    CASES[f"{kind}, the beginning and noise"] = of(
        data + noise(2000, seed=5).tobytes(), f"target.{kind}"
    )


# Sizes that cannot be


END = chunk(b"IEND", b"")
PIXELS = chunk(b"IDAT", zlib.compress(bytes(100)))


def with_bytes(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def jpeg_of(width: int, height: int) -> bytes:
    data = STILL["jpg"]
    return with_bytes(data, data.index(b"\xff\xc0") + 5, struct.pack(">HH", height, width))


def bmp_of(width: int, height: int) -> bytes:
    return with_bytes(STILL["bmp"], 18, struct.pack("<ii", width, height))


def tiff_of(*entries: tuple[int, int, int, bytes], following: int = 0) -> bytes:
    """Return a gray TIFF of 8 x 8 pixels, with ``entries`` instead of its own."""
    own = {
        256: (SHORT, 1, struct.pack("<H", 8)),
        257: (SHORT, 1, struct.pack("<H", 8)),
        258: (SHORT, 1, struct.pack("<H", 8)),
        259: (SHORT, 1, struct.pack("<H", 1)),
        262: (SHORT, 1, struct.pack("<H", 1)),
        273: (LONG, 1, struct.pack("<I", 1000)),
        277: (SHORT, 1, struct.pack("<H", 1)),
        278: (SHORT, 1, struct.pack("<H", 8)),
        279: (LONG, 1, struct.pack("<I", 64)),
    } | {tag: (kind, count, value) for tag, kind, count, value in entries}
    table = directory([(tag, *own[tag]) for tag in sorted(own)], 8, following=following)
    return (b"II*\0\x08\0\0\0" + table).ljust(1000, b"\0") + bytes(range(64))


def long(tag: int, value: int) -> tuple[int, int, int, bytes]:
    return tag, LONG, 1, struct.pack("<I", value)


def vp8x(width: int, height: int) -> bytes:
    size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    body = b"WEBPVP8X\x0a\0\0\0\0\0\0\0" + size
    return b"RIFF" + struct.pack("<I", len(body)) + body


SIZES = {
    "png of no width": (header(0, 8) + PIXELS + END, "png"),
    "png of no height": (header(8, 0) + PIXELS + END, "png"),
    "png of 40,000 megapixels": (header(200_000, 200_000) + PIXELS + END, "png"),
    "png of all numbers": (header(2**31 - 1, 2**31 - 1) + PIXELS + END, "png"),
    "png of a negative width": (header(2**32 - 1, 8) + PIXELS + END, "png"),
    "png of 3 bits": (header(8, 8, bits=3) + PIXELS + END, "png"),
    "png of kind 5": (header(8, 8, kind=5) + PIXELS + END, "png"),
    "png without pixels": (header(8, 8) + END, "png"),
    "png with empty pixels": (header(8, 8) + chunk(b"IDAT", b"") + END, "png"),
    "png with too few pixels": (header(8, 8) + PIXELS + END, "png"),
    "png whose pixels are not packed": (header(8, 8) + chunk(b"IDAT", b"x" * 200) + END, "png"),
    "deep png of 40,000 megapixels": (header(200_000, 200_000, 16) + PIXELS + END, "png"),
    "deep png without pixels": (header(8, 8, 16) + END, "png"),
    "deep png with too few pixels": (header(8, 8, 16) + PIXELS + END, "png"),
    "png with a palette that lacks": (header(8, 8, 8, 3) + PIXELS + END, "png"),
    "jpg of no size": (jpeg_of(0, 0), "jpg"),
    "jpg of no height": (jpeg_of(32, 0), "jpg"),
    "jpg of 4,300 megapixels": (jpeg_of(65_535, 65_535), "jpg"),
    "bmp of no width": (bmp_of(0, 24), "bmp"),
    "bmp of no height": (bmp_of(32, 0), "bmp"),
    "bmp of a negative width": (bmp_of(-32, 24), "bmp"),
    "bmp of all numbers": (bmp_of(2**31 - 1, 2**31 - 1), "bmp"),
    "bmp of the least height": (bmp_of(32, -(2**31)), "bmp"),
    "gif of 4,300 megapixels": (gif(65_535, 65_535, gif_frame(1, 1)), "gif"),
    "gif without frames": (gif(8, 8), "gif"),
    "gif with a frame of 4,300 megapixels": (
        gif(1, 1, b"\x2c\0\0\0\0\xff\xff\xff\xff\0\x02\0"),
        "gif",
    ),
    "webp of 268 megapixels": (vp8x(16_384, 16_384), "webp"),
    "webp of all numbers": (vp8x(2**24, 2**24), "webp"),
    "tif of no width": (tiff_of(long(256, 0)), "tif"),
    "tif of no height": (tiff_of(long(257, 0)), "tif"),
    "tif of all numbers": (tiff_of(long(256, 2**32 - 1), long(257, 2**32 - 1)), "tif"),
    "tif of 65,535 channels": (tiff_of(long(277, 65_535)), "tif"),
    "tif of 4 billion bits": (tiff_of(long(258, 2**32 - 1)), "tif"),
    "tif of no bits": (tiff_of(long(258, 0)), "tif"),
    "tif with pixels beyond its end": (tiff_of(long(273, 2**31)), "tif"),
    "tif with 4 GB in a strip": (tiff_of(long(279, 2**32 - 1), long(273, 2**32 - 2)), "tif"),
    "tif with strips without end": (tiff_of((273, LONG, 2**30, struct.pack("<I", 8))), "tif"),
    "tif packed in an unknown way": (tiff_of(long(259, 4711)), "tif"),
    "tif packed as what it is not": (tiff_of(long(259, 8)), "tif"),
    "tif with tiles of no size": (tiff_of(long(322, 0), long(323, 0), long(324, 8)), "tif"),
    "tif whose directory lies beyond": (b"II*\0\xff\xff\xff\x7f" + bytes(100), "tif"),
    "tif whose directory is its header": (b"II*\0\0\0\0\0" + bytes(100), "tif"),
    "tif with 65,535 entries": (b"II*\0\x08\0\0\0\xff\xff" + bytes(200), "tif"),
}
EITHER = {
    *("tif with 4 GB in a strip", "tif with strips without end", "tif of no bits"),
    *(
        "png with too few pixels",
        "png whose pixels are not packed",
        "png with a palette that lacks",
        "tif with tiles of no size",
    ),
}
"""Decoders may make something of them, as they do of damaged pixels."""

for name, (data, suffix) in SIZES.items():
    CASES[name] = of(data, f"target.{suffix}", either=name in EITHER)


# Bombs


def packed(size: int) -> bytes:
    return zlib.compress(bytes(size), 9)


def apng(frames: int) -> bytes:
    return after_header(STILL["png"], chunk(b"acTL", struct.pack(">II", frames, 0)))


def chain(count: int) -> bytes:
    """Return a TIFF with so many directories."""
    one = tiff_of(following=len(tiff_of()))
    entries = one[8 : 8 + 2 + 12 * 9]
    rest = b"".join(
        entries
        + struct.pack("<I", 0 if i == count - 1 else len(one) + (i + 1) * (len(entries) + 4))
        for i in range(count)
    )
    return one + rest


LOOP = with_bytes(tiff_of(), 8 + 2 + 12 * 9, struct.pack("<I", 8))
SHAPE = (WIDTH, HEIGHT, 3)  # upright: the EXIF data say that it lies on its side

CASES |= {
    "png with a profile that unpacks to 50 MB": of(
        after_header(saved(IMAGES[0], "PNG"), chunk(b"iCCP", b"n\0\0" + packed(50_000_000))),
        either=True,
    ),
    "png with a text that unpacks to 50 MB": of(
        after_header(saved(IMAGES[0], "PNG"), chunk(b"zTXt", b"n\0\0" + packed(50_000_000))),
        either=True,
    ),
    "png with a late text that unpacks to 50 MB": of(
        before_end(saved(IMAGES[0], "PNG"), chunk(b"zTXt", b"n\0\0" + packed(50_000_000))),
        either=True,
    ),
    "png with a hundred texts of 1 MB": of(
        after_header(
            saved(IMAGES[0], "PNG"), *[chunk(b"zTXt", b"n\0\0" + packed(1_000_000))] * 100
        ),
        either=True,
    ),
    "png with pixels that unpack to 50 MB": of(
        header(8, 8) + chunk(b"IDAT", packed(50_000_000)) + END, shape=(8, 8, 3)
    ),
    "deep png with pixels that unpack to 50 MB": of(
        header(8, 8, 16) + chunk(b"IDAT", packed(50_000_000)) + END, shape=(8, 8, 3)
    ),
    "png of 20,000 frames": of(apng(20_000)),
    "png of two billion frames": of(apng(2**31 - 1)),
    "png of more frames than there can be": of(apng(2**32 - 1), either=True),
    "png of no frames": of(apng(0), either=True),
    "png with half a frame": of(apng(2), either=True),
    "gif of 100,000 frames": of(gif(1, 1, *[gif_frame(1, 1)] * 100_000), "target.gif"),
    "gif with frames that grow": of(
        gif(1, 1, gif_frame(1, 1), *[b"\x2c\0\0\0\0\x00\x20\x00\x20\0\x02\0"] * 50),
        "target.gif",
        either=True,
    ),
    "gif without end": of(gif(8, 8, gif_frame(8, 8))[:-1], "target.gif", shape=(8, 8, 3)),
    "gif with codes without end": of(
        gif(8, 8, b"\x2c\0\0\0\0\x08\0\x08\0\0\x02" + b"\xff" * 5000), "target.gif"
    ),
    "gif with codes of 12 bits": of(
        gif(8, 8, b"\x2c\0\0\0\0\x08\0\x08\0\0\x0c\x02\x44\x01\0"), "target.gif"
    ),
    "tif whose next directory is itself": of(LOOP, "target.tif", shape=(8, 8, 1)),
    "tif of 40,000 directories": of(chain(40_000), "target.tif", shape=(8, 8, 1)),
    "tif with a directory in itself": of(
        tiff_of(long(34665, 8), long(34853, 8)), "target.tif", shape=(8, 8, 1)
    ),
    "tif that unpacks to 50 MB": of(
        tiff_of(long(259, 8), long(279, len(packed(50_000_000))))[:1000] + packed(50_000_000),
        "target.tif",
        either=True,
    ),
}


# Good pictures with bad company


def jpeg_with(marker: int, data: bytes) -> bytes:
    """Return a JPEG with a segment at its beginning."""
    plain = saved(IMAGES[0], "JPEG")
    return plain[:2] + bytes([0xFF, marker]) + struct.pack(">H", len(data) + 2) + data + plain[2:]


PLAIN = (HEIGHT, WIDTH, 3)
COMPANY = {
    "EXIF of noise": jpeg_with(0xE1, b"Exif\0\0" + noise(3000, seed=4).tobytes()),
    "EXIF cut short": jpeg_with(0xE1, exif()[:90]),
    "EXIF without end": jpeg_with(0xE1, b"Exif\0\0II*\0\x08\0\0\0\xff\xff" + b"\x12\x01" * 900),
    "EXIF that points at itself": jpeg_with(
        0xE1, b"Exif\0\0II*\0\x08\0\0\0" + directory([long(34665, 8), long(34853, 8)], 8)
    ),
    "a profile of noise": jpeg_with(0xE2, b"ICC_PROFILE\0\1\1" + noise(900).tobytes()),
    "a profile of which parts lack": jpeg_with(0xE2, b"ICC_PROFILE\0\2\3" + PROFILE),
    "a profile that says it is endless": jpeg_with(
        0xE2, b"ICC_PROFILE\0\1\1" + b"\xff\xff\xff\xff" + PROFILE[4:]
    ),
    "XMP of noise": jpeg_with(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + noise(900).tobytes()),
    "Photoshop's data cut short": jpeg_with(0xED, b"Photoshop 3.0\x008BIM\x04\x04\0\0\xff\xff\xff"),
    "parts that are not there": jpeg_with(0xE2, b"MPF\0" + noise(200, seed=6).tobytes()),
    "a comment of noise": jpeg_with(0xFE, noise(60_000).tobytes()),
    "a film behind it": saved(IMAGES[0], "JPEG") + ELSE["MP4"],
    "another picture behind it": saved(IMAGES[0], "JPEG") + STILL["png"],
    "text behind it": saved(IMAGES[0], "JPEG") + b"x" * 5000,
}
for name, data in COMPANY.items():
    CASES[f"jpg with {name}"] = of(data, "target.jpg", shape=PLAIN)
CASES["jpg with a strange Adobe mark"] = of(jpeg_with(0xEE, b"Adobe\0"), "target.jpg", either=True)
CASES |= {
    "png with another picture behind it": of(saved(IMAGES[0], "PNG") + STILL["png"], shape=PLAIN),
    "png with a wrong check in its text": of(
        after_header(saved(IMAGES[0], "PNG"), chunk(b"tEXt", b"a\0b")[:-1] + b"?"), either=True
    ),
    "png with an unknown chunk": of(
        after_header(saved(IMAGES[0], "PNG"), chunk(b"miEn", bytes(99))), shape=PLAIN
    ),
    "png with EXIF of noise": of(
        after_header(saved(IMAGES[0], "PNG"), chunk(b"eXIf", noise(300, seed=8).tobytes())),
        shape=PLAIN,
    ),
    "two pictures in one": of(
        saved(IMAGES[0], "MPO", save_all=True, append_images=IMAGES[1:]), "target.jpg", shape=PLAIN
    ),
    "jpg called png": of(saved(IMAGES[0], "JPEG"), "target.png", shape=PLAIN),
    "png called jpg": of(saved(IMAGES[0], "PNG"), "target.jpg", shape=PLAIN),
    "gif called webp": of(saved(IMAGES[0].quantize(64), "GIF"), "target.webp", shape=PLAIN),
    "tif that turns in an unknown way": of(
        tiff_of(long(ORIENTATION, 99)), "target.tif", shape=(8, 8, 1)
    ),
}


def overlapping(count: int, size: int) -> bytes:
    """Return EXIF data of ``size`` bytes with ``count`` tags that all hold nearly all of them."""
    rows = [struct.pack("<HHII", 40_000 + i, 7, size - 8, 8) for i in range(count)]
    table = struct.pack("<H", count) + b"".join(rows) + bytes(4)
    return b"Exif\0\0" + (b"II*\0\x08\0\0\0" + table).ljust(size, b"\0")


CASES["jpg with tags that lie on each other"] = of(
    jpeg_with(0xE1, overlapping(1000, 60_000)), "target.jpg", shape=PLAIN
)
CASES["png with tags that lie on each other"] = of(
    after_header(saved(IMAGES[0], "PNG"), chunk(b"eXIf", overlapping(1000, 60_000)[6:])),
    shape=PLAIN,
)


# What is no file


def listening(path: Path) -> object:
    one = socket.socket(socket.AF_UNIX)
    try:
        one.bind(str(path))
    except OSError:  # a path too long for a socket
        pytest.skip("the folder for temporary files has too long a name")
    finally:
        one.close()
    return one


def device(name: str) -> Callable[[Path], object]:
    def make(path: Path) -> None:
        if not Path(name).exists():
            pytest.skip(f"there is no {name}")
        path.symlink_to(name)

    return make


NO_FILES = {
    "nothing at all": lambda path: None,
    "a folder": Path.mkdir,
    "a link to nothing": lambda path: path.symlink_to("nowhere.png"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "links in a ring": lambda path: (
        path.symlink_to("other.png"),
        path.with_name("other.png").symlink_to(path.name),
    ),
    "a pipe": os.mkfifo if hasattr(os, "mkfifo") else lambda path: pytest.skip("no pipes here"),
    "a socket": listening,
    "zeros without end": device("/dev/zero"),
    "noise without end": device("/dev/urandom"),
    "a full device": device("/dev/full"),
    "the terminal": device("/dev/tty"),
}
for name, make in NO_FILES.items():
    CASES[name] = Case(make)


# The tests


def within(seconds: float, action: Callable[[], Any]) -> Any:
    """Return what ``action`` returns or raise what it raises; fail if it does not end in time."""
    outcome: list[Any] = []

    def work() -> None:
        try:
            outcome.append((action(), None))
        except BaseException as error:  # noqa: BLE001 - it is raised again below
            outcome.append((None, error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        frame = sys._current_frames().get(thread.ident or 0)
        where = "".join(traceback.format_stack(frame)[-6:]) if frame else ""
        pytest.fail(f"it was not done after {seconds:.0f} seconds:\n{where}")
    value, error = outcome[0]
    if error is not None:
        raise error
    return value


def everything_in(folder: Path) -> list[tuple[str, int]]:
    """Return names and kinds of all that lies in a folder."""
    return sorted((path.name, stat.S_IFMT(path.lstat().st_mode)) for path in folder.iterdir())


def test_there_are_more_than_a_hundred():
    assert len(CASES) > 100


@pytest.mark.parametrize("name", CASES)
def test_it_is_refused_by_name_or_read(tmp_path, name):
    case = CASES[name]
    path = tmp_path / case.name
    case.make(path)
    before = everything_in(tmp_path)
    try:
        read = within(SECONDS, lambda: read_picture(path, max_megapixels=MEGAPIXELS))
    except PictureUnreadable as error:
        said = str(error)
        assert str(path) in said
        assert error.path == path  # noqa: PT017
        assert len(said) < 600
        assert case.either or case.shape is None, said
    else:
        assert case.either or case.shape is not None, f"it was read, as {read}"
        if case.shape is not None:
            assert tuple(read.frame.pixels.shape) == case.shape
        assert sum(frame.width * frame.height for frame in read.frames) <= MEGAPIXELS * 1e6
        assert len({frame.pixels.shape for frame in read.frames}) == 1
    assert everything_in(tmp_path) == before


@pytest.fixture
def limited(loaded, swapper, monkeypatch):
    """Let the command have the limit of these tests."""
    monkeypatch.setattr(swapper, "max_megapixels", MEGAPIXELS)


@pytest.mark.parametrize("name", CASES)
def test_the_command_says_so_and_leaves_nothing(mien_, limited, people, tmp_path, name):
    case = CASES[name]
    path, out = tmp_path / case.name, tmp_path / "out.png"
    case.make(path)
    before = everything_in(tmp_path)
    code, _, errors = within(
        SECONDS,
        lambda: mien_("swap", people["dev"], path, "-o", out, "--consent", CONSENT, "--quiet"),
    )
    assert everything_in(tmp_path) == before
    assert "Traceback" not in errors
    assert "did not foresee" not in errors
    assert case.name in errors
    lines = errors.strip().splitlines()
    assert all(line.startswith("mien: ") for line in lines if not line.startswith("\t")), errors
    if case.shape is not None:
        assert code == 3, errors  # it is read, and there is no face in it
    elif case.either:
        assert code in (1, 3), errors
    else:
        assert code in (1, 2), errors


SOURCES = [
    *("png, cut at 60%", "jpg, cut at 10%", "text as jpg", "nothing as tif"),
    *("png of 40,000 megapixels", "gif of 100,000 frames", "tif of all numbers"),
    *("a pipe", "a folder", "a link to itself", "zeros without end", "nothing at all"),
    *("jpg with EXIF of noise", "tif whose next directory is itself"),
]


@pytest.mark.parametrize("name", SOURCES)
def test_it_is_no_source_either(mien_, limited, people, tmp_path, name):
    case = CASES[name]
    path, out = tmp_path / case.name, tmp_path / "out.png"
    case.make(path)
    before = everything_in(tmp_path)
    code, _, errors = within(
        SECONDS,
        lambda: mien_("swap", path, people["ben"], "-o", out, "--consent", CONSENT, "--quiet"),
    )
    assert code == (3 if case.shape else 2 if name == "a folder" else 1), errors
    assert case.name in errors
    assert "Traceback" not in errors
    assert everything_in(tmp_path) == before


NAMES = {
    "too long": "x" * 300 + ".png",
    "too long for any system": "y/" * 3000 + "x.png",
    "with a nought": "a\0b.png",
    "with half a letter": os.fsdecode(b"a\xff\xfeb.png"),
    "empty": "",
    "of blanks": "   ",
    "a pattern": "[x].png",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_cannot_be_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PictureUnreadable):
        read_picture(NAMES[name])


@pytest.mark.parametrize("name", sorted(NAMES.keys() - {"with a nought", "with half a letter"}))
@pytest.mark.parametrize("place", ["source", "target"])
def test_the_command_refuses_a_name_that_cannot_be(
    mien_, loaded, people, tmp_path, monkeypatch, name, place
):
    monkeypatch.chdir(tmp_path)
    pictures = {"source": people["dev"], "target": people["ben"]} | {place: NAMES[name]}
    code, _, errors = mien_("swap", *pictures.values(), "-o", "out.png", "--consent", CONSENT)
    assert code in (1, 2), errors
    assert errors.startswith("mien: ")
    assert "report could not be printed" not in errors
    assert "did not foresee" not in errors
    assert list(tmp_path.iterdir()) == []
