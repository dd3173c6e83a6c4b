"""Reading and writing pictures; nothing else in mien opens one."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from PIL import ExifTags, Image, UnidentifiedImageError
from PIL.PngImagePlugin import PngInfo
from torch import Tensor

from mien.errors import InvalidOption, PictureUnreadable, PictureUnwritable
from mien.media.atomic import whole_file
from mien.types import Frame

log = logging.getLogger(__name__)

PictureLike: TypeAlias = str | os.PathLike[str] | npt.NDArray[Any] | Image.Image | Tensor
"""What counts as a picture: a path, an RGB array or tensor (H, W, 3), or a PIL image."""

FORMATS: Mapping[str, str] = MappingProxyType(
    {".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG", ".webp": "WEBP"}
)
"""Formats that can be written, by suffix."""

LOSSY_QUALITY = 95

UPRIGHT: Mapping[Any, Image.Transpose] = MappingProxyType(
    {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_270,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_90,
    }
)
"""What undoes each EXIF orientation (EXIF 2.32, tag 274)."""


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture as the engine sees it, and what must go back into the file beside it."""

    frame: Frame
    name: str
    """For messages: the file's name, or what kind of object it was."""

    path: Path | None = None
    alpha: npt.NDArray[np.uint8] | None = None
    """uint8 (H, W), or None for an opaque picture."""

    profile: bytes | None = None
    """The ICC profile of the pixels, or None for sRGB."""

    @cached_property
    def digest(self) -> str:
        """The sha256 of size and pixels: the same for the same content under any name."""
        pixels = self.frame.pixels.cpu().contiguous().numpy()
        content = hashlib.sha256(f"{pixels.shape}".encode())
        content.update(pixels.reshape(-1).data)
        return content.hexdigest()


def read_picture(source: PictureLike) -> Picture:
    """Return the picture in a file, array, tensor or PIL image, upright by its EXIF orientation.

    Arrays and tensors are uint8: RGB (H, W, 3), RGB with alpha (H, W, 4) or gray (H, W).
    Raises PictureUnreadable.
    """
    if isinstance(source, Image.Image):
        try:
            return _from_pil(source, name="the PIL image")
        except (OSError, ValueError) as error:
            raise PictureUnreadable(f"The PIL image cannot be read: {error}.") from None
    if isinstance(source, np.ndarray):
        return _from_array(source, name="the array")
    if isinstance(source, Tensor):
        return _from_tensor(source)
    if not isinstance(source, str | os.PathLike):
        raise PictureUnreadable(
            f"A {type(source).__name__} is not a picture. Give a path, a PIL image, or a uint8 "
            "array or tensor of shape (H, W, 3), RGB."
        )
    path = Path(source)
    try:
        if path.exists() and not path.is_file():
            raise PictureUnreadable(f"{path} is not a file.", path=path)
        with Image.open(path) as image:
            return _from_pil(image, name=path.name, path=path)
    except FileNotFoundError:
        raise PictureUnreadable(f"There is no file {path}.", path=path) from None
    except UnidentifiedImageError:
        kind = "empty" if path.is_file() and path.stat().st_size == 0 else "not a picture"
        raise PictureUnreadable(
            f"{path} is {kind}, or of a kind that cannot be read here.", path=path
        ) from None
    except Image.DecompressionBombError as error:
        raise PictureUnreadable(f"{path} is too large: {error}", path=path) from None
    except PictureUnreadable:
        raise
    # Pillow's decoders raise these, and SyntaxError for PNG, on damaged files
    except (OSError, ValueError, SyntaxError, EOFError, MemoryError) as error:
        what = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise PictureUnreadable(f"{path} cannot be read: {what}.", path=path) from None


def check_output(path: Path, *, inputs: Mapping[str, Path] | None = None) -> None:
    """Raise PictureUnwritable if ``path`` cannot become a picture, before any work is done.

    ``inputs`` are files that must not be written over, by what the user calls them; InvalidOption
    names the one that would be.
    """
    if path.suffix.lower() not in FORMATS:
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
                raise InvalidOption("output", str(path), f"a file other than {name}")
    except OSError as error:
        raise PictureUnwritable(f"{path} cannot be written: {error.strerror}.", path=path) from None


def write_picture(path: Path, picture: Picture, *, xmp: bytes | None) -> None:
    """Write ``picture`` in the format of the suffix, with its alpha, profile and the XMP packet.

    ``xmp`` is None only for pictures in which no face was changed. The file appears whole or not at
    all. JPEG has no alpha: it is then left out. Raises PictureUnwritable.
    """
    check_output(path)
    kind = FORMATS[path.suffix.lower()]
    pixels = picture.frame.pixels.cpu().numpy()
    if picture.alpha is not None and kind != "JPEG":
        image = Image.fromarray(np.dstack([pixels, picture.alpha]))
    else:
        image = Image.fromarray(pixels)
        if picture.alpha is not None:
            log.warning("%s: JPEG has no transparency; what was transparent now shows.", path)
    options: dict[str, Any] = {"icc_profile": picture.profile}
    if kind == "PNG":
        options |= {"pnginfo": _png_text(xmp), "compress_level": 4}
    else:
        options |= {"xmp": xmp or b"", "quality": LOSSY_QUALITY}
    if kind == "JPEG":
        options["subsampling"] = 0
    encoded = BytesIO()  # Pillow does not notice when a disk takes less than it was given
    try:
        image.save(encoded, kind, **options)
        with whole_file(path) as file:
            file.write(encoded.getbuffer())
    except (OSError, ValueError) as error:
        what = getattr(error, "strerror", None) or str(error)
        raise PictureUnwritable(
            f"{path} could not be written: {what}. Nothing was left there.", path=path
        ) from error


def _png_text(xmp: bytes | None) -> PngInfo:
    text = PngInfo()
    if xmp:
        text.add_itxt("XML:com.adobe.xmp", xmp.decode())
    return text


def _from_pil(image: Image.Image, *, name: str, path: Path | None = None) -> Picture:
    if getattr(image, "n_frames", 1) > 1:
        log.warning("%s has several frames; only the first is used.", path or name)
    profile = image.info.get("icc_profile")
    transparent = "transparency" in image.info
    turn = UPRIGHT.get(image.getexif().get(ExifTags.Base.Orientation))
    upright = image if turn is None else image.transpose(turn)
    mode = upright.mode
    if mode.startswith("I;16"):
        pixels = (np.asarray(upright) >> 8).astype(np.uint8)
        return _from_array(pixels, name=name, path=path)
    if mode in ("I", "F"):
        raise PictureUnreadable(
            f"{path or name} has {mode!r} pixels (32 bits per channel), which mien does not read; "
            "convert it to 8 or 16 bits.",
            path=path,
        )
    if mode in ("CMYK", "YCbCr", "LAB", "HSV", "L", "LA", "1"):
        profile = None  # it describes pixels that will no longer exist
    if transparent or mode in ("RGBA", "LA", "PA", "RGBa", "La"):
        upright = upright.convert("RGBA")
    elif mode != "RGB":
        upright = upright.convert("RGB")
    return _from_array(np.array(upright), name=name, path=path, profile=profile)


def _from_array(
    pixels: npt.NDArray[Any], *, name: str, path: Path | None = None, profile: bytes | None = None
) -> Picture:
    if pixels.dtype != np.uint8:
        raise PictureUnreadable(
            f"{name} has pixels of type {pixels.dtype}; give uint8, 0 to 255.", path=path
        )
    if pixels.ndim == 2:
        pixels = np.repeat(pixels[..., None], 3, axis=2)
    if pixels.ndim != 3 or pixels.shape[2] not in (3, 4) or 0 in pixels.shape:
        raise PictureUnreadable(
            f"{name} has shape {pixels.shape}; give (H, W, 3) RGB, (H, W, 4) with alpha, "
            "or (H, W) gray.",
            path=path,
        )
    alpha = np.ascontiguousarray(pixels[..., 3]) if pixels.shape[2] == 4 else None
    rgb = torch.from_numpy(np.require(pixels[..., :3], requirements=["C", "W"]))
    return Picture(Frame(rgb), name=name, path=path, alpha=alpha, profile=profile)


def _from_tensor(pixels: Tensor) -> Picture:
    if pixels.dtype == torch.uint8 and pixels.ndim == 3 and pixels.shape[2] == 3:
        if 0 not in pixels.shape:
            return Picture(Frame(pixels.contiguous()), name="the tensor")
    elif pixels.device.type == "cpu" and pixels.dtype == torch.uint8:
        return _from_array(pixels.numpy(), name="the tensor")
    raise PictureUnreadable(
        f"The tensor is {pixels.dtype} {tuple(pixels.shape)}; give uint8 (H, W, 3), RGB."
    )
