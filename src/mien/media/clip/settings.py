"""Settings: how a clip is to be written, where it is not to follow the input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from mien.errors import InvalidOption
from mien.media.clip.layout import planar_name

Codec = Literal["h264", "hevc", "av1", "vp9", "vp8", "prores", "ffv1", "mjpeg"]
OddSizes = Literal["pad", "444"]
Sound = Literal["copy", "encode", "drop"]
Covers = Literal["copy", "drop"]
EncoderKind = Literal["none", "auto", "videotoolbox", "nvenc", "qsv", "amf"]


@dataclass(frozen=True, slots=True)
class ClipSettings:
    """How a clip is written. What is None follows the input.

    Raises InvalidOption for a value that is not possible.
    """

    codec: Codec | None = None
    quality: int | None = None
    """The encoder's constant quality (CRF): 0 is the best, 51 the worst, and 63 for AV1 and VP9.
    None for one at which no difference is seen."""

    preset: str | None = None
    """The encoder's name for how much time it takes."""

    encoder: EncoderKind = "none"
    """Hardware that encodes where it does all that is asked, "auto" for what there is; see the
    notes of what was written. ``quality`` and ``preset`` are said as for software and mean the
    same."""

    pixel_format: str | None = None
    """FFmpeg's name of it."""

    odd: OddSizes = "pad"
    """For encoders that only take even sizes: repeat the last column and row, or write 4:4:4,
    which not every player shows."""

    sound: Sound = "copy"
    covers: Covers = "copy"
    """Pictures that stand for the clip in lists. A swap drops them: they may show the face that it
    replaces."""

    threads: int | None = None
    """Of the encoder; None for as many as it likes."""

    tags: Mapping[str, str] = field(default_factory=dict)
    """Written beside the input's metadata."""

    def __post_init__(self) -> None:
        choices = {
            "codec": Codec,
            "encoder": EncoderKind,
            "odd": OddSizes,
            "sound": Sound,
            "covers": Covers,
        }
        for name, kind in choices.items():
            value = getattr(self, name)
            if value not in get_args(kind) and not (value is None and name == "codec"):
                raise InvalidOption(name, value, get_args(kind))
        if self.pixel_format is not None:
            try:
                planar_name(self.pixel_format)
            except ValueError:
                raise InvalidOption(
                    "pixel_format", self.pixel_format, "a name that FFmpeg knows"
                ) from None
