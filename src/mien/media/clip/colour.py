"""The colours of a clip: what its numbers mean, as its tags say (ITU-T H.273)."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Literal

import av
from av.sidedata.sidedata import Type

Siting = Literal["left", "center", "topleft"]

UNSPECIFIED = 2
"""The code for "not said", of primaries, transfer and matrix alike."""

PRIMARIES: Mapping[int, str] = MappingProxyType(
    {
        1: "bt709",
        4: "bt470m",
        5: "bt470bg",
        6: "smpte170m",
        7: "smpte240m",
        8: "film",
        9: "bt2020",
        10: "smpte428",
        11: "smpte431",
        12: "smpte432",
        22: "ebu3213",
    }
)
TRANSFERS: Mapping[int, str] = MappingProxyType(
    {
        1: "bt709",
        4: "gamma22",
        5: "gamma28",
        6: "smpte170m",
        7: "smpte240m",
        8: "linear",
        11: "iec61966-2-4",
        12: "bt1361e",
        13: "iec61966-2-1",
        14: "bt2020-10",
        15: "bt2020-12",
        16: "smpte2084",
        17: "smpte428",
        18: "arib-std-b67",
    }
)
MATRICES: Mapping[int, str] = MappingProxyType(
    {
        0: "rgb",
        1: "bt709",
        4: "fcc",
        5: "bt470bg",
        6: "smpte170m",
        7: "smpte240m",
        8: "ycgco",
        9: "bt2020nc",
        10: "bt2020c",
        14: "ictcp",
    }
)
PQ, HLG = 16, 18

WEIGHTS: Mapping[int, tuple[float, float]] = MappingProxyType(
    {
        1: (0.2126, 0.0722),
        4: (0.30, 0.11),
        5: (0.299, 0.114),
        6: (0.299, 0.114),
        7: (0.212, 0.087),
        9: (0.2627, 0.0593),
    }
)
"""Weights of red and blue in luma, by the code of the matrix (H.273, table 4)."""


@dataclass(frozen=True, slots=True)
class Colour:
    """What a clip's tags say; codes of H.273, where 2 stands for what they do not say."""

    full: bool = False
    """Whether black and white are the least and the greatest code, and not 16 and 235 of 255."""

    primaries: int = UNSPECIFIED
    transfer: int = UNSPECIFIED
    matrix: int = UNSPECIFIED
    ranged: bool = True
    """Whether the clip says its range; one that does not is taken for limited."""

    @property
    def hdr(self) -> bool:
        """Whether the transfer is that of a high dynamic range: PQ or HLG."""
        return self.transfer in (PQ, HLG)

    @property
    def wide(self) -> bool:
        """Whether there are colours that sRGB lacks: BT.2020 and the two P3."""
        return self.primaries in (9, 11, 12)

    def weights(self, height: int) -> tuple[float, float]:
        """Return the weights of red and blue in luma.

        Where the clip does not say, those that players assume: BT.2020's for its primaries,
        BT.709's from 577 lines up, else BT.601's.
        """
        return WEIGHTS[self.known_matrix(height)]

    def known_matrix(self, height: int) -> int:
        """Return the code of the matrix that is used, said or assumed."""
        if self.matrix in WEIGHTS:
            return self.matrix
        if self.primaries == 9 or self.matrix in (10, 14):
            return 9
        return 1 if height > 576 or self.matrix == 8 else 6

    def __str__(self) -> str:
        names = (
            PRIMARIES.get(self.primaries, "unspecified"),
            TRANSFERS.get(self.transfer, "unspecified"),
            MATRICES.get(self.matrix, "unspecified"),
        )
        return f"{'full' if self.full else 'limited'} range, {'/'.join(names)}"


SDR = Colour(primaries=1, transfer=1, matrix=1)
"""BT.709, what every screen shows."""


@dataclass(frozen=True, slots=True)
class Mastering:
    """The screen an HDR clip was made on (SMPTE ST 2086)."""

    primaries: tuple[tuple[Fraction, Fraction], ...] = ()
    """CIE x and y of red, green and blue; empty if not said."""

    white: tuple[Fraction, Fraction] | None = None
    darkest: Fraction | None = None
    """Candelas per square metre."""

    brightest: Fraction | None = None
    """Candelas per square metre."""


@dataclass(frozen=True, slots=True)
class Light:
    """How bright an HDR clip gets (CTA-861.3), in candelas per square metre; 0 if not said."""

    brightest: int
    """Of any pixel."""

    average: int
    """Of any whole frame."""


@dataclass(frozen=True, slots=True)
class Hdr:
    """What goes beside the samples of an HDR clip, the same for all frames."""

    mastering: Mastering | None = None
    light: Light | None = None

    @property
    def peak(self) -> float:
        """The brightest light, in candelas per square metre, that a tone map must reckon with."""
        said = self.mastering.brightest if self.mastering is not None else None
        if not said and self.light is not None and self.light.brightest:
            said = Fraction(self.light.brightest)
        return float(said) if said else 1000.0


def colour_of(frame: av.VideoFrame, context: Any) -> Colour:
    """Return the colours of a decoded frame; what it leaves open, its decoder may know."""

    def said(name: str) -> int:
        own = int(getattr(frame, name))
        return own if own not in (0, UNSPECIFIED) else int(getattr(context, name))

    own_matrix = int(frame.colorspace)
    spread = int(frame.color_range) or int(context.color_range)
    rgb = frame.format.is_rgb
    return Colour(
        full=spread == 2 or rgb or frame.format.name.startswith("yuvj"),
        primaries=said("color_primaries") or UNSPECIFIED,
        transfer=said("color_trc") or UNSPECIFIED,
        matrix=0 if rgb else own_matrix if own_matrix != UNSPECIFIED else int(context.colorspace),
        ranged=spread != 0 or rgb,
    )


def hdr_of(frame: av.VideoFrame) -> Hdr:
    """Return the HDR metadata that a decoded frame carries (libavutil's structures)."""
    mastering = light = None
    sides: Any = frame.side_data
    if (side := sides.get(Type.MASTERING_DISPLAY_METADATA)) is not None:
        *numbers, has_primaries, has_light = struct.unpack("=20i2i", bytes(side)[:88])
        pairs = zip(numbers[::2], numbers[1::2], strict=True)
        values = [Fraction(n, d) if d else Fraction(0) for n, d in pairs]
        mastering = Mastering(
            tuple(zip(values[0:6:2], values[1:6:2], strict=True)) if has_primaries else (),
            (values[6], values[7]) if has_primaries else None,
            values[8] if has_light else None,
            values[9] if has_light else None,
        )
    if (side := sides.get(Type.CONTENT_LIGHT_LEVEL)) is not None:
        light = Light(*struct.unpack("=2I", bytes(side)[:8]))
    return Hdr(mastering, light)
