"""Pictures and parts of files made by hand, and what they say by formula."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import torch

from mien import Frame
from mien.media import Metadata, Picture

MARKS = b"<x/>"
"""A packet that stands for mien's marks."""

ORIENTATION = 274

UPRIGHT = {
    # what row 0 and column 0 of the stored pixels are in the scene (Exif 2.32, tag 274)
    1: lambda stored: stored,  # top, left
    2: lambda stored: stored[:, ::-1],  # top, right
    3: lambda stored: stored[::-1, ::-1],  # bottom, right
    4: lambda stored: stored[::-1],  # bottom, left
    5: lambda stored: stored.swapaxes(0, 1),  # left, top
    6: lambda stored: stored[::-1].swapaxes(0, 1),  # right, top
    7: lambda stored: stored[::-1, ::-1].swapaxes(0, 1),  # right, bottom
    8: lambda stored: stored[:, ::-1].swapaxes(0, 1),  # left, bottom
}
"""What makes stored pixels upright, by orientation."""

STORED = UPRIGHT | {6: UPRIGHT[8], 8: UPRIGHT[6]}
"""What makes upright pixels stored ones: the inverse."""


def noise(*shape, dtype=np.uint8, seed=1):
    top = np.iinfo(dtype).max + 1
    return np.random.default_rng(seed).integers(0, top, shape).astype(dtype)


def smooth(height=48, width=64):
    """Return a picture that lossy formats keep within a few codes."""
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([x * 3, y * 4, 255 - x * 2 - y], axis=-1).clip(0, 255).astype(np.uint8)


def picture(pixels, alpha=None, *, metadata=None, **rest):
    """Return a picture of one frame with ``pixels`` (H, W) or (H, W, C)."""
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    frame = Frame(
        torch.from_numpy(np.ascontiguousarray(pixels)),
        alpha=None if alpha is None else torch.from_numpy(np.ascontiguousarray(alpha)),
    )
    return Picture((frame,), name="generated", metadata=metadata or Metadata(), **rest)


def channels(frame):
    """Return the pixels of a frame and its alpha, if it has one, as an array (H, W, C)."""
    parts = [frame.pixels.numpy()]
    if frame.alpha is not None:
        parts.append(frame.alpha.numpy()[..., None])
    return np.concatenate(parts, axis=2)


# PNG

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunk(kind, data):
    check = struct.pack(">I", zlib.crc32(kind + data))
    return struct.pack(">I", len(data)) + kind + data + check


def header(width, height, bits=8, kind=2):
    """Return the signature and the header of a PNG; ``kind`` 2 is RGB."""
    fields = struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, 0)
    return SIGNATURE + chunk(b"IHDR", fields)


def after_header(png, *chunks):
    """Return ``png`` with ``chunks`` after its header."""
    return png[:33] + b"".join(chunks) + png[33:]


def before_end(png, *chunks):
    """Return ``png`` with ``chunks`` after its pixels."""
    return png[:-12] + b"".join(chunks) + png[-12:]


# GIF


def gif_frame(width, height):
    """Return a frame of a GIF, all of one colour: codes of 3 bits, the table cleared each time."""
    stream = 0
    for i, code in enumerate([4, 0] * (width * height) + [5]):
        stream |= code << 3 * i
    data = stream.to_bytes(-(-3 * (2 * width * height + 1) // 8), "little")
    blocks = [data[i : i + 255] for i in range(0, len(data), 255)]
    packed = b"".join(bytes([len(block)]) + block for block in blocks)
    return b"\x2c\0\0\0\0" + struct.pack("<HH", width, height) + b"\0\x02" + packed + b"\0"


def gif(width, height, *frames):
    """Return a GIF with a canvas of this size, black and white."""
    screen = struct.pack("<HH", width, height)
    return b"GIF89a" + screen + b"\x80\0\0\0\0\0\xff\xff\xff" + b"".join(frames) + b";"


# EXIF and TIFF

BYTE, ASCII, SHORT, LONG, RATIONAL, UNDEFINED = 1, 2, 3, 4, 5, 7


def directory(entries, at, order="<", following=0):
    """Return a TIFF directory that begins at offset ``at``, with its data behind it.

    ``entries`` are tags, each with a type, a count and the value's bytes.
    """
    table, data = struct.pack(f"{order}H", len(entries)), b""
    behind = at + 2 + 12 * len(entries) + 4
    for tag, kind, count, value in entries:
        table += struct.pack(f"{order}HHI", tag, kind, count)
        if len(value) <= 4:
            table += value.ljust(4, b"\0")
        else:
            table += struct.pack(f"{order}I", behind + len(data))
            data += value + b"\0" * (len(value) % 2)
    return table + struct.pack(f"{order}I", following) + data


COPYRIGHT, MAKER = "© nobody", b"MAKER\0\x01\x02\xff" * 5
LATITUDE = (52, 31, 12.5)
THUMBNAIL = b"\xff\xd8the face as it was\xff\xd9"


def exif(turn=1, order="<", more=()):
    """Return EXIF data as cameras write them: with a place, a maker's note and a thumbnail."""
    start = {"<": b"II*\0", ">": b"MM\0*"}[order]
    notes = directory([(37500, UNDEFINED, len(MAKER), MAKER)], 8, order)
    at_place = 8 + len(notes)
    degrees = struct.pack(f"{order}6I", 52, 1, 31, 1, 125, 10)
    place = directory([(1, ASCII, 2, b"N\0"), (2, RATIONAL, 3, degrees)], at_place, order)
    at_first = at_place + len(place)
    text = COPYRIGHT.encode() + b"\0"
    entries = [
        (271, ASCII, 5, b"mien\0"),
        (ORIENTATION, SHORT, 1, struct.pack(f"{order}H", turn)),
        *more,
        (33432, ASCII, len(text), text),
        (34665, LONG, 1, struct.pack(f"{order}I", 8)),
        (34853, LONG, 1, struct.pack(f"{order}I", at_place)),
    ]
    at_second = at_first + len(directory(entries, at_first, order))
    first = directory(entries, at_first, order, following=at_second)
    small = [
        (259, SHORT, 1, struct.pack(f"{order}H", 6)),
        (513, LONG, 1, struct.pack(f"{order}I", at_second + 2 + 3 * 12 + 4)),
        (514, LONG, 1, struct.pack(f"{order}I", len(THUMBNAIL))),
    ]
    second = directory(small, at_second, order) + THUMBNAIL
    return b"Exif\0\0" + start + struct.pack(f"{order}I", at_first) + notes + place + first + second


# ICC profiles (ICC.1:2001-04), and what they say by formula

D65, D50 = (0.3127, 0.3290), (0.9642, 1.0, 0.8249)
BRADFORD = np.array(
    [[0.8951, 0.2664, -0.1614], [-0.7502, 1.7135, 0.0367], [0.0389, -0.0685, 1.0296]]
)
SRGB = ((0.64, 0.33), (0.30, 0.60), (0.15, 0.06))
P3 = ((0.680, 0.320), (0.265, 0.690), (0.150, 0.060))
ADOBE = ((0.64, 0.33), (0.21, 0.71), (0.15, 0.06))
ADOBE_GAMMA = 563 / 256


def to_xyz(primaries):
    """Return the matrix (3, 3) from linear RGB with a white of D65 to XYZ with one of D50."""

    def spread(x, y):
        return np.array([x / y, 1, (1 - x - y) / y])

    columns = np.stack([spread(*point) for point in primaries], axis=1)
    white = spread(*D65)
    scaled = columns * np.linalg.solve(columns, white)
    gains = (BRADFORD @ np.array(D50)) / (BRADFORD @ white)
    return np.linalg.inv(BRADFORD) @ np.diag(gains) @ BRADFORD @ scaled


def srgb_linear(values):
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def srgb_coded(linear):
    linear = np.clip(linear, 0, 1)
    return np.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055)


def in_srgb_by_formula(codes, primaries, linear):
    """Return sRGB codes, float, of ``codes`` (..., 3), 0 to 255, in another space of colours."""
    xyz = linear(codes / 255) @ to_xyz(primaries).T
    return 255 * srgb_coded(xyz @ np.linalg.inv(to_xyz(SRGB)).T)


def fixed(*values):
    return b"".join(struct.pack(">i", round(value * 65536)) for value in values)


def text_tags(name):
    said = name.encode() + b"\0"
    described = b"desc" + bytes(4) + struct.pack(">I", len(said)) + said + bytes(78)
    return {b"desc": described, b"cprt": b"text" + bytes(4) + b"CC0\0"}


def profile_of(kind, space, tags, connection=b"XYZ "):
    """Return a profile, version 2.1, of class ``kind`` for pixels of ``space``."""
    place, table, data = 128 + 4 + 12 * len(tags), struct.pack(">I", len(tags)), b""
    for name, value in tags.items():
        table += name + struct.pack(">II", place + len(data), len(value))
        data += value + b"\0" * (-len(value) % 4)
    head = struct.pack(">I4sI4s4s4s", 132 + len(table) - 4 + len(data), b"\0" * 4, 0x02100000,
                       kind, space, connection)  # fmt: skip
    head += struct.pack(">6H", 2026, 1, 1, 0, 0, 0) + b"acsp" + bytes(28) + fixed(*D50)
    return head.ljust(128, b"\0") + table + data


def curve(gamma):
    """Return a curve: a power, or sRGB's as 1024 steps."""
    if gamma == "srgb":
        codes = np.round(65535 * srgb_linear(np.linspace(0, 1, 1024))).astype(">u2")
        return b"curv" + bytes(4) + struct.pack(">I", 1024) + codes.tobytes()
    return b"curv" + bytes(4) + struct.pack(">IH", 1, round(gamma * 256)) + b"\0\0"


def rgb_profile(primaries, gamma, name="RGB"):
    """Return the profile of an RGB space; ``gamma`` is a power or 'srgb'."""
    columns = to_xyz(primaries).T
    tags = text_tags(name) | {b"wtpt": b"XYZ " + bytes(4) + fixed(*D50)}
    for letter, column in zip((b"r", b"g", b"b"), columns, strict=True):
        tags[letter + b"XYZ"] = b"XYZ " + bytes(4) + fixed(*column)
        tags[letter + b"TRC"] = curve(gamma)
    return profile_of(b"mntr", b"RGB ", tags)


def gray_profile(gamma):
    """Return the profile of a gray with a power curve."""
    tags = text_tags("gray") | {b"wtpt": b"XYZ " + bytes(4) + fixed(*D50), b"kTRC": curve(gamma)}
    return profile_of(b"mntr", b"GRAY", tags)


def ink_profile():
    """Return the profile of CMYK inks that only take light away: the fourth all of it.

    Its tables have the corners of the cube as their only points.
    """
    line = np.arange(256, dtype=np.uint8).tobytes()

    def table(inputs, outputs, nodes):
        head = b"mft1" + bytes(4) + bytes([inputs, outputs, 2, 0])
        return head + fixed(1, 0, 0, 0, 1, 0, 0, 0, 1) + line * inputs + nodes + line * outputs

    lightness = b"".join(
        bytes([round(255 * (1 - k) * (3 - c - m - y) / 3), 128, 128])
        for c in (0, 1) for m in (0, 1) for y in (0, 1) for k in (0, 1)
    )  # fmt: skip
    inks = b"".join(
        bytes([0, 0, 0, 0 if lab[0] else 255])
        for lab in ((i, j, k) for i in (0, 1) for j in (0, 1) for k in (0, 1))
    )
    tags = text_tags("inks") | {
        b"wtpt": b"XYZ " + bytes(4) + fixed(*D50),
        b"A2B0": table(4, 3, lightness),
        b"B2A0": table(3, 4, inks),
    }
    return profile_of(b"prtr", b"CMYK", tags, connection=b"Lab ")
