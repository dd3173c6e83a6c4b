"""Packs: aligned faces of many people in a few plain files.

A pack called NAME is

=================  ================================================================================
``NAME.bin``       WebP files end to end, square crops on the points of ``arcface_128``
``NAME.off.npy``   int64 (n + 1,): where each begins, and the end
``NAME.pid.npy``   int (n,): the person's number, unique over all packs of a training run
``NAME.quad.npy``  float (n, 4, 2): corners of the real picture in crop pixels, in the order top
                   left, top right, bottom right, bottom left; outside, its edge pixels are repeated
=================  ================================================================================

A corner's coordinates are those of pixels' edges counted from the crop's edge: a picture that fills
a crop of S pixels has corners at 0 and S.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from mien.errors import TrainingError

Bytes = npt.NDArray[np.uint8]

CHUNK = 512
"""Pictures decoded and resized at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Pack:
    """Decoded packs: n pictures of S x S."""

    pixels: Tensor
    """uint8 (n, 3, S, S), RGB."""

    people: Tensor
    """int64 (n,)."""

    quads: Tensor
    """float32 (n, 4, 2), in pixels of S; outside is padding."""

    native: Tensor
    """int64 (n,): the side that the pictures were stored with."""

    def __len__(self) -> int:
        return len(self.people)

    def __getitem__(self, rows: Tensor) -> Pack:
        """Return the pictures chosen by a tensor of numbers or of truths."""
        parts = {name: getattr(self, name) for name in self.__slots__}
        return Pack(**{name: part[rows.to(part.device)] for name, part in parts.items()})

    def to(self, device: torch.device) -> Pack:
        """Return the pack on ``device``."""
        return Pack(*(getattr(self, name).to(device) for name in self.__slots__))


def names(folder: str | Path) -> list[Path]:
    """Return the packs in ``folder``, as paths without a suffix."""
    return sorted(path.with_suffix("") for path in Path(folder).glob("*.bin"))


def read_packs(
    paths: Iterable[Path], size: int, device: torch.device, *, limit: int | None = None
) -> Pack:
    """Return the packs at ``paths`` (without suffix), decoded and resized to ``size``, on a device.

    ``limit`` takes only the first pictures of each.
    """
    return joined([read_pack(path, size, device, limit=limit) for path in paths])


def joined(parts: Sequence[Pack]) -> Pack:
    """Return several packs as one. Raises FileNotFoundError of none."""
    if not parts:
        raise FileNotFoundError("no packs were found: a pack has a file NAME.bin")
    return Pack(
        pixels=torch.cat([part.pixels for part in parts]),
        people=torch.cat([part.people for part in parts]),
        quads=torch.cat([part.quads for part in parts]),
        native=torch.cat([part.native for part in parts]),
    )


def read_pack(path: Path, size: int, device: torch.device, *, limit: int | None = None) -> Pack:
    """Return one pack. Raises TrainingError if a file is missing, damaged, or of another pack."""
    try:
        blob = memoryview(Path(f"{path}.bin").read_bytes())
    except OSError as error:
        raise _damaged(path, "bin", error.strerror or str(error)) from None
    offsets = _offsets(path, len(blob))
    count = len(offsets) - 1 if limit is None else min(limit, len(offsets) - 1)
    people = torch.from_numpy(_table(path, "pid", (len(offsets) - 1,))[:count].astype(np.int64))
    quads = _table(path, "quad", (len(offsets) - 1, 4, 2))[:count].astype(np.float32)
    if not np.isfinite(quads).all():
        raise _damaged(path, "quad.npy", "corners are not finite")
    corners = torch.from_numpy(quads)
    read = decoder()

    def decode(row: int) -> Bytes:
        try:
            return read(blob[offsets[row] : offsets[row + 1]])
        except Exception as error:  # decoders' own errors share no base
            raise _damaged(path, "bin", f"picture {row} cannot be decoded") from error

    pixels = torch.empty(count, 3, size, size, dtype=torch.uint8, device=device)
    native = torch.empty(count, dtype=torch.int64)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for first in range(0, count, CHUNK):
            rows = range(first, min(first + CHUNK, count))
            pictures = list(pool.map(decode, rows))
            side = pictures[0].shape[0]
            if any(picture.shape != (side, side, 3) for picture in pictures):
                raise _damaged(path, "bin", "its pictures are not squares of one size")
            stacked = torch.from_numpy(np.stack(pictures)).to(device).permute(0, 3, 1, 2)
            pixels[first : rows.stop] = _resized(stacked, size)
            native[first : rows.stop] = side
    scale = size / native.float()
    return Pack(
        pixels,
        people.to(device),
        (corners * scale[:, None, None]).to(device),
        native.to(device),
    )


def _table(path: Path, name: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return a table of a pack, of this shape; -1 stands for any length."""
    try:
        table: npt.NDArray[Any] = np.load(f"{path}.{name}.npy")
    except (OSError, ValueError, EOFError) as error:
        why = getattr(error, "strerror", None) or "it is no NumPy file"
        raise _damaged(path, f"{name}.npy", why) from None
    wanted = tuple(len(table) if side < 0 and table.ndim else side for side in shape)
    if table.shape != wanted or table.dtype.kind not in "iuf":
        said = f"it has {table.dtype} {table.shape} instead of numbers {wanted}"
        raise _damaged(path, f"{name}.npy", said)
    return table


def _offsets(path: Path, size: int) -> list[int]:
    """Return where the pictures of a pack begin, and the end, which is that of ``size`` bytes."""
    offsets: list[int] = _table(path, "off", (-1,)).astype(np.int64).tolist()
    if not offsets or offsets[0] or sorted(offsets) != offsets:
        raise _damaged(path, "off.npy", "it is no list of rising offsets from 0")
    if offsets[-1] != size:
        said = f"it has {size} bytes, and its pictures end at {offsets[-1]}"
        raise _damaged(path, "bin", said)
    return offsets


def _damaged(path: Path, suffix: str, reason: str) -> TrainingError:
    advice = f"The four files of the pack {path.name} belong together: copy or build it again."
    return TrainingError(Path(f"{path}.{suffix}"), reason, advice)


def _resized(pictures: Tensor, size: int) -> Tensor:
    if pictures.shape[-1] == size:
        return pictures
    values = functional.interpolate(
        pictures.float(), (size, size), mode="bicubic", antialias=True, align_corners=False
    )
    return values.round_().clamp_(0, 255).byte()


def write_pack(
    path: str | Path,
    pictures: Iterable[Bytes],
    people: Iterable[int],
    quads: Iterable[npt.NDArray[np.floating[Any]]],
    *,
    quality: int = 90,
) -> int:
    """Write RGB pictures, uint8 (S, S, 3), as the pack ``path`` and return how many there were."""
    from imagecodecs import webp_encode

    offsets = [0]
    with Path(f"{path}.bin").open("wb") as file:
        for picture in pictures:
            content = webp_encode(np.ascontiguousarray(picture), quality, lossless=False)
            offsets.append(offsets[-1] + file.write(content))
    count = len(offsets) - 1
    np.save(f"{path}.off.npy", np.asarray(offsets, dtype=np.int64))
    np.save(f"{path}.pid.npy", np.asarray(list(people), dtype=np.int32))
    np.save(f"{path}.quad.npy", np.asarray(list(quads), dtype=np.float32).reshape(count, 4, 2))
    return count


def decoder() -> Callable[[Any], Bytes]:
    """Return what decodes a WebP file to RGB, uint8 (H, W, 3), without holding other threads up."""
    try:
        import imagecodecs
    except ImportError:  # training machines often have OpenCV and not this
        import cv2

        cv2.setNumThreads(1)

        def decode(data: Any) -> Bytes:
            picture = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
            if picture is None:
                raise ValueError("a picture of a pack is damaged")
            return np.ascontiguousarray(picture[:, :, ::-1], dtype=np.uint8)

        return decode

    def decode_plain(data: Any) -> Bytes:
        picture: Bytes = imagecodecs.webp_decode(data, hasalpha=False)
        return picture

    return decode_plain
