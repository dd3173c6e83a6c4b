"""Demuxing: packets out of files, and frames out of packets, whatever is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
from av.codec.hwaccel import HWAccel
from av.container import InputContainer
from av.error import FFmpegError
from av.filter import Graph
from av.video.stream import VideoStream

from mien.media.clip.damage import Ledger
from mien.media.clip.opening import open_clip, pictures_of, reason
from mien.media.clip.seams import Seams

PATIENCE = 20
"""Read errors in a row after which the rest of a file is given up."""

SAID_AT_START = ("mov", "matroska", "avi")
"""Formats that say at their start how long they last."""


def opened_at(path: Path, start: Fraction | None, device: HWAccel | None) -> InputContainer:
    """Return ``path`` opened, to be read from a key frame before ``start``."""
    container = open_clip(path, device)
    if start is None:
        return container
    if Seams(container.format.name).possible:
        return container  # its clock may jump, so it is read from where times are known
    track = pictures_of(container, path)
    base = track.time_base
    try:
        assert base is not None
        container.seek(int(start / base), stream=track)
        for packet in container.demux(track):
            if packet.pts is not None:
                if packet.pts * base <= start and packet.is_keyframe:
                    container.seek(int(start / base), stream=track)
                    return container
                break
    except FFmpegError:
        pass
    container.close()  # its index is wrong, or there is none: all of it is read
    return open_clip(path, device)


def decoded(
    packets: Iterator[av.Packet[Any]], track: VideoStream, ledger: Ledger, seen: list[int]
) -> Iterator[av.VideoFrame]:
    """Yield the frames of ``track``, whatever else is in the way; count its packets in ``seen``."""
    for packet in packets:
        ours = packet.stream_index == track.index
        ledger.packet(packet, pictures=ours)
        if not ours:
            continue
        seen[0] += 1
        try:
            frames = track.decode(packet)
        except (FFmpegError, ValueError):
            ledger.undecodable(packet)
            continue
        yield from frames
    for _ in range(PATIENCE):  # a decoder may have several to complain about
        try:
            yield from track.decode(None)
            return
        except EOFError:
            return
        except (FFmpegError, ValueError):
            continue


def packets_of(container: InputContainer, ledger: Ledger, seams: Seams) -> Iterator[av.Packet[Any]]:
    """Yield the packets of all tracks, past what cannot be read."""
    failures = 0
    while True:
        try:
            for packet in container.demux():
                if packet.size:
                    failures = 0
                    seams.close(packet)
                    yield packet
            return
        except (FFmpegError, OSError) as error:
            failures += 1
            if failures > PATIENCE:
                ledger.unreadable(reason(error))
                return


def deinterlacer(frame: av.VideoFrame) -> Graph:
    """Return what brings the lines of frames like ``frame`` together."""
    graph = Graph()
    source = graph.add_buffer(
        width=frame.width, height=frame.height, format=frame.format, time_base=frame.time_base
    )
    bwdif = graph.add("bwdif", "mode=send_frame:deint=interlaced")
    graph.link_nodes(source, bwdif, graph.add("buffersink")).configure()
    return graph


def pulled(
    graph: Graph, waiting: list[tuple[Fraction, bool]]
) -> Iterator[tuple[av.VideoFrame, Fraction, bool]]:
    """Yield the frames that are ready, with what belongs to the first that wait."""
    while waiting:
        try:
            frame = graph.vpull()
        except (av.error.BlockingIOError, EOFError):
            return
        time, damaged = waiting.pop(0)
        yield frame, time, damaged


def told_end(container: InputContainer) -> Fraction | None:
    """Return when the file says that it ends."""
    said = any(name in container.format.name for name in SAID_AT_START)
    if not said or container.duration is None:
        return None
    return Fraction(container.duration + (container.start_time or 0), av.time_base)


def unread(track: VideoStream, seen: int) -> list[Fraction]:
    """Return the times of frames in the index of ``track`` beyond the first ``seen``."""
    base = track.time_base
    assert base is not None
    missing = len(track.index_entries) - seen
    return [entry.timestamp * base for entry in track.index_entries[seen:]] if missing > 0 else []
