"""Families of hardware encoders: what each of them is told, in its own words.

Options were checked against the tables of FFmpeg 8.1. What an encoder makes of them is tried where
it is used; see mien.media.clip.trial.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from mien.media.clip.encoding import SEGMENT, Encoder
from mien.media.clip.settings import ClipSettings, Codec

ORDER: tuple[str, ...] = ("videotoolbox", "nvenc", "qsv", "amf")
"""Families in the order in which they are tried."""

LAMBDA = 118
"""What FFmpeg multiplies a quality with where it is told as a quantizer's scale."""

USUAL = 3
"""The place of 'medium' among seven degrees of care, from the fastest to the slowest."""

CARE: Mapping[str, int] = MappingProxyType(
    {"ultrafast": 0, "superfast": 0, "veryfast": 1, "faster": 2, "fast": 2, "medium": 3}
    | {"slow": 4, "slower": 5, "veryslow": 6, "placebo": 6}
    | {str(number): min((13 - number) // 2, 6) for number in range(14)}
)
"""Degrees of care for the presets of the software encoders, so that they mean the same here."""


@dataclass(frozen=True, slots=True)
class HardEncoder:
    """A hardware encoder, and what it calls the things that all encoders are told."""

    name: str
    codec: Codec
    formats: Mapping[str, str]
    """What it takes, by the planar format with the same samples."""

    options: Mapping[str, str]
    quality: tuple[str, ...]
    """The options that take the quality; all get the same value."""

    scale: tuple[int, int, int]
    """The best quality, the one at which no difference is to be seen, and the worst."""

    care: str
    """The option that says how much time it takes."""

    degrees: tuple[str, ...]
    """Its values, seven of them, from the fastest to the slowest."""

    deep: Mapping[str, str] = field(default_factory=dict)
    """Further options for samples of more than 8 bits."""

    unit: int = 1
    """What a quality is multiplied with."""

    def told(self, soft: Encoder, settings: ClipSettings, *, deep: bool) -> dict[str, str]:
        """Return all options for ``settings``, which are in the words of ``soft``."""
        options = {**self.options, **(self.deep if deep else {})}
        value = str(self.unit * self._quality(soft, settings.quality))
        options |= dict.fromkeys(self.quality, value)
        place = USUAL if settings.preset is None else CARE[settings.preset]
        return options | {self.care: self.degrees[place]}

    def _quality(self, soft: Encoder, asked: int | None) -> int:
        """Return the quality that stands where ``asked`` stands on the scale of ``soft``."""
        best, usual, worst = self.scale
        middle = int(soft.options[soft.quality])
        if asked is None:
            return usual
        if asked <= middle:
            return round(best + (usual - best) * asked / middle)
        return round(usual + (worst - usual) * (asked - middle) / (soft.worst - middle))


EIGHT = {"yuv420p": "yuv420p"}
TEN = {"yuv420p10le": "p010le"}
FULL = {"yuv444p": "yuv444p"}
MAIN10 = {"profile": "main10"}

ALL = {"bf": "0", "g": str(SEGMENT)}
"""Told to each. B-frames would save some bytes, and not all chips can make them: without them
frames lie in the order of showing whatever a driver does."""


def _nvenc(codec: Codec, formats: Mapping[str, str], usual: int, worst: int) -> HardEncoder:
    # of vbr with cq and no rate FFmpeg makes a constant quality; a cq of 0 would leave it open
    options = {**ALL, "tune": "hq", "rc": "vbr", "b": "0"}
    degrees = tuple(f"p{number}" for number in range(1, 8))
    deep = MAIN10 if codec == "hevc" else {}
    scale = (1, usual, worst)
    return HardEncoder(
        f"{codec}_nvenc", codec, formats, options, ("cq",), scale, "preset", degrees, deep
    )


def _qsv(codec: Codec, formats: Mapping[str, str], usual: int) -> HardEncoder:
    # a global quality without a rate is 'intelligent constant quality'
    degrees = ("veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow")
    formats = {planar: {"yuv420p": "nv12"}.get(own, own) for planar, own in formats.items()}
    deep = MAIN10 if codec == "hevc" else {}
    return HardEncoder(
        *(f"{codec}_qsv", codec, formats, ALL, ("global_quality",), (1, usual, 51)),
        *("preset", degrees, deep),
    )


def _amf(codec: Codec, formats: Mapping[str, str], scale: tuple[int, int, int]) -> HardEncoder:
    options = {**ALL, "usage": "transcoding", "rc": "cqp"}
    degrees = (*["speed"] * 3, "balanced", *["quality"] * 3)
    deep = {} if codec == "h264" else {"bitdepth": "10"}
    deep |= MAIN10 if codec == "hevc" else {}
    return HardEncoder(
        *(f"{codec}_amf", codec, formats, options, ("qp_i", "qp_p"), scale),
        *("quality", degrees, deep),
    )


def _videotoolbox(codec: Codec, formats: Mapping[str, str], usual: int) -> HardEncoder:
    # its quality goes up, from 1 to 100; only Apple's own processors know a constant one
    options = {**ALL, "flags": "+qscale", "allow_sw": "0", "realtime": "0"}
    degrees = (*["1"] * 3, *["0"] * 4)
    deep = MAIN10 if codec == "hevc" else {}
    return HardEncoder(
        *(f"{codec}_videotoolbox", codec, formats, options, ("global_quality",)),
        *((100, usual, 1), "prio_speed", degrees, deep),
        unit=LAMBDA,
    )


FAMILIES: Mapping[str, tuple[HardEncoder, ...]] = MappingProxyType(
    {
        "videotoolbox": (
            _videotoolbox("h264", EIGHT, 75),
            _videotoolbox("hevc", {**EIGHT, **TEN}, 75),
        ),
        "nvenc": (
            _nvenc("h264", {**EIGHT, **TEN, **FULL}, 19, 51),
            _nvenc("hevc", {**EIGHT, **TEN, **FULL}, 20, 51),
            _nvenc("av1", {**EIGHT, **TEN}, 24, 63),
        ),
        "qsv": (
            _qsv("h264", EIGHT, 18),
            _qsv("hevc", {**EIGHT, **TEN}, 19),
            _qsv("av1", {**EIGHT, **TEN}, 20),
        ),
        "amf": (
            _amf("h264", EIGHT, (1, 18, 51)),
            _amf("hevc", {**EIGHT, **TEN}, (1, 19, 51)),
            _amf("av1", {**EIGHT, **TEN}, (4, 96, 255)),
        ),
    }
)
"""By the names that settings have for them. VAAPI and V4L2 are not among them: the one takes
frames from the GPU's memory alone, the other knows no constant quality."""
