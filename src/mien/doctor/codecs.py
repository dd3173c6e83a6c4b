"""What mien can read and write here: kinds of pictures, and video."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from PIL import features

from mien.media import FORMATS

PICTURES: tuple[tuple[str, str, str | None], ...] = (
    ("JPEG", ".jpg", "jpg"),
    ("PNG", ".png", "zlib"),
    ("WebP", ".webp", "webp"),
    ("AVIF", ".avif", "avif"),
    ("TIFF", ".tif", "libtiff"),
    ("BMP", ".bmp", None),
    ("GIF", ".gif", None),
)
"""Kinds of pictures, their suffixes, and what Pillow must have been built with for each."""


@dataclass(frozen=True, slots=True)
class Codec:
    """One kind of file."""

    name: str
    read: bool
    write: bool
    """Whether mien writes it here."""

    remedy: str | None = None
    """What to install if it cannot be read."""


@dataclass(frozen=True, slots=True)
class HardwareEncoders:
    """What a family of hardware encoders does here, as a trial of each showed."""

    family: str
    """What ``--encoder`` calls it."""

    codecs: tuple[str, ...]
    """What it encodes."""

    why: str | None = None
    """What is wrong with the first that does not work."""


@dataclass(frozen=True, slots=True)
class Codecs:
    """Kinds of files."""

    pictures: tuple[Codec, ...]
    ffmpeg: str | None
    """Version of the FFmpeg that PyAV brings, or None without PyAV: then there is no video."""

    remedy: str | None = None
    """What to install if there is no video."""

    encoders: tuple[HardwareEncoders, ...] = ()
    """Families that FFmpeg is built with."""


def look_at_codecs() -> Codecs:
    """Return what can be read and written here. Never fails; takes some seconds."""
    pictures = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a feature that this Pillow does not know
        for name, suffix, feature in PICTURES:
            there = feature is None or bool(features.check(feature))
            remedy = None if there else "pip install --upgrade pillow"
            pictures.append(Codec(name, there, there and suffix in FORMATS, remedy))
    heic = _module("pi_heif") is not None
    pictures.append(Codec("HEIC", heic, False, None if heic else 'pip install "mien[heic]"'))
    av = _module("av")
    if av is None:
        return Codecs(tuple(pictures), None, "pip install av")
    version = str(getattr(av, "ffmpeg_version_info", "of unknown version"))
    return Codecs(tuple(pictures), version, encoders=look_at_encoders())


def look_at_encoders() -> tuple[HardwareEncoders, ...]:
    """Return what hardware encodes here, tried with pictures of 1280 x 720. Never fails."""
    offload = _module("mien.media.clip.offload")
    if offload is None:
        return ()
    found = []
    for family in offload.families.ORDER:
        codecs: list[str] = []
        why = None
        for codec, wrong in offload.trials(family):
            if not wrong:
                codecs.append(codec)
                continue
            why = wrong if not codecs else f"{codec}: {wrong}"
            break  # each chip encodes what comes before
        if codecs or why:
            found.append(HardwareEncoders(family, tuple(codecs), why))
    return tuple(found)


def _module(name: str) -> Any:
    """Return a module that need not be installed, or None if it cannot be loaded."""
    try:
        return import_module(name)
    except (ImportError, OSError):  # OSError: a library that it needs is not there
        return None
