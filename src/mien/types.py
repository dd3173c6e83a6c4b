"""The nouns of the engine: plain, frozen, batched. Every module's border is crossed with these.

Pixel coordinates, everywhere in mien: x to the right, y downward, and the centre of the top left
pixel is (0, 0), so a picture W pixels wide spans x from -0.5 to W - 0.5. This is the convention of
OpenCV's warps; :mod:`mien.geometry` keeps it through every change of size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any, Literal, NamedTuple

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


Corner = Literal["bottom-right", "bottom-left", "top-right", "top-left"]
"""A corner of a picture."""


class Rectangle(NamedTuple):
    """Pixels ``left`` to ``right`` - 1 and ``top`` to ``bottom`` - 1 of a frame."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def empty(self) -> bool:
        """Whether no pixel lies inside."""
        return self.right <= self.left or self.bottom <= self.top


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Frame(_Shown):
    """One picture, or one moment of a clip.

    Its pixels stay in the channels, depth and colours they came in; networks look at ``view``, and
    what they make is taken through ``table`` into the pixels' own colours.
    """

    pixels: Tensor
    """uint8 or uint16 (H, W, C), on any device: RGB, unless there is a ``table``."""

    time: Fraction | None = None
    """Presentation time in seconds, exact; None for a picture."""

    alpha: Tensor | None = None
    """Opacity (H, W), of the pixels' dtype, carried along unchanged; None for an opaque frame."""

    sight: Tensor | None = None
    """uint8 (H, W, 3): the pixels in sRGB; None if they are that already."""

    table: Tensor | None = None
    """float32 (C, N, N, N): the pixels' values, 0 to 1, of N steps of sRGB's red, green and blue.

    None if the pixels are sRGB."""

    @property
    def view(self) -> Tensor:
        """What networks look at: uint8 (H, W, 3), sRGB."""
        return self.pixels if self.sight is None else self.sight

    @property
    def peak(self) -> int:
        """The pixels' greatest value: 255 or 65535."""
        return torch.iinfo(self.pixels.dtype).max

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
    """The K faces of one frame, as parallel tensors on the CPU, wherever its pixels are.

    They are few numbers, at which everybody looks.
    """

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
        rows: slice | Tensor
        if isinstance(index, int):
            if not -len(self) <= index < len(self):
                raise IndexError(f"face {index} of {len(self)}")
            if len(self) == 1:
                return self
            rows = slice(index, index + 1 or None)
        elif isinstance(index, list):  # once, and not anew by each tensor
            rows = torch.tensor(index, dtype=torch.int64, device=self.boxes.device)
        else:
            rows = index
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
    def joined(cls, parts: Sequence[Faces], device: torch.device | str = "cpu") -> Faces:
        """Return the faces of all ``parts``; those without faces, and so without mesh, drop out."""
        parts = [part for part in parts if len(part)] or parts[:1]
        if len(parts) < 2:
            return parts[0] if parts else cls.none(device)
        meshes = [part.mesh for part in parts if part.mesh is not None]
        return cls(
            boxes=torch.cat([part.boxes for part in parts]),
            points=torch.cat([part.points for part in parts]),
            scores=torch.cat([part.scores for part in parts]),
            ids=torch.cat([part.ids for part in parts]),
            mesh=torch.cat(meshes) if meshes else None,
        )

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
    """float32 (K, 3, S, S), RGB in [0, 1], on the device of the frame that they were cut from."""

    matrices: Tensor
    """float32 (K, 2, 3) on the CPU: similarity transforms, frame pixels to crop pixels."""

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
    """Id of the consent record; empty for a face that may be recognised and not put on another."""

    outliers: tuple[str, ...] = ()
    """Names of the pictures that were left out because they show somebody else."""


@dataclass(frozen=True, slots=True, eq=False)
class Role:
    """A person's face, and whose place it takes."""

    identity: Identity

    instead_of: Identity | None = None
    """Who is replaced; None leaves that to the face's place in the picture."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Covered(_Shown):
    """Part of a frame that was painted over, and what was there before."""

    rectangle: Rectangle
    before: Tensor
    """The pixels (h, w, C) of the rectangle."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Layers(_Shown):
    """The swapped faces as they lie on a frame, the lowest first."""

    masks: Tensor
    """float32 (K, S, S): their opacity in their crops."""

    matrices: Tensor
    """float32 (K, 2, 3) on the CPU: similarities, frame pixels to crop pixels."""

    covered: tuple[Covered, ...]
    """The parts of the frame they lie on."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One face that could not be swapped, and why."""

    face: int
    """Index into the result's faces."""

    reason: str
    """What was wrong with the network's output."""


@dataclass(frozen=True, slots=True)
class Event:
    """What was wrong with one face for a part of a clip, and what was done about it."""

    track: int
    """The face's id."""

    reason: str
    """'lost', 'covered', 'profile', 'outside', 'unsure' or 'rejected'; see mien.pipeline.policy."""

    action: str
    """'hold', 'fade' or 'leave'."""

    start: Fraction
    """Time, in seconds, of the first frame of which this is true."""

    end: Fraction
    """Time of the last such frame."""

    frames: int
    """How many they are."""


@dataclass(frozen=True, slots=True)
class Swapped:
    """What the pipeline did to one frame."""

    frame: Frame
    """The frame that came in, its pixels changed."""

    faces: Faces
    """Every face that was found, in the order that was asked for.

    In a clip, behind them, with score 0, faces that are lost for the moment and carried along."""

    chosen: tuple[int, ...] = ()
    """Indices into ``faces`` of those that were swapped, in the order in which they were laid."""

    roles: tuple[int, ...] = ()
    """Which role each of ``chosen`` plays, as an index into the cast's roles."""

    faults: tuple[Fault, ...] = ()
    """Faces that were to be swapped and could not be."""

    distances: Tensor | None = None
    """float32 (K, R): cosine distance of each face to who is replaced in each role.

    None when faces were chosen by their place."""

    layers: Layers | None = None
    """What was laid over the frame; None if nothing was."""

    opacities: tuple[float, ...] = ()
    """How opaque each of ``chosen`` was laid, 0 to 1, where its mask is 1; empty for a picture."""

    timings: Mapping[str, float] = field(default_factory=dict)
    """Seconds spent by stage name, in the order in which the stages ran."""
