"""Fitting: frames as an encoder takes them, turned, padded or in another layout if need be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import av
import numpy as np
from av.filter import Graph

from mien.media.clip.colour import UNSPECIFIED, Colour
from mien.media.clip.containers import Container
from mien.media.clip.convert import EXACT, SCALER_MATRICES, padded
from mien.media.clip.encoding import Plan
from mien.media.clip.layout import layout_of, like, planar_name, planes_of
from mien.media.clip.look import Look
from mien.media.clip.orientation import Orientation
from mien.media.clip.settings import ClipSettings
from mien.media.clip.stored import StoredFrame


@dataclass(frozen=True, slots=True)
class Shape:
    """What frames are like as they are written."""

    width: int
    height: int
    colour: Colour
    siting: str
    aspect: Fraction
    orientation: Orientation
    """What the output is to say of which way up they are."""


class Fitter:
    """Makes frames of ``look`` such as ``plan`` wants them. ``notes`` says what was done."""

    def __init__(
        self, look: Look, plan: Plan, container: Container, settings: ClipSettings
    ) -> None:
        self._look, self._plan = look, plan
        self._written = layout_of(planar_name(plan.pixel_format)[0])
        notes = []
        turned = not container.turns and not look.orientation.plain
        self._turn = look.orientation if turned else None
        width, height = look.width, look.height
        if turned:
            width, height = look.orientation.size(width, height)
            notes.append(
                f"Pictures were turned upright: {container.name} cannot say which way up they are."
            )
        if not look.orientation.exact:
            notes.append("The display matrix is slanted or stretched; it was left out.")
        full = (width, height)
        across, down = self._written.across, self._written.down
        odd = plan.encoder.even and bool(width % across or height % down)
        if (odd and settings.odd == "444") or (turned and across != down):
            self._written = layout_of(f"yuv444p{self._written.name.partition('p')[2]}")
            across = down = 1
            notes.append("Pictures are written as 4:4:4, which takes their size as it is.")
        if plan.encoder.even:
            width, height = -(-width // across) * across, -(-height // down) * down
        if (width, height) != full:
            notes.append(
                f"Pictures of {full[0]}x{full[1]} were padded to {width}x{height}, which "
                f"{plan.codec} in {self._written.chroma} asks for: the last column or row is "
                "repeated."
            )
        colour = look.colour
        if look.layout.kind == "rgb" and self._written.kind == "yuv":
            colour = replace(colour, matrix=1, full=False)
        aspect = 1 / look.aspect if turned and look.orientation.transposed else look.aspect
        self.notes = tuple(notes)
        self.pixel_format = (
            plan.pixel_format
            if layout_of(planar_name(plan.pixel_format)[0]) == self._written
            else self._written.name
        )
        self.shape = Shape(
            width,
            height,
            colour,
            look.siting,
            aspect,
            Orientation() if turned else look.orientation,
        )
        self._graph: Graph | None = None

    def fit(self, frame: StoredFrame) -> av.VideoFrame:
        """Return the samples of ``frame`` for the encoder; ``frame`` ends with it."""
        raw = frame.for_encoder()
        if self._look.layout != self._written:
            raw = like(raw, self._converted(raw))
        if self._turn is not None:
            raw = self._turned(raw)
        if (raw.width, raw.height) != (self.shape.width, self.shape.height):
            larger = av.VideoFrame(self.shape.width, self.shape.height, raw.format.name)
            raw = padded(raw, like(raw, larger), self._written)
        if raw.format.name != self.pixel_format:  # the same samples in another order
            raw = like(raw, raw.reformat(format=self.pixel_format, threads=1))
        raw.pict_type = 0  # else the encoder takes over the kinds of the input's frames
        return raw

    def _turned(self, raw: av.VideoFrame) -> av.VideoFrame:
        assert self._turn is not None
        width, height = self._turn.size(raw.width, raw.height)
        upright = like(raw, av.VideoFrame(width, height, raw.format.name))
        for into, plane in zip(
            planes_of(upright, self._written), planes_of(raw, self._written), strict=True
        ):
            into[:] = np.ascontiguousarray(self._turn.upright(plane))
        return upright

    def _converted(self, raw: av.VideoFrame) -> av.VideoFrame:
        look = self._look
        if self._graph is None:
            self._graph = graph = Graph()
            source = graph.add_buffer(
                width=raw.width, height=raw.height, format=raw.format, time_base=Fraction(1, 1000)
            )
            into = self.shape.colour
            ranges = ["full" if each.full else "limited" for each in (look.colour, into)]
            options = [f"in_range={ranges[0]}", f"out_range={ranges[1]}", f"flags={EXACT}"]
            if look.layout.kind != "rgb":
                matrix = SCALER_MATRICES[look.colour.known_matrix(look.height)]
                options += [f"in_color_matrix={matrix}", f"in_chroma_loc={look.siting}"]
            if self._written.kind != "rgb":
                matrix = SCALER_MATRICES[into.known_matrix(look.height)]
                options += [f"out_color_matrix={matrix}", f"out_chroma_loc={look.siting}"]
            scale = graph.add("scale", ":".join(options))
            planar = graph.add("format", self._written.name)
            graph.link_nodes(source, scale, planar, graph.add("buffersink")).configure()
        tags = raw.color_primaries, raw.color_trc
        raw.color_primaries = raw.color_trc = UNSPECIFIED
        try:
            self._graph.vpush(raw)
            return self._graph.vpull()
        finally:
            raw.color_primaries, raw.color_trc = tags
