"""Layouts: how the samples of a stored frame lie in memory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal

import av
import numpy as np
import numpy.typing as npt
import torch

Kind = Literal["yuv", "rgb", "gray"]

PLANAR = re.compile(r"(yuva?(420|422|444|440|411|410)p|gbra?p|gray)(9|10|12|14|16)?(le)?$")
"""Formats whose planes mien works on: one component a plane, samples of the machine's order."""

SHUFFLED: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("nv12", "nv21"), "yuv420p"),
        **dict.fromkeys(("nv16", "yuyv422", "uyvy422", "yvyu422"), "yuv422p"),
        **dict.fromkeys(("nv24", "nv42", "vyu444", "uyva", "ayuv", "vuya", "vuyx"), "yuv444p"),
        **dict.fromkeys(("p010le", "p010be"), "yuv420p10le"),
        **dict.fromkeys(("p012le", "p012be"), "yuv420p12le"),
        **dict.fromkeys(("p016le", "p016be"), "yuv420p16le"),
        **dict.fromkeys(("p210le", "y210le", "nv20le"), "yuv422p10le"),
        **dict.fromkeys(("p212le", "y212le"), "yuv422p12le"),
        **dict.fromkeys(("p410le", "xv30le", "v30xle"), "yuv444p10le"),
        "uyyvyy411": "yuv411p",
        **dict.fromkeys(("rgb24", "bgr24", "0rgb", "rgb0", "0bgr", "bgr0", "pal8"), "gbrp"),
        **dict.fromkeys(("rgb555le", "rgb565le", "bgr555le", "bgr565le", "rgb8", "bgr8"), "gbrp"),
        **dict.fromkeys(("rgba", "bgra", "argb", "abgr"), "gbrap"),
        **dict.fromkeys(("x2rgb10le", "x2bgr10le"), "gbrp10le"),
        **dict.fromkeys(("rgb48le", "rgb48be", "bgr48le", "bgr48be"), "gbrp16le"),
        **dict.fromkeys(("rgba64le", "rgba64be", "bgra64le", "bgra64be"), "gbrap16le"),
        **dict.fromkeys(("monow", "monob", "ya8"), "gray"),
        **dict.fromkeys(("ya16le", "ya16be"), "gray16le"),
    }
)
"""Formats that hold the same samples in another order, and the planar one for each."""


@dataclass(frozen=True, slots=True)
class Layout:
    """One planar pixel format."""

    name: str
    """FFmpeg's name of it."""

    kind: Kind
    depth: int
    """Bits of a sample, 8 to 16; more than 8 lie in the low bits of 16."""

    across: int = 1
    """Columns of luma that share one chroma sample: 1, 2 or 4."""

    down: int = 1
    """Rows of luma that share one chroma sample: 1, 2 or 4."""

    alpha: bool = False

    @property
    def dtype(self) -> type[np.uint8] | type[np.uint16]:
        """What numpy calls a sample."""
        return np.uint8 if self.depth == 8 else np.uint16

    @property
    def tensor_dtype(self) -> torch.dtype:
        """What PyTorch calls a sample."""
        return torch.uint8 if self.depth == 8 else torch.uint16

    @property
    def top(self) -> int:
        """The greatest value of a sample."""
        return (1 << self.depth) - 1

    def luma_range(self, *, full: bool) -> tuple[float, float]:
        """Return the code of black and how many codes white lies above it."""
        if full:
            return 0.0, float(self.top)
        unit = 1 << (self.depth - 8)
        return 16.0 * unit, 219.0 * unit

    @property
    def chroma(self) -> str:
        """Such as 4:2:0; "rgb" or "gray" where there is no chroma."""
        if self.kind != "yuv":
            return self.kind
        names = {(1, 1): "4:4:4", (2, 1): "4:2:2", (2, 2): "4:2:0"}
        others = {(1, 2): "4:4:0", (4, 1): "4:1:1", (4, 4): "4:1:0"}
        return (names | others)[self.across, self.down]


@lru_cache(maxsize=64)
def layout_of(name: str) -> Layout:
    """Return the layout of a planar format. Raises ValueError for another one."""
    if not PLANAR.match(name):
        raise ValueError(f"{name} is not planar")
    described = av.VideoFormat(name, 16, 16)
    kind: Kind = "rgb" if described.is_rgb else "gray" if name.startswith("gray") else "yuv"
    across = down = 1
    if kind == "yuv":
        across, down = 16 // described.chroma_width(16), 16 // described.chroma_height(16)
    components = described.components
    alpha = any(component.is_alpha for component in components)
    return Layout(name, kind, components[0].bits, across, down, alpha)


def planar_name(name: str) -> tuple[str, bool]:
    """Return the planar format for frames of format ``name``, and whether it holds all of them."""
    if PLANAR.match(name):
        return name, True
    if name.startswith("yuvj"):
        return f"yuv{name[4:]}", True
    if name.endswith("be") and PLANAR.match(little := f"{name[:-2]}le"):
        return little, True
    if name in SHUFFLED:
        return SHUFFLED[name], not name.startswith("ya")
    described = av.VideoFormat(name, 16, 16)
    deep = max(component.bits for component in described.components) > 8
    if described.is_rgb:
        return ("gbrp16le" if deep else "gbrp"), False
    return ("yuv444p16le" if deep else "yuv444p"), False


def bits(samples: torch.Tensor) -> torch.Tensor:
    """Return a view of ``samples`` in a dtype that all of PyTorch works on; uint16 is none.

    It is for what leaves the values as they are; ``of_bits`` takes that back.
    """
    return samples.view(torch.int16) if samples.dtype == torch.uint16 else samples


def of_bits(made: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Return what was made of ``bits(like)`` in the dtype of ``like``."""
    return made.view(like.dtype)


def planes_of(frame: av.VideoFrame, layout: Layout) -> tuple[npt.NDArray[Any], ...]:
    """Return views (h, w) of the planes of ``frame``, in the format's order."""
    size = np.dtype(layout.dtype).itemsize
    return tuple(
        _samples(plane, layout).reshape(plane.height, plane.line_size // size)[:, : plane.width]
        for plane in frame.planes
    )


def _samples(plane: Any, layout: Layout) -> npt.NDArray[Any]:
    return np.frombuffer(plane, layout.dtype)


def in_planes(frame: av.VideoFrame) -> av.VideoFrame:
    """Return ``frame`` in the planar format for it; itself, where it has that."""
    name = frame.format.name
    wanted, _ = planar_name(name)
    if wanted == name:
        return frame
    if not name.startswith("yuvj"):  # whose samples FFmpeg would squeeze into another range
        return frame.reformat(format=wanted, threads=1)
    return moved(frame, wanted)


def moved(frame: av.VideoFrame, name: str) -> av.VideoFrame:
    """Return a copy of ``frame`` whose samples are the same, said to be of another format."""
    layout = layout_of(name)
    copy = like(frame, av.VideoFrame(frame.width, frame.height, name))
    for into, plane, source in zip(planes_of(copy, layout), copy.planes, frame.planes, strict=True):
        size = np.dtype(layout.dtype).itemsize
        rows = _samples(source, layout).reshape(plane.height, source.line_size // size)
        into[:] = rows[:, : plane.width]
    return copy


def like(frame: av.VideoFrame, other: av.VideoFrame) -> av.VideoFrame:
    """Return ``other`` with the time and colours of ``frame``."""
    other.pts = frame.pts
    if frame.time_base is not None:
        other.time_base = frame.time_base
    for name in ("color_range", "colorspace", "color_primaries", "color_trc"):
        setattr(other, name, getattr(frame, name))
    return other
