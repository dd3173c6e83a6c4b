"""A trial of an encoder: some frames go in, and what comes out is decoded and looked at.

This is run as a program and never imported: a driver that hangs or crashes does so in a process of
its own. What to try comes as JSON from standard input, and what is wrong goes as the last line to
standard output; an empty text if all is well. It needs PyAV and NumPy alone, so as to begin fast.
"""

from __future__ import annotations

import json
import sys
from fractions import Fraction
from typing import Any

import av
import numpy as np
from av.codec.context import Flags
from av.error import FFmpegError
from av.video.codeccontext import VideoCodecContext
from av.video.reformatter import Interpolation

FRAMES = 8
NEAR = 6
"""By how many of 256 codes the mean of a part of a picture may be off."""

CHROMA = (100, 150)
INTERPOLATION = int(
    Interpolation.BILINEAR
    | Interpolation.FULL_CHR_H_INT
    | Interpolation.FULL_CHR_H_INP
    | Interpolation.ACCURATE_RND
)
DECODERS = {"av1": "libdav1d"}
LONGEST = 160
"""Letters of what a driver says."""


class Wrong(Exception):
    """Something does not come out as it is to be. As text, what."""


def tried(job: dict[str, Any]) -> None:
    """Raise Wrong if the encoder of ``job`` does not do what it is to. Raises what PyAV raises."""
    headers, packets = encoded(job)
    frames, aspect = decoded(job, headers, packets)
    if len(frames) != FRAMES:
        raise Wrong(f"of {FRAMES} frames {len(frames)} can be decoded")
    # AV1 does not say the shape of pixels
    if job["codec"] != "av1" and aspect != Fraction(job["context"]["sample_aspect_ratio"]):
        raise Wrong("it does not say the shape of pixels")
    for number, frame in enumerate(frames):
        check(job, frame, number)
    if job["siting"] is not None and siting(frames[0], job["unsaid"]) != job["siting"]:
        raise Wrong("it does not say where chroma samples lie")


def encoded(job: dict[str, Any]) -> tuple[bytes | None, list[av.Packet[Any]]]:
    """Return headers and packets. Raises Wrong."""
    # as in a file, one is opened for what it says of itself, and another one encodes
    told, work = opened(job), opened(job)
    if told.extradata != work.extradata:
        raise Wrong("its headers differ from time to time")
    packets = []
    for number in range(FRAMES):
        packets += work.encode(drawn(job, number))
    packets += work.encode(None)
    if [packet.pts for packet in packets] != list(range(FRAMES)):
        raise Wrong("frames do not come out as they went in")
    if not packets[0].is_keyframe:
        raise Wrong("it does not begin with a key frame")
    return told.extradata, packets


def decoded(
    job: dict[str, Any], headers: bytes | None, packets: list[av.Packet[Any]]
) -> tuple[list[av.VideoFrame], Fraction]:
    """Return the frames in ``packets``, and the width of a pixel over its height."""
    decoder = av.CodecContext.create(DECODERS.get(job["codec"], job["codec"]), "r")
    assert isinstance(decoder, VideoCodecContext)
    decoder.extradata = headers
    frames = [frame for packet in packets for frame in decoder.decode(packet)]
    frames += decoder.decode(None)
    return frames, decoder.sample_aspect_ratio or Fraction(1)


def opened(job: dict[str, Any]) -> VideoCodecContext:
    """Return an encoder that is open, as ``job`` describes it."""
    context = av.CodecContext.create(job["encoder"], "w")
    assert isinstance(context, VideoCodecContext)
    for name, value in job["context"].items():
        setattr(
            context, name, Fraction(value) if isinstance(value, str) and "/" in value else value
        )
    context.options = job["options"]
    if job["headers_apart"]:
        context.flags |= Flags.global_header
    context.open()
    return context


def drawn(job: dict[str, Any], number: int) -> av.VideoFrame:
    """Return a frame whose quarters tell which of them they are, and its number."""
    context = job["context"]
    frame = av.VideoFrame(context["width"], context["height"], job["planar"])
    for index, plane in enumerate(planes(frame)):
        for quarter, part in enumerate(quarters(plane)):
            level = CHROMA[index - 1] if index else luma(number, quarter)
            part[:] = level << bits(frame) - 8
    for name in ("color_range", "color_primaries", "color_trc", "colorspace"):
        setattr(frame, name, context[name])
    if context["pix_fmt"] != job["planar"]:
        frame = frame.reformat(format=context["pix_fmt"], threads=1)
    frame.pts, frame.time_base = number, Fraction(context["time_base"])
    return frame


def luma(number: int, quarter: int) -> int:
    """Return the brightness, of 256, of a ``quarter`` of frame ``number``."""
    return 40 + 10 * number + 25 * quarter


def check(job: dict[str, Any], frame: av.VideoFrame, number: int) -> None:
    """Raise Wrong if the decoded ``frame`` is not what was put in as number ``number``."""
    context = job["context"]
    if (frame.width, frame.height) != (context["width"], context["height"]):
        raise Wrong(f"pictures come out as {frame.width}x{frame.height}")
    if frame.format.name.replace("yuvj", "yuv") != job["planar"]:
        raise Wrong(f"samples come out as {frame.format.name}")
    if (frame.color_range == 2) != (context["color_range"] == 2):
        raise Wrong("it does not say the range of samples")
    for name in ("color_primaries", "color_trc", "colorspace"):
        if getattr(frame, name) != context[name]:
            raise Wrong("it does not say the colours")
    for index, plane in enumerate(planes(frame)):
        for quarter, part in enumerate(quarters(plane)):
            level = CHROMA[index - 1] if index else luma(number, quarter)
            if abs(part.mean() / (1 << bits(frame) - 8) - level) > NEAR:
                raise Wrong("pictures come out as others")


def siting(frame: av.VideoFrame, unsaid: str) -> str:
    """Return where chroma samples lie, as mien.media.clip.convert.siting_of finds it.

    ``unsaid`` is what stands where the scaler takes them to lie amid four pixels.
    """
    frame.make_writable()
    top = (1 << bits(frame)) - 1
    for index, plane in enumerate(planes(frame)):
        plane[:] = top // 2
        if index == 1:
            plane[plane.shape[0] // 2, plane.shape[1] // 2] = top
    drawn = frame.reformat(
        format="gbrp", src_color_range=2, src_colorspace=1, interpolation=INTERPOLATION, threads=1
    )
    blue = planes(drawn)[1].astype(int)
    blue = np.abs(blue - blue[0, 0])
    column = -(-frame.width // 2) // 2 * 2
    row = -(-frame.height // 2) // 2 * 2
    columns, rows = blue.sum(axis=0), blue.sum(axis=1)
    if columns[column - 1] <= columns[column + 2]:
        return unsaid
    return "topleft" if rows[row - 1] > rows[row + 2] else "left"


def planes(frame: av.VideoFrame) -> list[Any]:
    """Return views (h, w) of the planes of ``frame``."""
    kind = np.dtype(np.uint8 if bits(frame) == 8 else np.uint16)
    parts: list[Any] = list(frame.planes)
    return [
        np.frombuffer(plane, kind).reshape(plane.height, -1)[:, : plane.width] for plane in parts
    ]


def bits(frame: av.VideoFrame) -> int:
    """Return the bits of a sample of ``frame``."""
    return frame.format.components[0].bits


def quarters(plane: Any) -> list[Any]:
    """Return views of the quarters of ``plane`` that have samples."""
    height, width = (max(side // 2, 1) for side in plane.shape)
    parts = [plane[:height, :width], plane[:height, width:], plane[height:, :width]]
    return [part for part in (*parts, plane[height:, width:]) if part.size]


def main() -> None:
    """Try what standard input says."""
    job = json.load(sys.stdin)
    av.logging.set_level(av.logging.ERROR)
    with av.logging.Capture(local=False) as said:
        wrong = ""
        try:
            tried(job)
        except Wrong as what:
            wrong = str(what)
        except (FFmpegError, ValueError, RuntimeError, NotImplementedError) as error:
            # the first that was said is the cause, what comes after it the consequence
            cause = said[0][2] if said else getattr(error, "strerror", None) or str(error)
            wrong = " ".join(cause.split()).rstrip(".")[:LONGEST] or type(error).__name__
    print("\n" + json.dumps(wrong))  # a driver may have left a line unfinished


if __name__ == "__main__":
    main()
