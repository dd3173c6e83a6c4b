"""Finding a watermark: in a picture as it was written, or cropped, turned, resized, coded anew.

A network says what of the picture is mark (``mien.nets.watermark.Extractor``). The mark is a tile
that repeats, and a part of it, the pilot, is always the same. So for a turn and a size the picture
is laid in tiles, these are added up, and where the pilot lies is found by one correlation over all
places at once, with a Fourier transform. If the mark is there the pilot stands out by more than
chance allows. Then the patterns of the bits say what they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from mien.nets.watermark import BITS, SIDE, chips, size_of, tiles
from mien.safety.watermark import code
from mien.safety.watermark.laying import shrunk

Extract = Callable[[Tensor], Tensor]
"""Takes brightness (1, 1, H, W) in codes about 0, and returns what of it is mark, as Extractor."""

TURNS = 6.5
"""Degrees up to which a picture may be turned."""

SIZES = (0.45, 1.04)
"""The shorter side of a cropped picture, by that of the whole one: least and greatest."""

STEP, RATIO = 0.6, 1.013
"""Degrees and ratio of sizes from one trial to the next: chips must still overlap."""

TRIED = 12
"""Trials that are looked at closely, of those at which the pilot stands out most."""

PLAUSIBLE, CLEAR = 5.0, 7.0
"""Standard deviations by which the pilot must stand out to be looked at, and to be believed. Of
chance the greatest of all trials and places together reaches CLEAR in one of 6,000 pictures."""

AGREED = 0.94
"""Agreement from which a word is believed that has a weaker pilot. Of 20,000 trials with pure
chance the greatest was 0.934."""


@dataclass(frozen=True, slots=True)
class Found:
    """A mark that is believed."""

    identifier: int
    """48 bits."""

    corrected: int
    """Raw bits that were wrong, of 127."""

    pilot: float
    """By how many standard deviations the pilot stands out."""

    turn: float
    """Degrees by which the picture was turned."""

    size: float
    """What there is of the shorter side of the picture that was marked, 1 for all of it."""

    mirrored: bool


def false_positive_rate() -> float:
    """Return a bound of how often a picture without a mark is believed to have one.

    At most TRIED words are read, and one before; each has a right checksum once in 2^16, and
    besides a pilot that stands out or an agreement, which chance has less than once in 6,000 and
    20,000 times.
    """
    return (TRIED + 1) * 2.0**-code.CHECK * (1 / 6000 + 1 / 20000)


class Finder:
    """Finds marks with the network ``extract``."""

    def __init__(self, extract: Extract) -> None:
        self._extract = extract

    @torch.inference_mode()
    def __call__(self, frames: Iterable[Tensor]) -> Found | None:
        """Return the mark in a picture, or in frames of one clip, uint8 (H, W, 3); None if none is.

        Frames must be of one size. Each is looked at alone, for codecs leave more of a mark in some
        than in others; then what all say together. No more are taken once a mark is believed.
        """
        total: Tensor | None = None
        for pixels in frames:
            said = self._extract(_brightness(pixels)).float().cpu()
            total = said if total is None else total + said
            for field in (said,) if total is said else (said, total):
                found = _believed(_Trial.of(field, 0.0, 1.0, mirrored=False))
                if found is not None:
                    return found
        return None if total is None else find(total)


def find(field: Tensor) -> Found | None:
    """Return the mark in what an extractor said of a picture that was changed in size or turned.

    ``field`` is float (1, 1, H, W).
    """
    # at half the side first: it takes a quarter of the time
    coarse = functional.avg_pool2d(field, 2)
    trials = sorted(_trials(coarse), key=lambda one: -one.pilot)[:TRIED]
    near = sorted((_nearer(field, one) for one in trials), key=lambda one: -one.pilot)
    return next((found for one in near if (found := _believed(one)) is not None), None)


@dataclass(frozen=True, slots=True, eq=False)
class _Trial:
    """A turn and a size, and how the pilot stands out under them."""

    turn: float
    size: float
    mirrored: bool
    pilot: float
    tile: Tensor
    """float32 (S, S): the picture's tiles, added up, from where the pilot begins."""

    @classmethod
    def of(cls, field: Tensor, turn: float, size: float, *, mirrored: bool) -> _Trial:
        """Try a turn in degrees and a size, on a field whose tiles have the side SIDE."""
        return _tried(_folded(_turned(field, turn, size), SIDE), turn, size, mirrored)

    @property
    def word(self) -> code.Word | None:
        """What the bits say."""
        said = _patterns() @ self.tile.flatten()
        return code.read(np.asarray(said.numpy(), dtype=np.float64))


def _tried(tile: Tensor, turn: float, size: float, mirrored: bool) -> _Trial:
    side = len(tile)
    if mirrored:
        tile = tile.flip(1)
    alike = torch.fft.irfft2(torch.fft.rfft2(tile) * _pilot(side), s=(side, side))
    place = int(alike.argmax())
    stands = float(alike.flatten()[place] / alike.std().clamp_min(1e-12))
    tile = tile.roll((-(place // side), -(place % side)), (0, 1))
    return _Trial(turn, size, mirrored, stands, tile)


def _trials(coarse: Tensor) -> Iterator[_Trial]:
    """Try all turns and sizes on a field whose tiles have half the side."""
    steps = round(math.log(SIZES[1] / SIZES[0]) / math.log(RATIO))
    turns = round(TURNS / STEP)
    for i in range(steps + 1):
        size = SIZES[1] / RATIO**i
        for j in range(-turns, turns + 1):
            tile = _folded(_turned(coarse, STEP * j, size), SIDE // 2)
            for mirrored in (False, True):
                yield _tried(tile, STEP * j, size, mirrored)


def _nearer(field: Tensor, coarse: _Trial) -> _Trial:
    """Return the best trial near one."""
    trial = _Trial.of(field, coarse.turn, coarse.size, mirrored=coarse.mirrored)
    for part in (0.5, 0.25):
        near = [
            _Trial.of(
                field,
                trial.turn + part * STEP * turn,
                trial.size * RATIO ** (part * size),
                mirrored=trial.mirrored,
            )
            for turn in (-1, 0, 1)
            for size in (-1, 0, 1)
            if turn or size
        ]
        trial = max([trial, *near], key=lambda one: one.pilot)
    return trial


def _believed(trial: _Trial) -> Found | None:
    word = trial.word if trial.pilot >= PLAUSIBLE else None
    if word is None or (trial.pilot < CLEAR and word.agreement < AGREED):
        return None
    return Found(
        word.identifier, word.corrected, trial.pilot, trial.turn, trial.size, trial.mirrored
    )


def _brightness(pixels: Tensor) -> Tensor:
    """Return a picture, uint8 (H, W, 3), as an extractor takes it: sides are even."""
    rows, columns = (side // 2 * 2 for side in size_of(pixels.shape[0], pixels.shape[1]))
    return shrunk(pixels, rows, columns)[None, None] - 128


def _turned(field: Tensor, turn: float, size: float) -> Tensor:
    """Return a field (1, 1, H, W) as it lay on the whole picture, (1, 1, h, w)."""
    if turn == 0 and size == 1:
        return field
    height, width = field.shape[-2:]
    angle = math.radians(turn)
    cos, sin = math.cos(angle), math.sin(angle)
    wide = math.ceil((abs(width * cos) + abs(height * sin)) * size)
    high = math.ceil((abs(width * sin) + abs(height * cos)) * size)
    view = torch.tensor(
        [
            [cos / size * wide / width, sin / size * high / width, 0],
            [-sin / size * wide / height, cos / size * high / height, 0],
        ]
    )
    grid = functional.affine_grid(view[None], [1, 1, high, wide], align_corners=False)
    turned: Tensor = functional.grid_sample(
        field, grid, mode="bilinear", padding_mode="zeros", align_corners=False
    )
    return turned


def _folded(field: Tensor, side: int) -> Tensor:
    """Return the tiles of a field (1, 1, H, W), added up, (side, side)."""
    height, width = field.shape[-2:]
    padded = functional.pad(field, (0, -width % side, 0, -height % side))
    down, across = (length // side for length in padded.shape[-2:])
    return padded.view(down, side, across, side).sum(dim=(0, 2))


@cache
def _patterns() -> Tensor:
    """Return the patterns of bits, float32 (BITS, SIDE * SIDE)."""
    return tiles(chips()[1:]).reshape(BITS, -1)


@cache
def _pilot(side: int) -> Tensor:
    """Return the transform of the pilot at a side, for correlations."""
    tile = functional.interpolate(tiles(chips()[:1])[None], (side, side), mode="area")
    transform: Tensor = torch.fft.rfft2(tile[0, 0])
    return transform.conj()
