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
from torch import Tensor
from torch.nn import functional

from mien.media.clip.changing import Patch
from mien.media.clip.layout import Layout, planes_of
from mien.media.clip.look import Look
from mien.media.colors import to_eight_bits
from mien.types import Frame, Rectangle

Samples = npt.NDArray[Any]
Planes = tuple[Tensor, ...]

CPU = torch.device("cpu")

BAND = 64
"""Rows that are made brighter at a time on a CPU: what is worked on stays in the cache."""


def apart(device: torch.device) -> bool:
    """Return whether frames are converted on ``device`` itself, and not by FFmpeg on the CPU."""
    return device.type != "cpu"


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

    _rgb: list[Planes] = field(default_factory=list)
    """What ``picture`` showed before it was changed: planes of red, green and blue, (H, W)."""

    _raw: list[Planes] = field(default_factory=list)
    """The samples of luma and chroma that ``raw`` has, once they were brought to a device."""

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
        changed = {patch.plane for patch in self.patches}
        return tuple(
            self._plane(number).cpu().numpy() if number in changed else plane
            for number, plane in enumerate(planes_of(self.raw, self.look.layout))
        )

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the upright picture."""
        return self.look.orientation.size(self.look.width, self.look.height)

    def picture(self, device: torch.device | None = None) -> Frame:
        """Return the upright picture, to be changed in place: RGB in the clip's own colours.

        Pixels are uint8 (H, W, 3) for clips of 8 bits and uint16 for others. HDR and wide colours
        come with a ``sight`` in sRGB and a ``table``; see mien.types.Frame. All of it is in new
        memory on ``device``, or the CPU. Plain frames of 8 bits and 4:2:0 are converted there, so
        few bytes are brought to it, and may differ by one code from those of the CPU.
        """
        device = CPU if device is None else device
        upright = self.look.orientation.upright
        before = self._shown(device)
        if apart(before[0].device):
            pixels = torch.stack([upright(plane) for plane in before], dim=-1)
        else:  # which numpy does faster
            shown = np.stack([upright(plane.numpy()) for plane in before], axis=-1)
            pixels = torch.from_numpy(shown)
        sight: Samples | None = None
        if not self.look.tones.plain:
            sight = self.look.tones.sight(pixels.numpy())
        elif pixels.dtype != torch.uint8:
            sight = to_eight_bits(pixels.numpy())
        return Frame(
            _sent(pixels, device),
            time=self.time,
            sight=None if sight is None else _sent(torch.from_numpy(sight), device),
            table=self.look.table_on(device),
        )

    def with_changes(self, picture: Frame, changed: Iterable[Rectangle]) -> StoredFrame:
        """Return the frame with what differs in ``picture`` inside the rectangles ``changed``.

        ``picture`` is that of this frame, upright. Only samples whose own pixels differ are
        converted: all others keep their value, bit for bit, inside of rectangles too. It is done
        where the pixels are, and what was made stays there until the frame is written.
        """
        look, turn, (width, height) = self.look, self.look.orientation, self.size
        inside = [
            Rectangle(max(left, 0), max(top, 0), min(right, width), min(bottom, height))
            for left, top, right, bottom in changed
        ]
        inside = [rectangle for rectangle in inside if not rectangle.empty]
        if not inside:
            return self._with([])
        device = picture.pixels.device
        before = self._shown(device)
        planes = [self._plane(number) for number in range(1 if look.layout.kind == "gray" else 3)]

        def own(number: int, area: Rectangle) -> Tensor:
            return _sent(_cut(planes[number], area), device)

        patches: list[Patch] = []
        for rectangle in inside:
            area = turn.stored_rectangle(rectangle, width, height)
            reach = look.changing.reach(area)
            place = turn.upright_rectangle(reach, width, height)
            new = turn.stored(_cut(picture.pixels, place)).permute(2, 0, 1).contiguous()
            old = _sent(torch.stack([_cut(plane, reach) for plane in before]), device)
            # another device is not asked: the answer would have to be waited for
            if apart(device) or not torch.equal(new, old):
                patches += look.changing(new, old, own, area)
        return self._with(patches)

    def luma(self, rows: int, columns: int) -> Tensor:
        """Return the brightness of the upright picture, resized, float32 in codes from 0 to 255.

        It lies where the frame was brought to.
        """
        layout = self.look.layout
        if layout.kind == "rgb":
            green, blue, red = (self._small(self._plane(n), rows, columns) for n in range(3))
            return (0.299 * red + 0.587 * green + 0.114 * blue) * (255 / layout.top)
        black, span = layout.luma_range(full=self.look.colour.full)
        return (self._small(self._plane(0), rows, columns) - black) * (255 / span)

    def _small(self, plane: Tensor, rows: int, columns: int) -> Tensor:
        upright = self.look.orientation.upright(plane).contiguous()
        height, width = upright.shape
        # bytes are shrunk four times as fast as numbers, on a CPU
        fast = upright.device.type == "cpu" and upright.dtype == torch.uint8
        if not (fast and min(height, width) >= min(rows, columns)):
            upright = upright.float()
        elif height % 4 == 0:  # and four channels as fast as one: along columns, rows may be any
            upright = _resized(upright.view(1, 4, height // 4, width), height // 4, columns)
        return _resized(upright.view(1, 1, height, -1), rows, columns)[0, 0].float()

    def brightened(self, change: Tensor) -> StoredFrame:
        """Return the frame with ``change``, int16 (H, W) in codes of 255, added to its brightness.

        That is to its luma, or to red, green and blue; ``change`` is upright. Chroma stays.
        """
        return self.shifted(self.look.shift(change))

    def shifted(self, shift: Tensor) -> StoredFrame:
        """Return the frame with what ``look.shift`` made of a change added to its brightness."""
        look, patches = self.look, []
        for number in range(3 if look.layout.kind == "rgb" else 1):
            plane = self._plane(number)
            by = shift.to(plane.device)
            made = torch.empty_like(plane, memory_format=torch.contiguous_format)
            band = BAND if plane.device.type == "cpu" else look.height
            for top in range(0, look.height, band):
                rows = slice(top, top + band)
                made[rows] = (plane[rows].to(by.dtype) + by[rows]).clamp_(0, look.layout.top)
            patches.append(Patch(number, 0, 0, made))
        return self._with(patches)

    def in_sdr(self) -> StoredFrame:
        """Return the frame in BT.709 with 8 bits, HDR and wide colours mapped into its range.

        See mien.media.clip.sight for the formulas. A frame that is BT.709 already is itself.
        """
        if self.look.tones.plain:
            return self
        look = self.look.in_sdr
        rgb = self.look.tones.sight(np.stack(self._scaled(), axis=-1), screen=True)
        frame = av.VideoFrame.from_ndarray(rgb, "rgb24")
        frame.pts, frame.time_base = self.raw.pts, self.raw.time_base
        raw = _to_sdr(frame, look.layout)
        return replace(self, raw=raw, look=look, patches=(), _rgb=[], _raw=[])

    def for_encoder(self) -> av.VideoFrame:
        """Return the samples as a frame of PyAV's, to be read once; this frame ends with it."""
        if self.patches:
            self.raw.make_writable()
            planes = _tensors(self.raw, self.look.layout)
            for patch in self.patches:
                _cut(planes[patch.plane], patch.place).copy_(patch.samples)
        return self.raw

    def _with(self, patches: list[Patch]) -> StoredFrame:
        """Return the frame with more patches; those that they hide are forgotten."""
        size = self.look.width, self.look.height
        hidden = {patch.plane for patch in patches if patch.samples.shape == size[::-1]}
        kept = [patch for patch in self.patches if patch.plane not in hidden]
        return replace(self, patches=(*kept, *patches), _rgb=[])

    def _shown(self, device: torch.device) -> Planes:
        """Return red, green and blue of the frame, not turned, where they were first converted.

        They are kept: they are what was there before.
        """
        if not self._rgb:
            convert = self.look.yuv420
            if convert is not None and apart(device):
                self._bring(device)
                planes = convert(*(self._plane(number) for number in range(3)))
                self._rgb.append(tuple(planes))
            else:
                self._rgb.append(tuple(torch.from_numpy(plane) for plane in self._scaled()))
        return self._rgb[0]

    def _scaled(self) -> tuple[Samples, Samples, Samples]:
        """Return red, green and blue of the frame (H, W), not turned, by FFmpeg's scaler."""
        frame = self.raw
        if self.patches:
            frame = av.VideoFrame(frame.width, frame.height, frame.format.name)
            frame.pts, frame.time_base = self.raw.pts, self.raw.time_base
            for into, plane in zip(planes_of(frame, self.look.layout), self.planes, strict=True):
                into[:] = plane
        return self.look.converter.planes(frame)

    def _bring(self, device: torch.device) -> None:
        """Bring the samples of luma and chroma to ``device``, unless they are on one."""
        if not self._raw:
            planes = _tensors(self.raw, self.look.layout)[:3]
            self._raw.append(tuple(_sent(plane, device) for plane in planes))

    def _plane(self, number: int) -> Tensor:
        """Return the samples (h, w) of a plane with what was changed, to be read.

        They lie where they were brought to, or what was changed lies.
        """
        planes = self._raw[0] if self._raw else ()
        planes += _tensors(self.raw, self.look.layout)[len(planes) :]
        plane, owned = planes[number], False
        for patch in self.patches:
            if patch.plane != number:
                continue
            if patch.samples.shape == plane.shape:
                plane, owned = patch.samples, False
                continue
            if not owned:
                plane, owned = plane.to(patch.samples.device, copy=True), True
            _cut(plane, patch.place).copy_(patch.samples)
        return plane


def _cut(pixels: Tensor, area: Rectangle) -> Tensor:
    """Return a view of what lies in ``area`` of ``pixels`` (H, W, ...)."""
    return pixels[area.top : area.bottom, area.left : area.right]


def _tensors(frame: av.VideoFrame, layout: Layout) -> Planes:
    """Return views (h, w) of the planes of ``frame``."""
    return tuple(torch.from_numpy(plane) for plane in planes_of(frame, layout))


def _sent(pixels: Tensor, device: torch.device) -> Tensor:
    """Return ``pixels`` on ``device``: themselves, or a copy that is not waited for."""
    if pixels.device.type != "cpu" or device.type != "cuda":
        return pixels.to(device)
    # what may be swapped out to a disk is only copied once all earlier work is done
    pinned = torch.empty(pixels.shape, dtype=pixels.dtype, pin_memory=True)
    return pinned.copy_(pixels).to(device, non_blocking=True)


def _resized(pixels: Tensor, rows: int, columns: int) -> Tensor:
    resized: Tensor = functional.interpolate(
        pixels, (rows, columns), mode="bilinear", antialias=True, align_corners=False
    )
    return resized


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
