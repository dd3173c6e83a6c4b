"""Looks: what all frames of a clip have in common."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property

import torch

from mien.media.clip.changing import Changing
from mien.media.clip.colour import SDR, Colour, Hdr, Siting
from mien.media.clip.convert import Converter
from mien.media.clip.layout import Layout, layout_of
from mien.media.clip.orientation import Orientation
from mien.media.clip.sight import Tones
from mien.media.clip.yuv420 import Yuv420


class Look:
    """What all frames of a clip have in common: size, layout, colours, orientation.

    ``width`` and ``height`` are those of the stored samples. ``aspect`` is the width of a stored
    pixel over its height.
    """

    def __init__(
        self,
        *,
        width: int,
        height: int,
        layout: Layout,
        colour: Colour,
        siting: Siting,
        orientation: Orientation,
        hdr: Hdr,
        aspect: Fraction,
    ) -> None:
        self.width, self.height, self.layout = width, height, layout
        self.colour, self.siting, self.orientation = colour, siting, orientation
        self.hdr, self.aspect = hdr, aspect
        self.converter = Converter(layout, colour, siting, width, height)
        self.changing = Changing(layout, colour, siting, width, height)
        self.tones = Tones(colour, hdr.peak)
        self._tables: dict[torch.device, torch.Tensor] = {}

    @cached_property
    def table(self) -> torch.Tensor | None:
        """The table from sRGB into the pixels' values; see Frame.table."""
        return self.tones.table()

    def table_on(self, device: torch.device) -> torch.Tensor | None:
        """Return the table on a device; it is brought there once."""
        if self.table is None:
            return None
        if device not in self._tables:
            self._tables[device] = self.table.to(device)
        return self._tables[device]

    def shift(self, change: torch.Tensor) -> torch.Tensor:
        """Return a change of brightness, int16 (H, W) in codes of 255 and upright, as stored.

        That is in codes of luma, or of red, green and blue, int16, or int32 for 15 bits and more.
        """
        layout = self.layout
        rgb = layout.kind == "rgb"
        span = layout.top if rgb else layout.luma_range(full=self.colour.full)[1]
        by = self.orientation.stored(change)
        if span != 255:
            by = (by.float() * (span / 255)).round_()
        return by.to(torch.int16 if layout.depth < 15 else torch.int32)

    @cached_property
    def yuv420(self) -> Yuv420 | None:
        """What converts frames on any device; None if FFmpeg's scaler is to do it, on the CPU."""
        layout = self.layout
        fits = layout.kind == "yuv" and layout.depth == 8 and layout.chroma == "4:2:0"
        if not (fits and self.tones.plain):
            return None
        return Yuv420(self.colour, self.siting, self.width, self.height)

    @cached_property
    def in_sdr(self) -> Look:
        """The look of the same clip, brought to BT.709 with 8 bits."""
        layout = self.layout
        chroma = {(2, 1): "yuv422p", (1, 1): "yuv444p"}.get((layout.across, layout.down), "yuv420p")
        return Look(
            width=self.width,
            height=self.height,
            layout=layout_of(chroma if layout.kind == "yuv" else "yuv420p"),
            colour=SDR,
            siting="left",
            orientation=self.orientation,
            hdr=Hdr(),
            aspect=self.aspect,
        )
