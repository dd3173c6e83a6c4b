"""Clips of the CC0 portraits, who move before a background, encoded here."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import torch
from media.clip.drawn import samples
from PIL import Image

from mien.evaluate.moving import Place, actor, play

SIZE = (320, 240)
RATE = 25
SIDE = 180
OPTIONS = {"libx264": {"crf": "16"}, "libx265": {"x265-params": "log-level=none"}}


def head(portraits, name, path, side=SIDE):
    """Return the portrait ``name`` as somebody who moves along ``path``."""
    with Image.open(portraits[name]) as image:
        return actor(torch.from_numpy(np.array(image.convert("RGB"))), side, path)


def along(x, y, speed):
    return lambda t: Place(x + speed * t, y)


def film(
    path,
    actors,
    *,
    frames=15,
    times=None,
    codec="libx264",
    sound=True,
    start=0,
    pixels="yuv420p",
    **context,
):
    """Write a clip with a face for each of ``actors``; ``times`` are counts of 1/25 s."""
    times = list(range(frames)) if times is None else times
    width, height = SIZE
    unit = Fraction(1, RATE)
    with av.open(str(path), "w") as output:
        stream = output.add_stream(codec, rate=RATE)
        stream.width, stream.height, stream.pix_fmt = width, height, pixels
        stream.codec_context.time_base = stream.time_base = unit
        stream.codec_context.options = OPTIONS.get(codec, {})
        for key, value in context.items():
            setattr(stream.codec_context, key, value)
        track = None
        if sound:
            track = output.add_stream(
                "pcm_s16le" if str(path).endswith("mkv") else "aac", rate=8000
            )
            track.layout = "mono"
        moments = [time * unit for time in times]
        for time, frame in zip(times, play(actors, moments, size=(height, width)), strict=True):
            picture = av.VideoFrame.from_ndarray(frame.pixels.numpy(), "rgb24")
            picture = picture.reformat(format=pixels)
            picture.pts, picture.time_base = time + start, unit
            output.mux(stream.encode(picture))
        output.mux(stream.encode(None))
        if track is not None:
            length = 8000 * (times[-1] + 1) // RATE
            wave = (8000 * np.sin(np.arange(length) / 3)).astype(np.int16)[None]
            for at in range(0, length, 320):  # packets as short as a frame
                heard = av.AudioFrame.from_ndarray(wave[:, at : at + 320], "s16", "mono")
                heard.rate, heard.pts = 8000, at
                output.mux(track.encode(heard))
            output.mux(track.encode(None))
    return path


def planes(path):
    """Return the planes of every frame, copies."""
    with av.open(str(path)) as clip:
        return [[plane.copy() for plane in samples(f)] for f in clip.decode(video=0)]


def times_of(path):
    with av.open(str(path)) as clip:
        return [frame.pts * frame.time_base for frame in clip.decode(video=0)]


def packets(path, kind):
    """Return what a track holds, without its times."""
    with av.open(str(path)) as clip:
        tracks = [track for track in clip.streams if track.type == kind]
        return [bytes(p) for p in clip.demux(tracks[0]) if p.size] if tracks else []


def metadata(path):
    with av.open(str(path)) as clip:
        return {key.lower(): value for key, value in clip.metadata.items()}


def content(path):
    """Return the bytes of a clip without its id, which is new each time, and Matroska's CRCs."""
    changing = rb'"ProduceID": "[0-9a-f]{32}"|\xbf\x84[\x00-\xff]{4}'
    return re.sub(changing, b"", Path(path).read_bytes())


def files(folder):
    return sorted(path.name for path in Path(folder).iterdir())


def negative(inputs):
    """Return the target's negative with some of the source in it: all inputs count."""
    return {"output": -0.9 * inputs["target"] + inputs["source"][:, :1, None, None] * 0.1}
