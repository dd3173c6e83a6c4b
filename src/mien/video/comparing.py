"""Comparing: frames before and after in one frame, in the clip's own samples."""

from __future__ import annotations

from typing import Any

import av
import numpy as np
import numpy.typing as npt

from mien.errors import InvalidOption
from mien.media.clip import Look, StoredFrame
from mien.media.clip.layout import Layout, like, planes_of

GAP = 0.01
"""Width of the line between the two, by the frame's longer side."""

LARGEST = 16_384
"""Pixels across or down that encoders take at most; libx264 and libvpx say so."""

Samples = npt.NDArray[Any]


class Comparison:
    """Joins frames of one ``look``: beside each other, above each other if they are wide.

    What was before comes first, as the upright picture is seen. Halves are filled up to whole
    chroma samples by repeating their last column or row. ``look`` is what joined frames have, in
    the same layout, colours and HDR. Raises InvalidOption if they are larger than LARGEST.
    """

    def __init__(self, look: Look) -> None:
        width, height = look.orientation.size(look.width, look.height)
        down = width > height
        # the stored axis along which the upright one goes: 0 is from top to bottom
        self._axis = 0 if down != look.orientation.transposed else 1
        self._turned = look.orientation.flipped if down else look.orientation.mirrored
        layout = look.layout
        self._block = layout.down if self._axis == 0 else layout.across
        side = (look.height, look.width)[self._axis]
        self._half = -(-side // self._block) * self._block
        gap = max(2, round(GAP * max(width, height)))
        self._gap = -(-gap // self._block) * self._block
        size = [look.height, look.width]
        size[self._axis] = 2 * self._half + self._gap
        if max(size) > LARGEST:
            raise InvalidOption(
                "compare",
                f"{size[1]}x{size[0]}",
                f"frames of at most {LARGEST} pixels across and down, both together",
            )
        self.look = Look(
            width=size[1],
            height=size[0],
            layout=layout,
            colour=look.colour,
            siting=look.siting,
            orientation=look.orientation,
            hdr=look.hdr,
            aspect=look.aspect,
        )

    def __call__(self, before: StoredFrame, after: StoredFrame) -> StoredFrame:
        """Return both in one frame, at their time; they stay as they are."""
        layout = self.look.layout
        raw = like(before.raw, av.VideoFrame(self.look.width, self.look.height, layout.name))
        pairs = zip(before.planes, after.planes, strict=True)
        for number, (into, both) in enumerate(zip(planes_of(raw, layout), pairs, strict=True)):
            into[:] = self._joined(both, layout, number)
        return StoredFrame(
            raw,
            self.look,
            before.time,
            duration=before.duration,
            number=before.number,
            damaged=before.damaged,
        )

    def _joined(self, both: tuple[Samples, Samples], layout: Layout, plane: int) -> Samples:
        chroma = layout.kind == "yuv" and plane in (1, 2)
        block = self._block if chroma else 1
        first, last = (self._filled(half, self._half // block) for half in both)
        shape = list(first.shape)
        shape[self._axis] = self._gap // block
        # the middle code is a gray in every layout, that of a screen's paper in HDR
        line = np.full(shape, layout.top if plane == 3 else 1 << (layout.depth - 1), layout.dtype)
        parts = [first, line, last]
        return np.concatenate(parts[::-1] if self._turned else parts, axis=self._axis)

    def _filled(self, plane: Samples, length: int) -> Samples:
        missing = length - plane.shape[self._axis]
        if not missing:
            return plane
        margins = [(0, 0), (0, 0)]
        margins[self._axis] = (0, missing)
        return np.pad(plane, margins, mode="edge")
