"""From planes to RGB on the CPU, with the clip's own matrix, range and chroma siting.

Frames go through FFmpeg's scaler, told everything explicitly; it then keeps to the formulas of
H.273 within half a code (measured in the tests). Back go only the parts that were changed: see
``changing``.
"""

from __future__ import annotations

import threading
from fractions import Fraction
from typing import Any

import av
import numpy as np
import numpy.typing as npt
from av.filter import Graph
from av.video.reformatter import Interpolation

from mien.media.clip.colour import UNSPECIFIED, Colour, Siting
from mien.media.clip.layout import Layout, layout_of, planes_of

EXACT = "bilinear+full_chroma_int+full_chroma_inp+accurate_rnd"
"""Flags of the scaler without which it is off by up to 10 codes."""

INTERPOLATION = int(
    Interpolation.BILINEAR
    | Interpolation.FULL_CHR_H_INT
    | Interpolation.FULL_CHR_H_INP
    | Interpolation.ACCURATE_RND
)
"""The same flags, for PyAV."""

CENTRED = frozenset({"h264", "hevc", "vvc", "mjpeg", "mpeg1video"})
"""Codecs whose decoders say so when chroma lies amid four pixels. Of others that means that
nothing is said; all but those two old ones then have it on the left column."""

SCALER_MATRICES = {1: "bt709", 4: "fcc", 5: "bt601", 6: "bt601", 7: "smpte240m", 9: "bt2020"}

Samples = npt.NDArray[Any]


class Converter:
    """Converts frames of one size, layout and colour. Threads may share it."""

    def __init__(
        self, layout: Layout, colour: Colour, siting: Siting, width: int, height: int
    ) -> None:
        self.layout, self.colour, self.siting = layout, colour, siting
        self.width, self.height = width, height
        self._own = threading.local()

    @property
    def deep(self) -> bool:
        """Whether RGB is uint16 with white at 65535, and not uint8."""
        return self.layout.depth > 8

    @property
    def matrix(self) -> str:
        """The scaler's name of the matrix."""
        return SCALER_MATRICES[self.colour.known_matrix(self.height)]

    def planes(self, frame: av.VideoFrame) -> tuple[Samples, Samples, Samples]:
        """Return red, green and blue of ``frame``, uint8 or uint16 (H, W), not turned upright.

        They may be views of the frame's own samples.
        """
        layout = self.layout
        if layout.kind == "rgb":
            green, blue, red, *_ = planes_of(frame, layout)
            return self._widened(red), self._widened(green), self._widened(blue)
        if layout.kind == "gray":
            gray = self._gray_codes()[planes_of(frame, layout)[0]]
            return gray, gray, gray
        converted = self._scaled(self._evened(frame))
        green, blue, red = (
            plane[: self.height, : self.width]
            for plane in planes_of(converted, layout_of(converted.format.name))
        )
        if self.deep:
            return self._whitened(red), self._whitened(green), self._whitened(blue)
        return red, green, blue

    def _scaled(self, frame: av.VideoFrame) -> av.VideoFrame:
        tags = frame.color_primaries, frame.color_trc
        frame.color_primaries = frame.color_trc = UNSPECIFIED  # it refuses those it does not know
        try:
            graph = self._graph(frame)
            graph.vpush(frame)
            return graph.vpull()
        finally:
            frame.color_primaries, frame.color_trc = tags

    def _graph(self, frame: av.VideoFrame) -> Graph:
        graph: Graph | None = getattr(self._own, "graph", None)
        if graph is not None:
            return graph
        graph = Graph()
        source = graph.add_buffer(
            width=frame.width, height=frame.height, format=frame.format, time_base=Fraction(1, 1000)
        )
        scale = graph.add(
            "scale",
            f"in_range={'full' if self.colour.full else 'limited'}:out_range=full"
            f":in_color_matrix={self.matrix}:in_chroma_loc={self.siting}:flags={EXACT}",
        )
        planar = graph.add("format", "gbrp16le" if self.deep else "gbrp")
        graph.link_nodes(source, scale, planar, graph.add("buffersink")).configure()
        self._own.graph = graph
        return graph

    def _evened(self, frame: av.VideoFrame) -> av.VideoFrame:
        """Return a frame of the same samples, of whole chroma blocks.

        The scaler stretches chroma by size, which moves it where a size is odd.
        """
        across, down = self.layout.across, self.layout.down
        width, height = -(-self.width // across) * across, -(-self.height // down) * down
        if (width, height) == (self.width, self.height):
            return frame
        even = av.VideoFrame(width, height, frame.format.name)
        even.time_base, even.pts = frame.time_base, frame.pts
        return padded(frame, even, self.layout)

    def _whitened(self, plane: Samples) -> npt.NDArray[np.uint16]:
        """Return 16-bit values with white at 65535; the scaler has it at 255 << 8 or so."""
        bits = self.layout.depth if self.colour.full else 8
        if bits == 16:
            return plane
        white = ((1 << bits) - 1) << (16 - bits)
        plane = np.minimum(plane, np.uint16(white))
        plane += plane >> np.uint16(bits)
        return plane

    def _widened(self, plane: Samples) -> Samples:
        depth = self.layout.depth
        if depth in (8, 16):
            return plane
        return (plane << np.uint16(16 - depth)) | (plane >> np.uint16(2 * depth - 16))

    def _gray_codes(self) -> Samples:
        black, span = self.layout.luma_range(full=self.colour.full)
        peak = 65535 if self.deep else 255
        codes = (np.arange(self.layout.top + 1) - black) / span * peak
        return np.asarray(np.clip(codes + 0.5, 0, peak), np.uint16 if self.deep else np.uint8)


def padded(frame: av.VideoFrame, larger: av.VideoFrame, layout: Layout) -> av.VideoFrame:
    """Return ``larger`` filled with ``frame``, whose last columns and rows are repeated."""
    for into, plane in zip(planes_of(larger, layout), planes_of(frame, layout), strict=True):
        height, width = plane.shape
        into[:height, :width] = plane
        into[:height, width:] = plane[:, -1:]
        into[height:] = into[height - 1]
    return larger


def siting_of(frame: av.VideoFrame, layout: Layout, codec: str) -> Siting:
    """Return where the chroma samples of a decoded ``frame`` lie.

    PyAV does not tell what the decoder found. But the scaler knows: it is shown a pulse of chroma
    in a copy of the frame, and where it draws that says where it takes the sample to lie.
    """
    if layout.across != 2 or frame.width < 32 or frame.height < 32:
        return "left"
    frame.make_writable()
    for index, plane in enumerate(planes_of(frame, layout)):
        plane[:] = layout.top // 2
        if index == 1:
            plane[plane.shape[0] // 2, plane.shape[1] // 2] = layout.top
    drawn = frame.reformat(
        format="gbrp", src_color_range=2, src_colorspace=1, interpolation=INTERPOLATION, threads=1
    )
    blue = planes_of(drawn, layout_of("gbrp"))[1].astype(int)
    blue = np.abs(blue - blue[0, 0])
    column = -(-frame.width // 2) // 2 * 2
    row = -(-frame.height // layout.down) // 2 * layout.down
    columns, rows = blue.sum(axis=0), blue.sum(axis=1)
    if columns[column - 1] <= columns[column + 2]:  # also what it assumes where nothing is said
        return "center" if codec in CENTRED else "left"
    top = layout.down == 2 and rows[row - 1] > rows[row + 2]
    return "topleft" if top else "left"
