"""A stored frame: one moment of a clip, in the samples it was decoded to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import av
import numpy as np
import numpy.typing as npt
import torch
from av.filter import Graph
from torch.nn import functional

from mien.media.clip.layout import Layout, planes_of
from mien.media.clip.look import Look
from mien.media.colors import to_eight_bits
from mien.types import Frame, Rectangle

Samples = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Patch:
    """Samples that take the place of a plane's."""

    plane: int
    top: int
    left: int
    samples: Samples


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StoredFrame:
    """One moment of a clip: its own samples, and when it is shown."""

    raw: av.VideoFrame
    """What was decoded, in planes. The decoder may still need it: never write to it."""

    look: Look
    time: Fraction
    """When it is shown, in seconds as the file counts them; exact, and negative if need be."""

    duration: Fraction | None = None
    """For how long, in seconds, if the file says so."""

    number: int = 0
    """How many frames were delivered before it."""

    damaged: bool = False
    """Whether the decoder said that it is not whole."""

    patches: tuple[Patch, ...] = ()
    """What was changed."""

    _before: dict[str, Samples] = field(default_factory=dict)

    def __repr__(self) -> str:
        look = self.look
        return (
            f"StoredFrame(number={self.number}, time={self.time}, {look.width}x{look.height} "
            f"{look.layout.name}, patches={len(self.patches)})"
        )

    @property
    def planes(self) -> tuple[Samples, ...]:
        """The samples (h, w) of each plane, uint8 or uint16, with what was changed.

        They are views, to be read, and not after the frame was written.
        """
        planes = planes_of(self.raw, self.look.layout)
        if not self.patches:
            return planes
        return _patched(tuple(plane.copy() for plane in planes), self.patches)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the upright picture."""
        return self.look.orientation.size(self.look.width, self.look.height)

    def picture(self) -> Frame:
        """Return the upright picture, to be changed in place: RGB in the clip's own colours.

        Pixels are uint8 (H, W, 3) for clips of 8 bits and uint16 for others. HDR and wide colours
        come with a ``sight`` in sRGB and a ``table``; see mien.types.Frame.
        """
        upright = np.require(self.look.orientation.upright(self._rgb()), requirements="C")
        pixels = upright.copy() if upright is self._rgb() else upright
        tones = self.look.tones
        sight: Samples | None = None
        if not tones.plain:
            sight = tones.sight(pixels)
        elif pixels.dtype != np.uint8:
            sight = to_eight_bits(pixels)
        return Frame(
            torch.from_numpy(pixels),
            time=self.time,
            sight=None if sight is None else torch.from_numpy(sight),
            table=self.look.table,
        )

    def with_changes(self, picture: Frame, changed: Iterable[Rectangle]) -> StoredFrame:
        """Return the frame with what differs in ``picture`` inside the rectangles ``changed``.

        ``picture`` is that of this frame, upright. Only samples whose own pixels differ are
        converted: all others keep their value, bit for bit, inside of rectangles too.
        """
        pixels = picture.pixels.cpu().numpy()
        width, height = self.size
        upright = self.look.orientation
        after = upright.stored(pixels)
        patches: list[Patch] = []
        for rectangle in changed:
            left, top = max(rectangle.left, 0), max(rectangle.top, 0)
            right, bottom = min(rectangle.right, width), min(rectangle.bottom, height)
            inside = Rectangle(left, top, right, bottom)
            if not inside.empty:
                stored = upright.stored_rectangle(inside, width, height)
                patches += self._patches(after, stored)
        return replace(self, patches=self.patches + tuple(patches), _before={})

    def luma(self, rows: int, columns: int) -> torch.Tensor:
        """Return the brightness of the upright picture, resized, float32 in codes from 0 to 255."""
        planes = self.planes
        if self.look.layout.kind == "rgb":
            green, blue, red = (self._small(plane, rows, columns) for plane in planes[:3])
            return (0.299 * red + 0.587 * green + 0.114 * blue) * (255 / self.look.layout.top)
        black, span = self.look.converter.luma_range
        return (self._small(planes[0], rows, columns) - black) * (255 / span)

    def _small(self, plane: Samples, rows: int, columns: int) -> torch.Tensor:
        upright = torch.from_numpy(np.ascontiguousarray(self.look.orientation.upright(plane)))
        # bytes are shrunk four times as fast as numbers
        fast = upright.dtype == torch.uint8 and min(upright.shape) >= min(rows, columns)
        small: torch.Tensor = functional.interpolate(
            (upright if fast else upright.float())[None, None],
            (rows, columns),
            mode="bilinear",
            antialias=True,
            align_corners=False,
        )
        return small[0, 0].float()

    def brightened(self, change: torch.Tensor) -> StoredFrame:
        """Return the frame with ``change``, int16 (H, W) in codes of 255, added to its brightness.

        That is to its luma, or to red, green and blue; ``change`` is upright. Chroma stays.
        """
        layout = self.look.layout
        span = layout.top if layout.kind == "rgb" else self.look.converter.luma_range[1]
        by = self.look.orientation.stored(change.numpy())
        wide: type[np.signedinteger[Any]] = np.int16 if layout.depth < 15 else np.int32
        if span != 255:
            by = np.rint(by * np.float32(span / 255)).astype(wide)
        patches = [
            Patch(number, 0, 0, np.add(plane, by, dtype=wide).clip(0, layout.top, dtype=wide))
            for number, plane in enumerate(self.planes[: 3 if layout.kind == "rgb" else 1])
        ]
        return replace(self, patches=self.patches + tuple(patches), _before={})

    def in_sdr(self) -> StoredFrame:
        """Return the frame in BT.709 with 8 bits, HDR and wide colours mapped into its range.

        See mien.media.clip.sight for the formulas. A frame that is BT.709 already is itself.
        """
        if self.look.tones.plain:
            return self
        look = self.look.in_sdr
        rgb = self.look.tones.sight(self._rgb(), screen=True)
        frame = av.VideoFrame.from_ndarray(rgb, "rgb24")
        frame.pts, frame.time_base = self.raw.pts, self.raw.time_base
        return replace(self, raw=_to_sdr(frame, look.layout), look=look, patches=(), _before={})

    def for_encoder(self) -> av.VideoFrame:
        """Return the samples as a frame of PyAV's, to be read once; this frame ends with it."""
        if self.patches:
            self.raw.make_writable()
            _patched(planes_of(self.raw, self.look.layout), self.patches)
        return self.raw

    def _rgb(self) -> Samples:
        """Return the frame as RGB (H, W, 3), not turned, and keep it as what was there before."""
        if "rgb" not in self._before:
            frame = self.raw
            if self.patches:
                frame = av.VideoFrame(frame.width, frame.height, frame.format.name)
                frame.pts, frame.time_base = self.raw.pts, self.raw.time_base
                for into, plane in zip(
                    planes_of(frame, self.look.layout), self.planes, strict=True
                ):
                    into[:] = plane
            self._before["rgb"] = self.look.converter.to_rgb(frame)
        return self._before["rgb"]

    def _patches(self, after: Samples, area: Rectangle) -> list[Patch]:
        """Return what makes the planes show the stored RGB ``after`` within ``area``."""
        layout, converter = self.look.layout, self.look.converter
        left, top, right, bottom = area
        here = (slice(top, bottom), slice(left, right))
        new, old = after[here], self._rgb()[here]
        differs = _differing(new, old)
        if not differs.any():
            return []
        own = self.planes
        if layout.kind == "rgb":
            samples = converter.rgb_samples(new)
            return [
                Patch(plane, top, left, np.where(differs, samples[..., channel], own[plane][here]))
                for plane, channel in ((0, 1), (1, 2), (2, 0))
            ]
        peak = np.float32(np.iinfo(new.dtype).max)
        luma = np.where(differs, converter.luma(new * (1 / peak)), own[0][here])
        patches = [Patch(0, top, left, luma)]
        if layout.kind == "yuv":
            patches += self._chroma(after, area, own)
        return patches

    def _chroma(self, after: Samples, area: Rectangle, own: tuple[Samples, ...]) -> list[Patch]:
        """Return the chroma of ``area``: new where all pixels of a sample differ, else moved.

        Moved by how much the average of its pixels moved: chroma that was there keeps its detail
        under a transparent edge, where new chroma would be that of pixels interpolated from it.
        """
        look, layout, converter = self.look, self.look.layout, self.look.converter
        across, down = layout.across, layout.down
        # a pixel counts for samples of its own block and of those beside it
        blocks = Rectangle(
            max(area.left // across - 1, 0),
            max(area.top // down - 1, 0),
            min((area.right - 1) // across + 2, -(-look.width // across)),
            min((area.bottom - 1) // down + 2, -(-look.height // down)),
        )
        new, old = (self._window(rgb, blocks) for rgb in (after, self._rgb()))
        peak = np.float32(np.iinfo(new.dtype).max)
        share = converter.shrunk(_differing(new, old).astype(np.float32))[..., None]
        values = converter.chroma(new * (1 / peak))
        moved = values - converter.chroma(old * (1 / peak))
        here = (slice(blocks.top, blocks.bottom), slice(blocks.left, blocks.right))
        present = np.stack([own[1][here], own[2][here]], axis=-1)
        fresh = np.where(share > 0.999, converter.shrunk(values), present + converter.shrunk(moved))
        samples = np.where(share > 0, converter.rounded_chroma(fresh), present)
        return [Patch(plane, blocks.top, blocks.left, samples[..., plane - 1]) for plane in (1, 2)]

    def _window(self, rgb: Samples, blocks: Rectangle) -> Samples:
        """Return the pixels of ``blocks`` and of one more on every side; edges are repeated."""
        across, down = self.look.layout.across, self.look.layout.down
        height, width = rgb.shape[:2]
        y0, y1 = (blocks.top - 1) * down, (blocks.bottom + 1) * down
        x0, x1 = (blocks.left - 1) * across, (blocks.right + 1) * across
        top, bottom, left, right = max(y0, 0), min(y1, height), max(x0, 0), min(x1, width)
        margins = ((top - y0, y1 - bottom), (left - x0, x1 - right), (0, 0))
        return np.pad(rgb[top:bottom, left:right], margins, mode="edge")


def _differing(new: Samples, old: Samples) -> npt.NDArray[np.bool_]:
    """Return which pixels (h, w) of two pictures (h, w, 3) differ."""
    differs = new != old
    return np.asarray(differs[..., 0] | differs[..., 1] | differs[..., 2])


def _patched(planes: tuple[Samples, ...], patches: tuple[Patch, ...]) -> tuple[Samples, ...]:
    for patch in patches:
        height, width = patch.samples.shape
        planes[patch.plane][patch.top : patch.top + height, patch.left : patch.left + width] = (
            patch.samples
        )
    return planes


def _to_sdr(rgb: av.VideoFrame, layout: Layout) -> av.VideoFrame:
    graph = Graph()
    source = graph.add_buffer(
        width=rgb.width, height=rgb.height, format=rgb.format, time_base=Fraction(1, 1000)
    )
    scale = graph.add(
        "scale",
        "in_range=full:out_range=limited:out_color_matrix=bt709:out_chroma_loc=left"
        ":flags=bilinear+full_chroma_int+full_chroma_inp+accurate_rnd",
    )
    planar = graph.add("format", layout.name)
    graph.link_nodes(source, scale, planar, graph.add("buffersink")).configure()
    graph.vpush(rgb)
    frame = graph.vpull()
    frame.pts, frame.time_base = rgb.pts, rgb.time_base
    return frame
