"""Untouched: what is written of a clip in which nothing was swapped."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import replace

from mien.media.clip import (
    Behind,
    Clip,
    ClipWriter,
    StoredFrame,
    Written,
    ahead,
    copy_clip,
    why_not_copied,
)
from mien.pipeline import Stopwatch
from mien.video.job import VideoJob
from mien.video.progress import Pace, VideoProgress
from mien.video.report import shares_of

QUEUE = 3
"""Frames that wait for a thread, decoded ones and those to be encoded."""


def copyable(job: VideoJob) -> bool:
    """Return whether the pictures may be copied without encoding them."""
    if job.sdr and not job.clip.look.tones.plain:
        return False
    settings = replace(job.settings, quality=None, preset=None)
    return not why_not_copied(job.output, job.clip, settings=settings, start=job.span.start)


def copied_as_it_is(job: VideoJob) -> Written:
    """Copy the pictures, and say what was said of them before."""
    settings = replace(job.settings, quality=None, preset=None, tags=job.mark.tags_before)
    start, end = job.span.start, job.span.end
    return copy_clip(job.output, job.clip, settings=settings, start=start, end=end)


def encoded_again(job: VideoJob, progress: Callable[[VideoProgress], object] | None) -> Written:
    """Encode the clip as it is, without a mark.

    That nothing is swapped is known at the end, and what a file says of itself was written into it
    with the first frame.
    """
    clip = Clip(job.clip.path)
    start, end = job.span.start, job.span.end
    settings = replace(job.settings, tags={**job.settings.tags, **job.mark.tags_before})
    writer = ClipWriter(job.output, clip, settings=settings, start=start, end=end)
    frames = clip.frames(
        start=start, end=end, sdr=job.sdr, fields=job.fields, hardware=job.hardware
    )
    pace = Pace(job.span.first, job.span.last, again=True)
    reading, writing = Stopwatch(), Stopwatch()  # one for each thread
    reading.seconds["decode"] = writing.seconds["encode"] = 0.0

    def write(stored: StoredFrame) -> None:
        with writing("encode"):
            writer.write(stored)

    with (
        writer,
        closing(ahead(timed(frames, reading), QUEUE)) as decoded,
        Behind(write, QUEUE) as behind,
    ):
        for number, stored in enumerate(decoded, 1):
            behind.put(stored)
            if progress is not None:
                shares = shares_of({**reading.seconds, **writing.seconds})
                progress(pace(number, stored.time, shares))
    assert writer.result is not None
    return writer.result


def timed(
    frames: Generator[StoredFrame, None, None], watch: Stopwatch
) -> Generator[StoredFrame, None, None]:
    """Yield ``frames``; what they take is timed as decoding."""
    with closing(frames):
        while True:
            with watch("decode"):
                stored = next(frames, None)
            if stored is None:
                return
            yield stored
            del stored
