"""The nouns of the engine: plain, frozen, batched. Every module's border is crossed with these.

Pixel coordinates, everywhere in mien: x to the right, y downward, and the centre of the top left
pixel is (0, 0), so a picture W pixels wide spans x from -0.5 to W - 0.5. This is the convention of
OpenCV's warps; :mod:`mien.geometry` keeps it through every change of size.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor


def _show(value: Any) -> str:
    """Describe a value by shape and device if it is a tensor: data never lands in a log."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{tuple(value.shape)}@{value.device}"
    return repr(value)


class _Shown:
    """A repr that shows the shapes and devices of tensors, never their values."""

    __slots__ = ()

    def __repr__(self) -> str:
        shown = (f"{f.name}={_show(getattr(self, f.name))}" for f in fields(self))  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Frame(_Shown):
    """One picture, or one moment of a clip."""

    pixels: Tensor
    """uint8 (H, W, 3), RGB, on any device."""

    time: Fraction | None = None
    """Presentation time in seconds, exact; None for a picture."""

    @property
    def height(self) -> int:
        """Rows of pixels."""
        return self.pixels.shape[0]

    @property
    def width(self) -> int:
        """Columns of pixels."""
        return self.pixels.shape[1]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Faces(_Shown):
    """The K faces of one frame, as parallel tensors on the frame's device."""

    boxes: Tensor
    """float32 (K, 4): left, top, right, bottom in pixels; may reach beyond the frame."""

    points: Tensor
    """float32 (K, 5, 2) pixels: left eye, right eye, nose tip, left and right mouth corner.

    Left and right are those of the upright face as seen in the picture, so for a face that hangs
    upside down the "left" eye lies on the right."""

    scores: Tensor
    """float32 (K,) in [0, 1]: the detector's confidence."""

    ids: Tensor
    """int64 (K,): track ids, or -1 where nothing is tracked."""

    mesh: Tensor | None = None
    """float32 (K, 468, 3): the MediaPipe face mesh, x and y in frame pixels, z at the same scale.

    None before the landmark stage."""

    def __len__(self) -> int:
        return self.boxes.shape[0]

    def __getitem__(self, index: int | slice | list[int] | Tensor) -> Faces:
        """Return the faces chosen by a number, slice, list of numbers, or tensor."""
        rows = [index] if isinstance(index, int) else index
        return Faces(
            boxes=self.boxes[rows],
            points=self.points[rows],
            scores=self.scores[rows],
            ids=self.ids[rows],
            mesh=None if self.mesh is None else self.mesh[rows],
        )

    @property
    def areas(self) -> Tensor:
        """float32 (K,): area of each box in square pixels."""
        return (self.boxes[:, 2:] - self.boxes[:, :2]).clamp_min(0).prod(dim=1)

    @property
    def rolls(self) -> Tensor:
        """float32 (K,): roll in degrees, -180 to 180; 0 upright, positive turned clockwise."""
        across = self.points[:, 1] - self.points[:, 0]
        return torch.rad2deg(torch.atan2(across[:, 1], across[:, 0]))

    @classmethod
    def none(cls, device: torch.device | str = "cpu") -> Faces:
        """Return the empty set of faces."""
        return cls(
            boxes=torch.zeros(0, 4, device=device),
            points=torch.zeros(0, 5, 2, device=device),
            scores=torch.zeros(0, device=device),
            ids=torch.zeros(0, dtype=torch.int64, device=device),
        )


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Crops(_Shown):
    """Aligned square cut-outs of K faces."""

    pixels: Tensor
    """float32 (K, 3, S, S), RGB in [0, 1]."""

    matrices: Tensor
    """float32 (K, 2, 3): similarity transforms, frame pixels to crop pixels."""

    template: str
    """Name of the five-point template the crops were aligned to."""

    @property
    def size(self) -> int:
        """Side S of a crop in pixels."""
        return self.pixels.shape[-1]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Identity(_Shown):
    """Who a face is, and the record that its use was consented to."""

    embedding: Tensor
    """float32 (D,), unit length."""

    space: str
    """Name of the network that made the embedding; embeddings of two spaces never meet."""

    digest: str
    """sha256 of the pictures' pixels, in hexadecimal."""

    consent: str
    """Id of the consent record."""

    outliers: tuple[str, ...] = ()
    """Names of the pictures that were left out because they show somebody else."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One face that could not be swapped, and why."""

    face: int
    """Index into the result's faces."""

    reason: str
    """What was wrong with the network's output."""


@dataclass(frozen=True, slots=True)
class Swapped:
    """What the pipeline did to one frame."""

    frame: Frame
    """The new frame; the one that came in is untouched."""

    faces: Faces
    """Every face that was found, largest first."""

    chosen: tuple[int, ...]
    """Indices into ``faces`` of those that were swapped."""

    faults: tuple[Fault, ...]
    """Faces that were to be swapped and could not be."""

    timings: dict[str, float]
    """Seconds spent by stage name, in the order in which the stages ran."""
