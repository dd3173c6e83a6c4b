"""Changing: samples of RGB that was changed, by the formulas of H.273, wherever it lies.

Nothing here asks a device what it computed, so nothing waits for one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mien.media.clip.colour import Colour, Siting
from mien.media.clip.layout import Layout, bits, of_bits
from mien.types import Rectangle

Own = Callable[[int, Rectangle], Tensor]
"""Returns the samples (h, w) that a plane has by now, within a rectangle of it."""


@dataclass(frozen=True, slots=True)
class Patch:
    """Samples that take the place of a plane's."""

    plane: int
    top: int
    left: int
    samples: Tensor
    """(h, w), of the layout's dtype, on any device."""

    @property
    def place(self) -> Rectangle:
        """Where they lie in the plane."""
        height, width = self.samples.shape
        return Rectangle(self.left, self.top, self.left + width, self.top + height)


class Changing:
    """Converts what was changed in frames of one size, layout and colour."""

    def __init__(
        self, layout: Layout, colour: Colour, siting: Siting, width: int, height: int
    ) -> None:
        self.layout, self.colour = layout, colour
        self.width, self.height = width, height
        self._on_column = siting in ("left", "topleft")
        self._on_row = siting == "topleft"
        self._weights = colour.weights(height)

    @property
    def luma_range(self) -> tuple[float, float]:
        """Return the code of black and how many codes white lies above it."""
        return self.layout.luma_range(full=self.colour.full)

    def reach(self, area: Rectangle) -> Rectangle:
        """Return the pixels that count for the samples of ``area``, as far as there are any."""
        if self.layout.kind != "yuv":
            return area
        left, top, right, bottom = self._whole(self._blocks(area))
        return Rectangle(
            max(left, 0), max(top, 0), min(right, self.width), min(bottom, self.height)
        )

    def __call__(self, new: Tensor, old: Tensor, own: Own, area: Rectangle) -> list[Patch]:
        """Return what makes the planes show ``new`` within ``area``.

        ``new`` and ``old`` are planes of red, green and blue, uint8 or uint16 (3, h, w), of the
        pixels in ``reach(area)``. Samples keep their value where the two are the same.
        """
        given = self.reach(area)
        different = bits(new) != bits(old)
        differs = different[0] | different[1] | different[2]
        inner = _within(area, given)
        here = differs[inner]
        if self.layout.kind == "rgb":
            return [
                Patch(
                    plane,
                    area.top,
                    area.left,
                    _chosen(here, self._rgb(new[channel][inner]), own(plane, area)),
                )
                for plane, channel in ((0, 1), (1, 2), (2, 0))
            ]
        peak = torch.iinfo(new.dtype).max
        luma = self._luma([plane[inner].float() for plane in new], peak)
        patches = [Patch(0, area.top, area.left, _chosen(here, luma, own(0, area)))]
        if self.layout.kind == "yuv":
            parts = [bits(each) for each in (new, old, differs[None].to(new.dtype))]
            values = of_bits(torch.cat(parts), new)
            patches += self._chroma(values, peak, own, self._blocks(area))
        return patches

    def _luma(self, rgb: Sequence[Tensor], peak: int) -> Tensor:
        """Return luma samples (h, w) of red, green and blue, float32 (h, w), which are lost."""
        black, span = self.luma_range
        red, blue = (weight * span / peak for weight in self._weights)
        green = span / peak - red - blue
        values = rgb[0].mul_(red).add_(rgb[1], alpha=green).add_(rgb[2], alpha=blue)
        return self._rounded(values.add_(black))

    def _chroma(self, values: Tensor, peak: int, own: Own, blocks: Rectangle) -> list[Patch]:
        """Return the chroma of ``blocks``: new where all pixels of a sample differ, else moved.

        Moved by how much the average of its pixels moved: chroma that was there keeps its detail
        under a transparent edge, where new chroma would be that of pixels interpolated from it.
        ``values`` is (7, h, w), of the pixels' dtype: new ones, old ones, and 1 where they differ.
        """
        # RGB is averaged and not chroma, which comes to the same: whole numbers, so exactly
        averaged = self._averaged(self._filled(values, blocks))
        new, old, share = averaged[:3], averaged[3:6], averaged[6]
        after, moved = self._colours(new, peak), self._colours(new - old, peak)
        middle = 128 << self.layout.depth - 8
        touched, whole = share > 0, share > 0.999
        patches = []
        for plane in (1, 2):
            present = own(plane, blocks)
            fresh = torch.where(
                whole, after[plane - 1] + middle, moved[plane - 1] + present.float()
            )
            samples = _chosen(touched, self._rounded(fresh), present)
            patches.append(Patch(plane, blocks.top, blocks.left, samples))
        return patches

    def _colours(self, rgb: Tensor, peak: int) -> tuple[Tensor, Tensor]:
        """Return chroma (h, w) of RGB, float32 (3, h, w): codes from the middle one on."""
        red, blue = self._weights
        green = 1 - red - blue
        span = self.layout.top if self.colour.full else 224 << self.layout.depth - 8
        luma = (rgb[0] * red).add_(rgb[1], alpha=green).add_(rgb[2], alpha=blue)
        over_blue, over_red = (
            (rgb[channel] - luma).mul_(span / peak / 2 / (1 - weight))
            for channel, weight in ((2, blue), (0, red))
        )
        return over_blue, over_red

    def _blocks(self, area: Rectangle) -> Rectangle:
        """Return the chroma samples for which pixels of ``area`` count."""
        across, down = self.layout.across, self.layout.down
        # a pixel counts for samples of its own block and of those beside it
        return Rectangle(
            max(area.left // across - 1, 0),
            max(area.top // down - 1, 0),
            min((area.right - 1) // across + 2, -(-self.width // across)),
            min((area.bottom - 1) // down + 2, -(-self.height // down)),
        )

    def _whole(self, blocks: Rectangle) -> Rectangle:
        """Return the pixels of ``blocks`` and of one more on every side, beyond the frame too."""
        across, down = self.layout.across, self.layout.down
        return Rectangle(
            (blocks.left - 1) * across,
            (blocks.top - 1) * down,
            (blocks.right + 1) * across,
            (blocks.bottom + 1) * down,
        )

    def _filled(self, values: Tensor, blocks: Rectangle) -> Tensor:
        """Return ``values`` of what lies in the frame for all that counts: edges are repeated."""
        left, top, right, bottom = self._whole(blocks)
        values = _repeated(values, 1, max(-top, 0), max(bottom - self.height, 0))
        return _repeated(values, 2, max(-left, 0), max(right - self.width, 0))

    def _averaged(self, values: Tensor) -> Tensor:
        """Return values (C, h, w), one a pixel, averaged to the chroma samples.

        ``values`` is of whole chroma blocks and, around them, one block more on every side, which
        the result (C, blocks down, blocks across) lacks. Weights follow the siting: 1, 2, 1 around
        a sample that lies on a pixel, and equal ones over a block that it lies amid.
        """
        wide = torch.int16 if values.dtype == torch.uint8 else torch.int32
        rows, whole = _summed(values, self.layout.down, 1, wide, on_sample=self._on_row)
        total, part = _summed(rows, self.layout.across, 2, wide, on_sample=self._on_column)
        return total.float().div_(whole * part)

    def _rgb(self, codes: Tensor) -> Tensor:
        """Return pixels (h, w) of one of red, green and blue in an RGB layout's depth."""
        depth, top = self.layout.depth, self.layout.top
        if depth in (8, 16):
            return codes
        wide = codes.to(torch.int32).mul_(top).add_(32767)
        return wide.div_(65535, rounding_mode="floor").to(codes.dtype)

    def _rounded(self, values: Tensor) -> Tensor:
        """Return ``values``, which are lost, as samples."""
        rounded: Tensor = values.add_(0.5).clamp_(0, self.layout.top)
        return rounded.to(self.layout.tensor_dtype)


def _chosen(where: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """Return samples ``new`` in places, ``old`` elsewhere."""
    return of_bits(torch.where(where, bits(new), bits(old)), new)


def _within(area: Rectangle, given: Rectangle) -> tuple[slice, slice]:
    """Return where the pixels of ``area`` lie among those that are given."""
    return (
        slice(area.top - given.top, area.bottom - given.top),
        slice(area.left - given.left, area.right - given.left),
    )


def _repeated(values: Tensor, dim: int, before: int, after: int) -> Tensor:
    """Return ``values`` with the first and the last along ``dim`` repeated so often."""
    if not (before or after):
        return values
    first, last = values.narrow(dim, 0, 1), values.narrow(dim, values.shape[dim] - 1, 1)
    parts = [bits(each) for each in (*[first] * before, values, *[last] * after)]
    return of_bits(torch.cat(parts, dim), values)


def _summed(
    values: Tensor, step: int, dim: int, dtype: torch.dtype, *, on_sample: bool
) -> tuple[Tensor, int]:
    """Return weighted sums along ``dim`` for every block but the first and last, and the weight."""
    blocks = values.shape[dim] // step - 2
    parts: tuple[Tensor, ...] = values.unflatten(dim, (blocks + 2, step)).unbind(dim + 1)
    total = parts[0].narrow(dim, 1, blocks).to(dtype, copy=True)
    if on_sample and step == 2:
        after = parts[1].to(dtype)
        total.mul_(2).add_(after.narrow(dim, 0, blocks)).add_(after.narrow(dim, 1, blocks))
        return total, 4
    for part in parts[1:]:
        total.add_(part.narrow(dim, 1, blocks).to(dtype))
    return total, step
