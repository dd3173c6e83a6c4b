"""Encoding: which encoder, with which settings, so that the output is like the input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import get_args

import av

from mien.errors import ClipUnwritable, InvalidOption
from mien.media.clip.colour import Colour, Hdr
from mien.media.clip.containers import Container
from mien.media.clip.layout import Layout, layout_of, planar_name
from mien.media.clip.settings import ClipSettings, Codec

SEGMENT = 240
"""Frames after which encoding starts afresh, so that work can be taken up there. It is about as
often as encoders set a key frame anyway."""

LOSSLESS = frozenset(
    {"ffv1", "huffyuv", "ffvhuff", "hymt", "utvideo", "magicyuv", "rawvideo", "png", "apng"}
    | {"qtrle", "v210", "v410", "v308", "v408", "r210", "zlib", "lagarith", "lcl", "qoi", "yuv4"}
    | {"wrapped_avframe", "ljpeg", "zerocodec", "vble", "ylc"}
)
STUDIO = frozenset({"prores", "prores_raw", "dnxhd", "cfhd", "jpeg2000", "aic", "hap", "vc2"})


@dataclass(frozen=True, slots=True)
class Encoder:
    """An encoder, and what makes its output look as good as the input."""

    name: str
    codec: Codec
    options: Mapping[str, str]
    quality: str = ""
    """The option that takes the quality; empty if it has none."""

    worst: int = 0
    """The greatest value of that option, which is the worst quality."""

    presets: tuple[str, ...] = ()
    smallest: int = 1
    """Pixels of the shortest side that it takes."""

    even: bool = False
    """Whether width and height must be whole chroma blocks."""

    reorders: int = 0
    """By how many frames, at most, the order of decoding differs from that of showing; what the
    open encoder says counts too, but not all of them say it."""

    family: str = ""
    """The family of hardware that it belongs to; empty for software."""


X_PRESETS = (
    *("ultrafast", "superfast", "veryfast", "faster", "fast"),
    *("medium", "slow", "slower", "veryslow", "placebo"),
)

ENCODERS: tuple[Encoder, ...] = (
    Encoder("libx264", "h264", {"crf": "18"}, "crf", 51, X_PRESETS, 2, even=True),
    Encoder("libx264rgb", "h264", {"crf": "18"}, "crf", 51, X_PRESETS, 2),
    Encoder("libx265", "hevc", {"crf": "19"}, "crf", 51, X_PRESETS, 16, even=True, reorders=2),
    Encoder(
        "libsvtav1",
        "av1",
        {"crf": "24", "preset": "8"},
        "crf",
        63,
        tuple(map(str, range(14))),
        16,
    ),
    Encoder(
        "libvpx-vp9",
        "vp9",
        {"crf": "24", "b": "0", "deadline": "good", "cpu-used": "4", "row-mt": "1"},
        "crf",
        63,
    ),
    Encoder(
        "libvpx", "vp8", {"crf": "6", "b": "40M", "deadline": "good", "cpu-used": "4"}, "crf", 63
    ),
    Encoder("prores_ks", "prores", {"vendor": "apl0"}),
    Encoder("ffv1", "ffv1", {"level": "3", "g": "1", "slicecrc": "1"}, smallest=2),
    Encoder("mjpeg", "mjpeg", {"qmin": "2", "qmax": "2", "strict": "-1"}),
)

FALLBACKS: Mapping[str, tuple[Codec, ...]] = MappingProxyType(
    {
        "h264": ("h264", "hevc", "vp9", "av1"),
        "hevc": ("hevc", "h264", "vp9", "av1"),
        "av1": ("av1", "hevc", "vp9", "h264"),
        "vp9": ("vp9", "av1", "hevc", "h264"),
        "vp8": ("vp8", "h264", "vp9"),
        "mjpeg": ("mjpeg", "h264", "vp9"),
        "lossless": ("ffv1", "h264", "prores", "vp9"),
        "studio": ("prores", "ffv1", "hevc", "h264", "vp9"),
        "other": ("h264", "hevc", "vp9", "av1"),
    }
)
"""What is tried for each codec of an input: the first that the container holds and that loses
nothing of the samples' layout, else the one that loses the least."""

PRORES_PROFILES = {"proxy": 0, "lt": 1, "standard": 2, "hq": 3, "4444": 4, "xq": 5}


@dataclass(frozen=True, slots=True)
class Plan:
    """What is written: an encoder and all it is told."""

    encoder: Encoder
    pixel_format: str
    options: Mapping[str, str]
    notes: tuple[str, ...]

    @property
    def codec(self) -> Codec:
        """The codec of what comes out."""
        return self.encoder.codec


def plan(
    *,
    codec: str,
    profile: str,
    layout: Layout,
    colour: Colour,
    hdr: Hdr,
    size: tuple[int, int],
    container: Container,
    settings: ClipSettings,
    path: Path,
) -> Plan:
    """Return how to write pictures like those of an input with this ``codec``.

    Raises ClipUnwritable if nothing fits the container, and InvalidOption.
    """
    lossless = codec in LOSSLESS
    family = "lossless" if lossless else "studio" if codec in STUDIO else codec
    wanted = FALLBACKS.get(family, FALLBACKS["other"])
    if settings.codec is not None:
        wanted = (settings.codec,)
    able = [
        encoder
        for name in wanted
        for encoder in ENCODERS
        if encoder.codec == name and name in container.videos and _formats(encoder.name)
        if min(size) + min(size) % 2 * encoder.even >= encoder.smallest
    ]
    if not able:
        holds = ", ".join(sorted(container.videos & set(get_args(Codec))))
        what = f"{settings.codec} of {size[0]}x{size[1]}" if settings.codec else "what fits it"
        raise ClipUnwritable(
            f"{path} cannot be written: {container.name} holds {holds}, and {what} cannot be "
            "made here. Use another kind of file, or another codec.",
            path=path,
        )
    fits = [(_fitting(encoder, layout, settings), encoder) for encoder in able]
    # ProRes 4444 decodes to 12 bits and is encoded from 10, as it always is
    (_, pixel_format), encoder = min(
        fits, key=lambda fit: 0 if codec == fit[1].codec == "prores" else fit[0][0]
    )
    notes = []
    if encoder.codec != codec:
        notes.append(f"Pictures that were {codec} are written as {encoder.codec}.")
    written = layout_of(planar_name(pixel_format)[0])
    if written != layout:
        notes.append(f"Samples that were {layout.name} are written as {pixel_format}.")
    options = _options(encoder, written, profile, settings, exact=lossless)
    if container.name == "avi" and encoder.codec == "h264":
        options["bf"] = "0"  # AVI has no times, so frames must lie in the order of showing
    notes += _tell_hdr(encoder, hdr, options, colour)
    return Plan(encoder, pixel_format, MappingProxyType(options), tuple(notes))


def _options(
    encoder: Encoder, layout: Layout, profile: str, settings: ClipSettings, *, exact: bool
) -> dict[str, str]:
    options = dict(encoder.options)
    if settings.quality is not None:
        if not encoder.quality:
            raise InvalidOption("quality", settings.quality, f"None for {encoder.codec}")
        if not 0 <= settings.quality <= encoder.worst:
            raise InvalidOption("quality", settings.quality, f"0 to {encoder.worst}")
        options[encoder.quality] = str(settings.quality)
    elif exact and encoder.codec == "h264":
        options = {"qp": "0"}
    elif exact and encoder.name == "libvpx-vp9":
        options |= {"lossless": "1", "crf": "0"}  # with another crf libvpx refuses
    if settings.preset is not None:
        if settings.preset not in encoder.presets:
            raise InvalidOption("preset", settings.preset, encoder.presets or "None")
        options["preset"] = settings.preset
    if encoder.name == "prores_ks":
        known = [n for name, n in PRORES_PROFILES.items() if name in profile.lower()]
        full = layout.chroma == "4:4:4"
        options["profile"] = str(
            known[-1] if known and (known[-1] > 3) == full else 4 if full else 3
        )
    if encoder.name == "libx265":
        options["x265-params"] = "log-level=none"
    return options


def _tell_hdr(encoder: Encoder, hdr: Hdr, options: dict[str, str], colour: Colour) -> list[str]:
    """Put HDR metadata into ``options`` in the encoder's own words; return notes."""
    master, light = hdr.mastering, hdr.light
    if not colour.hdr or (master is None and light is None):
        return []
    said: dict[str, str] = {}
    av1 = encoder.name == "libsvtav1"
    if master is not None and master.white is not None and master.brightest:
        points = [*master.primaries, master.white]
        units = [f"({float(x):.5f},{float(y):.5f})" for x, y in points]
        screen = (float(master.brightest), float(master.darkest or 0))
        bounds = f"({screen[0]:.4f},{screen[1]:.4f})"
        if not av1:  # in units of 0.00002 and 0.0001 (ST 2086)
            units = [f"({round(x * 50000)},{round(y * 50000)})" for x, y in points]
            bounds = f"({round(screen[0] * 10000)},{round(screen[1] * 10000)})"
        red, green, blue, white = units
        name = "mastering-display" if encoder.name != "libx265" else "master-display"
        said[name] = f"G{green}B{blue}R{red}WP{white}L{bounds}"
    if light is not None:
        name = {"libx265": "max-cll", "libx264": "cll"}.get(encoder.name, "content-light")
        said[name] = f"{light.brightest},{light.average}"
    params = {"libx265": "x265-params", "libx264": "x264-params", "libsvtav1": "svtav1-params"}
    if encoder.name not in params:
        return [f"{encoder.codec} holds no HDR metadata (mastering screen, light levels)."]
    own = params[encoder.name]
    parts = [options[own]] if own in options else []
    options[own] = ":".join([*parts, *(f"{name}={value}" for name, value in said.items())])
    return []


def _fitting(encoder: Encoder, layout: Layout, settings: ClipSettings) -> tuple[int, str]:
    """Return the pixel format nearest to ``layout``, after how much of it is lost."""
    formats = _formats(encoder.name)
    if settings.pixel_format is not None:
        if settings.pixel_format not in formats:
            raise InvalidOption("pixel_format", settings.pixel_format, formats)
        return 0, settings.pixel_format

    def cost(name: str) -> tuple[int, int]:
        other = layout_of(planar_name(name)[0])
        lost = 100 * max(layout.depth - other.depth, 0)
        lost += 50 * (max(other.across - layout.across, 0) + max(other.down - layout.down, 0))
        lost += 1000 * (layout.alpha and not other.alpha)
        lost += 500 * (layout.kind != "gray" and other.kind == "gray")
        lost += 20 * (layout.kind == "rgb" and other.kind == "yuv")
        more = abs(other.depth - layout.depth) + (other.across != layout.across)
        more += (other.down != layout.down) + 2 * (other.kind != layout.kind)
        more += 4 * (other.alpha and not layout.alpha) + (name != layout.name)
        return lost, more

    best = min(formats, key=cost)
    return cost(best)[0], best


@cache
def _formats(encoder: str) -> tuple[str, ...]:
    """Return the pixel formats that an encoder takes; none where FFmpeg is built without it."""
    try:
        formats = av.codec.Codec(encoder, "w").video_formats or ()
    except (av.error.FFmpegError, ValueError):
        return ()
    names = [each.name for each in formats]
    return tuple(name for name in names if planar_name(name)[1] and not name.startswith("yuvj"))
