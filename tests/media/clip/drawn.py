"""Clips for the tests, drawn and encoded here, and taken apart again with PyAV alone."""

from __future__ import annotations

import contextlib
from fractions import Fraction

import av
import numpy as np
from av.sidedata.sidedata import Type

QUIET = {"libx265": {"x265-params": "log-level=none"}}


def samples(frame):
    """Return views of the planes of a PyAV frame."""
    planes = []
    for plane in frame.planes:
        deep = any(mark in frame.format.name for mark in ("10", "12", "16", "14", "9le"))
        dtype = np.uint16 if deep else np.uint8
        rows = np.frombuffer(plane, dtype).reshape(plane.height, -1)
        planes.append(rows[:, : plane.width])
    return planes


def drawn(width, height, name="yuv420p", number=0):
    """Return a frame with soft colours that move with ``number``."""
    frame = av.VideoFrame(width, height, name)
    for index, plane in enumerate(samples(frame)):
        scale = (plane.dtype.itemsize == 2 and 2 ** (bits(name) - 8)) or 1
        y, x = np.mgrid[: plane.shape[0], : plane.shape[1]]
        wave = np.sin(x / 9 + index) + np.cos(y / 7 + number / 4 + index)
        middle, swing = ((110, 40), (128, 16), (128, 16), (110, 40))[index]
        plane[:] = np.round((middle + swing * wave / 2) * scale)
    return frame


def bits(name):
    return av.VideoFormat(name, 16, 16).components[0].bits


def numbered(width, height, number):
    """Return a frame that tells its number by the brightness of its left half, 7 codes apart."""
    frame = drawn(width, height, number=0)
    samples(frame)[0][:, : width // 2] = 20 + number * 7
    return frame


def number_of(frame):
    """Return what ``numbered`` wrote, from a PyAV frame."""
    return round((float(samples(frame)[0][:, : frame.width // 2 - 4].mean()) - 20) / 7)


def write_clip(
    path,
    *,
    codec="libx264",
    name="yuv420p",
    size=(64, 48),
    frames=12,
    times=None,
    unit=Fraction(1, 24),
    rate=None,
    options=None,
    draw=None,
    matrix=None,
    sounds=(),
    texts=(),
    chapters=(),
    metadata=None,
    attachments=(),
    container_options=None,
    **context,
):
    """Write a clip. ``times`` are counts of ``unit``; ``sounds`` are (codec, seconds, language)."""
    times = list(range(frames)) if times is None else times
    with av.open(str(path), "w", options=container_options or {}) as output:
        stream = output.add_stream(codec, rate=rate or round(1 / unit))
        stream.width, stream.height, stream.pix_fmt = *size, name
        stream.codec_context.time_base = unit
        stream.time_base = unit
        stream.codec_context.options = QUIET.get(codec, {}) | (options or {})
        stream.codec_context.flags |= context.pop("more_flags", 0)
        for key, value in context.items():
            setattr(stream.codec_context, key, value)
        if matrix is not None:
            stream.set_display_matrix(matrix)
        tracks = [_sound(output, *sound) for sound in sounds]
        words = [_words(output, *text) for text in texts]
        for attachment in attachments:
            output.add_attachment(*attachment)
        output.metadata.update(metadata or {})
        if chapters:
            output.set_chapters(
                [
                    {
                        "id": number,
                        "start": round(start * 1000),
                        "end": round(end * 1000),
                        "time_base": Fraction(1, 1000),
                        "metadata": {"title": title},
                    }
                    for number, (start, end, title) in enumerate(chapters, 1)
                ]
            )
        output.start_encoding()
        packets = []
        for number, time in enumerate(times):
            frame = (draw or (lambda n: drawn(*size, name, n)))(number)
            frame.pts, frame.time_base = time, unit
            for key in ("color_range", "color_primaries", "color_trc", "colorspace"):
                if key in context:
                    setattr(frame, key, context[key])
            packets += stream.encode(frame)
        packets += stream.encode(None)
        for track in (*tracks, *words):
            packets += track
        packets.sort(key=lambda p: (p.dts if p.dts is not None else p.pts) * p.time_base)
        for packet in packets:
            output.mux(packet)
    return path


def click(time):
    """Sound that clicks every ten frames of 24 a second."""
    period = 10 / 24
    return np.where((time % period) < 0.004, 0.9, 0.0) * np.sin(time * 2 * np.pi * 1500)


class Later:
    """Packets that are made once the output knows all of its tracks."""

    def __init__(self, make):
        self._make = make

    def __iter__(self):
        return self._make()


def _sound(output, codec, seconds, language, wave=click, start=Fraction(0)):
    rate = 48000
    stream = output.add_stream(codec, rate=rate)
    stream.layout = "stereo"
    stream.metadata["language"] = language
    size = 960 if codec == "libopus" else 1024

    def make():
        done, total = 0, int(seconds * rate)
        kind = stream.codec_context.format.name
        while done < total:
            count = min(size, total - done)
            time = (np.arange(count) + done) / rate
            both = np.repeat(wave(time)[None], 2, axis=0)
            if kind.startswith("s16"):
                both = (both * 32000).astype(np.int16)
            else:
                both = both.astype(np.float32)
            if not kind.endswith("p"):
                both = both.T.reshape(1, -1)
            frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(both), kind, "stereo")
            frame.sample_rate = rate
            frame.pts, frame.time_base = done + int(start * rate), Fraction(1, rate)
            yield from stream.encode(frame)
            done += count
        yield from stream.encode(None)

    return Later(make)


def _words(output, codec, lines, language):
    stream = output.add_stream(codec)
    stream.metadata["language"] = language
    stream.codec_context.subtitle_header = ASS
    stream.time_base = Fraction(1, 1000)

    def make():
        for start, end, text in lines:
            data = text.encode()
            if codec == "mov_text":
                data = len(data).to_bytes(2, "big") + data
            if codec == "ass":
                data = f"0,0,Default,,0,0,0,,{text}".encode()
            packet = av.Packet(data)
            packet.pts = packet.dts = round(start * 1000)
            packet.duration = round((end - start) * 1000)
            packet.time_base = Fraction(1, 1000)
            packet.is_keyframe = True
            packet.stream = stream
            yield packet

    return Later(make)


ASS = b"""[Script Info]
ScriptType: v4.00+
[V4+ Styles]
Format: Name, Fontname, Fontsize, PrimaryColour, SecondaryColour, OutlineColour, BackColour, \
Bold, Italic, Underline, StrikeOut, ScaleX, ScaleY, Spacing, Angle, BorderStyle, Outline, \
Shadow, Alignment, MarginL, MarginR, MarginV, Encoding
Style: Default,Arial,16,&Hffffff,&Hffffff,&H0,&H0,0,0,0,0,100,100,0,0,1,1,0,2,10,10,10,0
[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
"""


def read_back(path):
    """Return the decoded frames of a clip, by PyAV alone, and their times."""
    with av.open(str(path)) as container:
        frames = list(container.decode(video=0))
    return frames, [frame.pts * frame.time_base for frame in frames]


def tracks(path):
    """Return (type, codec, language, packets, first time, end) of every track."""
    found = []
    with av.open(str(path)) as container:
        spans = {stream.index: [0, None, Fraction(0)] for stream in container.streams}
        for packet in container.demux():
            if packet.size and packet.pts is not None:
                span = spans[packet.stream_index]
                time = packet.pts * packet.time_base
                span[0] += 1
                span[1] = time if span[1] is None else min(span[1], time)
                span[2] = max(span[2], time + (packet.duration or 0) * packet.time_base)
        for stream in container.streams:
            context = stream.codec_context
            name = context.codec.canonical_name if context is not None else stream.type
            language = stream.metadata.get("language", "")
            found.append((stream.type, name, language, *spans[stream.index]))
    return found


def side(frame, kind):
    """Return the bytes of side data of a decoded frame, or None."""
    with contextlib.suppress(KeyError):
        return bytes(frame.side_data[Type[kind]])
    return None


def rewrite(path, frames=None, **options):
    """Pass a clip through mien unchanged; return the path and what was written."""
    from mien.media.clip import Clip, ClipSettings, ClipWriter

    suffix = options.pop("suffix", path.suffix)
    output = path.with_name(f"{path.stem}-out{suffix}")
    clip = Clip(path)
    settings = options.pop("settings", ClipSettings())
    ways = {key: options.pop(key) for key in ("sdr", "fields") if key in options}
    with ClipWriter(output, clip, settings=settings, **options) as writer:
        span = {key: options[key] for key in ("start", "end") if key in options}
        for frame in clip.frames(**span, **ways):
            writer.write(frame)
    assert writer.result is not None
    return output, writer.result
