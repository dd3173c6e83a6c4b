"""Reading and writing pictures; nothing else in mien opens one."""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from mien.errors import InvalidOption, PictureUnreadable, PictureUnwritable
from mien.media.atomic import Seal, whole_file
from mien.media.colors import Colors, to_eight_bits
from mien.media.decode import Decoded, decode, decode_image
from mien.media.encode import Subsampling, encode
from mien.media.formats import BMP, FORMATS, GIF, PNG, READABLE, Format, format_of
from mien.media.gif import colours_of
from mien.media.kinds import kind_of
from mien.media.metadata import Metadata
from mien.media.moments import Moment, NotAPicture, TooLarge
from mien.media.picture import Picture, PictureLike
from mien.types import Frame

log = logging.getLogger(__name__)

OWN = b"urn:mien:"
"""What an XMP packet of mien's has in it."""

PNG_PROFILE = 1 << 20
"""Bytes of a profile that readers of PNG take, Pillow's among them."""

MAX_MEGAPIXELS = 250.0
"""Larger pictures are refused, unless told otherwise. One takes up to 3 GB of memory."""


def read_picture(source: PictureLike, *, max_megapixels: float = MAX_MEGAPIXELS) -> Picture:
    """Return the picture in a file, array, tensor or PIL image, upright by its EXIF orientation.

    Arrays and tensors are uint8: RGB (H, W, 3), RGB with alpha (H, W, 4) or gray (H, W); they are
    copied. Files keep their channels, depth and colour profile, and animations their frames.
    Raises PictureUnreadable, also for more than ``max_megapixels``.
    """
    if isinstance(source, Image.Image):
        return _guarded(source, "the PIL image", None, max_megapixels)
    if isinstance(source, np.ndarray):
        return _from_array(source, name="the array")
    if isinstance(source, Tensor):
        return _from_tensor(source)
    if not isinstance(source, str | os.PathLike):
        raise PictureUnreadable(
            f"A {type(source).__name__} is not a picture. Give a path, a PIL image, or a uint8 "
            "array or tensor of shape (H, W, 3), RGB."
        )
    return _guarded(None, str(source), Path(source), max_megapixels)


def check_output(
    path: Path,
    *,
    inputs: Mapping[str, Path] | None = None,
    picture: Picture | None = None,
    option: str = "output",
) -> None:
    """Raise PictureUnwritable if ``path`` cannot become a picture, before any work is done.

    ``inputs`` are files that must not be written over, by what the user calls them; InvalidOption
    names the one that would be, and ``option``, which the path was given as. ``picture`` is what is
    to be written, if it is known already.
    """
    kind = format_of(path)
    if kind is None:
        raise PictureUnwritable(
            f"{path}: the format {path.suffix or '(none)'!r} cannot be written. "
            f"Use one of {', '.join(FORMATS)}.",
            path=path,
        )
    try:
        if path.is_dir():
            raise PictureUnwritable(f"{path} is a folder; name a file.", path=path)
        if not path.parent.is_dir():
            raise PictureUnwritable(f"The folder {path.parent} does not exist.", path=path)
        for name, taken in (inputs or {}).items():
            if path.exists() and taken.exists() and path.samefile(taken):
                raise InvalidOption(option, str(path), f"a file other than {name}")
    except OSError as error:
        raise PictureUnwritable(f"{path} cannot be written: {error.strerror}.", path=path) from None
    if picture is not None:
        _check_fits(path, kind, picture)


def write_picture(
    path: Path,
    picture: Picture,
    *,
    xmp: bytes | None,
    quality: int | None = None,
    subsampling: Subsampling | None = None,
    seal: Seal | None = None,
) -> None:
    """Write ``picture`` in the format of the suffix, with all that goes beside its pixels.

    ``xmp`` takes the place of the picture's own packet; it is None only for pictures in which no
    face was changed. A BMP holds no metadata: its packet goes into a file beside it, with .xmp
    after its name. ``quality``, 1 to 100, and ``subsampling`` are for the formats that have them
    and follow the input when None. ``seal`` signs the file, which appears whole or not at all. What
    the format cannot hold is converted: 16 bits to 8, CMYK to RGB; alpha that it cannot hold is
    left out with a warning. Raises PictureUnwritable, InvalidOption, and what ``seal`` raises.
    """
    check_quality(quality, subsampling)
    check_output(path, picture=picture)
    kind = FORMATS[path.suffix.lower()]
    moments, metadata = _suited(picture, kind, path)
    metadata = replace(metadata, xmp=xmp or b"")
    beside = path.with_name(f"{path.name}.xmp") if kind is BMP and xmp else None
    try:
        with ExitStack() as undo:
            with whole_file(path, seal) as file:
                encode(
                    file,
                    moments,
                    kind,
                    metadata=metadata,
                    like=picture.encoding,
                    quality=quality,
                    subsampling=subsampling,
                    palettes=picture.palettes if kind is GIF else (),
                )
                if beside is not None and xmp:
                    file.flush()  # a full disk shows here, before there is anything beside
                    _write_beside(beside, xmp)
                    undo.callback(beside.unlink, missing_ok=True)
            undo.pop_all()  # it is there, and so is what belongs to it
    except (OSError, ValueError, RuntimeError, MemoryError, OverflowError, struct.error) as error:
        what = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise PictureUnwritable(
            f"{path} could not be written: {what}. Nothing was left there.", path=path
        ) from error


def _write_beside(path: Path, xmp: bytes) -> None:
    """Write a packet into a file of its own, but not over one that somebody else wrote."""
    if path.exists() and path.read_bytes() != xmp and OWN not in path.read_bytes():
        raise PictureUnwritable(
            f"{path} is there, and not from mien; name another picture. Nothing was written.",
            path=path,
        )
    with whole_file(path) as file:
        file.write(xmp)


def check_quality(quality: int | None, subsampling: str | None) -> None:
    """Raise InvalidOption if a picture cannot be written so."""
    whole = isinstance(quality, int) and not isinstance(quality, bool)
    if quality is not None and not (whole and 1 <= quality <= 100):
        raise InvalidOption("quality", quality, "1 to 100")
    if subsampling is not None and subsampling not in get_args(Subsampling):
        raise InvalidOption("subsampling", subsampling, get_args(Subsampling))


def _check_fits(path: Path, kind: Format, picture: Picture) -> None:
    longest = max(picture.frame.width, picture.frame.height)
    if longest > kind.longest:
        raise PictureUnwritable(
            f"{path} cannot be written: the picture is {longest} pixels long, and {kind.name} "
            f"holds at most {kind.longest}.",
            path=path,
        )
    if len(picture.frames) > 1 and not kind.animated:
        able = ", ".join(suffix for suffix, other in FORMATS.items() if other.animated)
        raise PictureUnwritable(
            f"{path} cannot be written: {picture.name} moves, and {kind.name} holds one frame. "
            f"Use one of {able}.",
            path=path,
        )


def _suited(picture: Picture, kind: Format, path: Path) -> tuple[list[Moment], Metadata]:
    """Return the pixels and metadata of ``picture``, converted if ``kind`` cannot hold them."""
    metadata = picture.metadata
    channels = picture.frame.pixels.shape[2]
    colors = None
    profile = metadata.profile or b""
    unheld = kind in (BMP, GIF) or (kind is PNG and len(profile) > PNG_PROFILE)
    if channels not in kind.channels or (profile and unheld):
        colors = Colors(channels, metadata.profile, picture.name)
        metadata = metadata.without_profile()
    moments = []
    for frame, duration in zip(
        picture.frames, picture.durations or (Fraction(0),) * len(picture.frames), strict=True
    ):
        pixels = frame.pixels.cpu().numpy()
        alpha = None if frame.alpha is None else frame.alpha.cpu().numpy()
        if not kind.deep:
            pixels = to_eight_bits(pixels)
            alpha = None if alpha is None else to_eight_bits(alpha)
        if colors is not None:
            seen = colors.sight(pixels)
            pixels = pixels if seen is None else seen.contiguous().numpy()
        moments.append(Moment(pixels, alpha if kind.alpha else None, duration))
    if not kind.alpha and any(frame.alpha is not None for frame in picture.frames):
        log.warning("%s: %s has no transparency; what was transparent now shows.", path, kind.name)
    return moments, metadata


def _guarded(
    image: Image.Image | None, name: str, path: Path | None, max_megapixels: float
) -> Picture:
    """Return the picture in a PIL image or file; whatever is wrong becomes PictureUnreadable."""
    try:
        if image is not None:
            return _picture(decode_image(image, max_megapixels=max_megapixels), name, None)
        assert path is not None
        if path.exists() and not path.is_file():
            raise PictureUnreadable(f"{path} is not a file.", path=path)
        with path.open("rb") as file:
            decoded = decode(file, max_megapixels=max_megapixels, name=path)
            return _picture(decoded, path.name, path)
    except PictureUnreadable:
        raise
    except FileNotFoundError:
        raise PictureUnreadable(f"There is no file {path}.", path=path) from None
    except NotAPicture as error:
        if path is not None and path.stat().st_size == 0:
            raise PictureUnreadable(f"{path} is empty.", path=path) from None
        readable = ", ".join(READABLE)
        what = str(error) or f"it is not a picture of a kind that mien reads ({readable})"
        if path is not None and kind_of(path) == "clip":
            what = "it is a clip, and a picture is wanted here"
        raise PictureUnreadable(f"{name} cannot be read: {what}.", path=path) from None
    except TooLarge as error:
        raise PictureUnreadable(
            f"{name} is too large: {error}, and the limit is {max_megapixels:g} megapixels. "
            "'max_megapixels' changes the limit; shrink the picture if memory is short.",
            path=path,
        ) from None
    except Exception as error:  # decoders raise all sorts of errors on damaged files
        log.info("%s cannot be read", name, exc_info=True)
        what = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise PictureUnreadable(f"{name} cannot be read: {what}.", path=path) from None


def _picture(decoded: Decoded, name: str, path: Path | None) -> Picture:
    moments, metadata, encoding = decoded.moments, decoded.metadata, decoded.encoding
    colors = Colors(moments[0].pixels.shape[2], metadata.profile, path or name)
    table = colors.table()
    moving = len(moments) > 1
    frames, time = [], Fraction(0)
    for moment in moments:
        frames.append(
            Frame(
                torch.from_numpy(moment.pixels),
                time=time if moving else None,
                alpha=None if moment.alpha is None else torch.from_numpy(moment.alpha),
                sight=colors.sight(moment.pixels),
                table=table,
            )
        )
        time += moment.duration
    indexed = encoding is not None and encoding.name == "GIF"
    return Picture(
        tuple(frames),
        name=name,
        path=path,
        durations=tuple(moment.duration for moment in moments) if moving else (),
        metadata=metadata,
        encoding=encoding,
        palettes=tuple(colours_of(moment.pixels) for moment in moments) if indexed else (),
    )


def _from_array(pixels: npt.NDArray[Any], *, name: str) -> Picture:
    if pixels.dtype != np.uint8:
        raise PictureUnreadable(f"{name} has pixels of type {pixels.dtype}; give uint8, 0 to 255.")
    if pixels.ndim == 2:
        pixels = np.repeat(pixels[..., None], 3, axis=2)
    if pixels.ndim != 3 or pixels.shape[2] not in (3, 4) or 0 in pixels.shape:
        raise PictureUnreadable(
            f"{name} has shape {pixels.shape}; give (H, W, 3) RGB, (H, W, 4) with alpha, "
            "or (H, W) gray."
        )
    alpha = torch.from_numpy(pixels[..., 3].copy()) if pixels.shape[2] == 4 else None
    return Picture((Frame(torch.from_numpy(pixels[..., :3].copy()), alpha=alpha),), name=name)


def _from_tensor(pixels: Tensor) -> Picture:
    if pixels.dtype == torch.uint8 and pixels.ndim == 3 and pixels.shape[2] == 3:
        if 0 not in pixels.shape:
            private = pixels.clone(memory_format=torch.contiguous_format)
            return Picture((Frame(private),), name="the tensor")
    elif pixels.device.type == "cpu" and pixels.dtype == torch.uint8:
        return _from_array(pixels.numpy(), name="the tensor")
    raise PictureUnreadable(
        f"The tensor is {pixels.dtype} {tuple(pixels.shape)}; give uint8 (H, W, 3), RGB."
    )
