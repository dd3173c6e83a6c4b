"""What a network expects and returns, as data. A new family is a new contract, not a new branch.

Contracts are read from the ``[contract]`` table of a model card. They hold no tensors, so reading
the catalogue needs no torch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, with_config

if TYPE_CHECKING:
    from torch import Tensor


Side = Annotated[int, Field(ge=16, le=2048)]
"""Side of a crop in pixels: beyond this it is a slip of the pen, and no memory would do."""


@with_config(extra="forbid")
@dataclass(frozen=True, slots=True, kw_only=True)
class PixelFormat:
    """How a network wants its pixels, starting from RGB in [0, 1], (N, 3, H, W)."""

    low: float = 0.0
    """Value of black."""

    high: float = 1.0
    """Value of full intensity."""

    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Subtracted from red, green and blue after scaling to low..high."""

    std: tuple[float, float, float] = (1.0, 1.0, 1.0)
    """What red, green and blue are divided by after that."""

    order: Literal["RGB", "BGR"] = "RGB"
    layout: Literal["NCHW", "NHWC"] = "NCHW"

    def __post_init__(self) -> None:
        if self.order not in ("RGB", "BGR") or self.layout not in ("NCHW", "NHWC"):
            raise ValueError(f"order {self.order!r} or layout {self.layout!r} is unknown")
        if len(self.mean) != 3 or len(self.std) != 3:
            raise ValueError("mean and std must have three values each")
        numbers = (self.low, self.high, *self.mean, *self.std)
        if not all(map(math.isfinite, numbers)) or self.high <= self.low or min(self.std) <= 0:
            raise ValueError("low < high and std > 0 must hold, and mean be finite")

    def encode(self, pixels: Tensor) -> Tensor:
        """Return RGB pixels (N, 3, H, W), float in [0, 1] or uint8, as the network wants them.

        The result is float32 and contiguous.
        """
        gain, shift = self._encoding(1.0 if pixels.is_floating_point() else 255.0)
        if self.order == "BGR":
            pixels = pixels.flip(1)
        if self.layout == "NHWC":
            pixels = pixels.permute(0, 2, 3, 1)
        values = pixels.contiguous().float()  # bytes are moved faster than floats
        if set(gain) != {1.0}:
            values = values * self._spread(gain, values)
        if any(shift):
            values = values + self._spread(shift, values)
        return values

    def decode(self, values: Tensor) -> Tensor:
        """Return a picture of this format as RGB (N, 3, H, W), nominally in [0, 1], unclamped."""
        mean, std = self._per_channel(values)
        values = (values * std + mean - self.low) / (self.high - self.low)
        if self.layout == "NHWC":
            values = values.permute(0, 3, 1, 2)
        return values.flip(1) if self.order == "BGR" else values

    def _per_channel(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and std, shaped to broadcast over a batch in this layout and order."""
        step = -1 if self.order == "BGR" else 1
        mean, std = (self._shaped(values[::step], like) for values in (self.mean, self.std))
        return mean, std

    def _shaped(self, values: tuple[float, ...], like: Tensor) -> Tensor:
        """Return one value for each channel, float32, shaped to broadcast over a batch."""
        import torch

        shape = (3,) if self.layout == "NHWC" else (3, 1, 1)
        return like.new_tensor(values, dtype=torch.float32).view(shape)

    def _spread(self, values: tuple[float, ...], like: Tensor) -> Tensor | float:
        """Return one value for all channels, if they have the same, or one for each."""
        return values[0] if len(set(values)) == 1 else self._shaped(values, like)

    @cache  # noqa: B019 - formats are few
    def _encoding(self, full: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return by what pixels up to ``full`` are multiplied, and what is then added.

        One value for each channel in this order, rounded as float32.
        """
        import torch

        mean, std = self._per_channel(torch.empty(0))
        gain = (self.high - self.low) / full / std
        shift = (self.low - mean) / std
        return tuple(gain.flatten().tolist()), tuple(shift.flatten().tolist())


@with_config(extra="forbid")
@dataclass(frozen=True, slots=True, kw_only=True)
class DetectorContract:
    """A face detector over a whole picture of any size."""

    input: str
    pixels: PixelFormat
    head: str
    """Name of the decoder of its raw outputs, in :mod:`mien.stages.heads`."""

    multiple: int
    """Height and width must be multiples of this."""

    strides: tuple[int, ...]
    """Cell sizes, in pixels, of its output maps, in the order of the outputs."""

    anchors: tuple[tuple[float, ...], ...] = ()
    """Sides, in pixels, of the prior boxes of each stride; empty for anchor-free heads."""

    variances: tuple[float, float] = (0.1, 0.2)
    """Scale of centre and size offsets relative to a prior box (SSD, Liu et al. 2016)."""

    smallest: int
    """Side, in input pixels, of the smallest face it finds reliably (measured, see the card)."""


@with_config(extra="forbid")
@dataclass(frozen=True, slots=True, kw_only=True)
class MeshContract:
    """A network that places the 468 points of the MediaPipe face mesh in an aligned crop."""

    input: str
    pixels: PixelFormat
    mesh: str
    """Output with 468 x 3 coordinates in crop pixels."""

    presence: str
    """Output with one logit: positive when the crop shows an upright face."""

    size: Side
    template: str
    zoom: float
    """The crop shows this many times the side of the template's crop, around the same centre."""

    five: tuple[tuple[int, ...], ...]
    """For each of the five points, the mesh points whose mean it is."""

    offsets: tuple[tuple[float, float], ...]
    """Where those means lie relative to the template's own points, in template pixels."""


@with_config(extra="forbid")
@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderContract:
    """A network that maps an aligned face to a direction in identity space."""

    input: str
    pixels: PixelFormat
    output: str
    size: Side
    template: str
    dimension: int
    same_person: float
    """Cosine above which two embeddings count as one person (the authors' threshold)."""

    @property
    def max_distance(self) -> float:
        """Greatest cosine distance at which two embeddings count as one person."""
        return 1 - self.same_person


@with_config(extra="forbid")
@dataclass(frozen=True, slots=True, kw_only=True)
class SwapperContract:
    """A network that gives an aligned face another identity."""

    target: str
    """Input: the aligned face."""

    source: str
    """Input: the unit embedding (N, D)."""

    output: str
    pixels: PixelFormat
    """Format of the target and of the output."""

    size: Side
    template: str
    space: str
    """Name of the embedder whose embeddings it was trained with."""


@with_config(extra="forbid")
@dataclass(frozen=True, slots=True, kw_only=True)
class OcclusionContract:
    """A network that says where an aligned face is seen, and where something is before it."""

    input: str
    pixels: PixelFormat
    output: str
    """Output with one logit a pixel, (N, 1, size, size): positive where the face is seen."""

    size: Side
    template: str


@with_config(extra="forbid")
@dataclass(frozen=True, slots=True, kw_only=True)
class AgeContract:
    """A network that estimates how old an aligned face looks."""

    input: str
    pixels: PixelFormat
    output: str
    """Output with a chance for each number of years from 0 on, (N, Y); they add up to 1."""

    size: Side
    template: str


@with_config(extra="forbid")
@dataclass(frozen=True, slots=True, kw_only=True)
class ContentContract:
    """A network that says how likely a whole picture is unsuitable."""

    input: str
    pixels: PixelFormat
    output: str
    """Output with a chance for each kind of picture, (N, kinds)."""

    column: int
    """Which of the kinds is the unsuitable one."""

    size: Side
    squeezed: Side
    """The picture is squeezed to a square of this side, of whose middle ``size`` pixels are cut."""


@with_config(extra="forbid")
@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkContract:
    """A network that says what of a picture is mark; see ``mien.nets.watermark.Extractor``."""

    input: str
    """Input: brightness (N, 1, H, W) in codes about 0."""

    output: str
    """Output with what of it is mark, (N, 1, H, W)."""


Contract = (
    DetectorContract
    | MeshContract
    | EmbedderContract
    | SwapperContract
    | OcclusionContract
    | AgeContract
    | ContentContract
    | WatermarkContract
)
