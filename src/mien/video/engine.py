"""Engine: a clip from file to file. One thread decodes, one encodes, and faces are made between.

Where PyTorch runs the networks on a GPU, a frame of eight bits goes there as it was decoded, and
comes back as it is encoded.

Frames go in order through short queues, so memory does not grow with the clip, and never touch a
disk. A frame on which no face is laid goes to the encoder as it was decoded, but for its marks.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from copy import copy
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from time import perf_counter

import torch

from mien.engines import Engine, Peak, home_of, with_room
from mien.errors import Refused
from mien.media.clip import (
    Behind,
    Clip,
    ClipWriter,
    Lost,
    StoredFrame,
    Written,
    ahead,
)
from mien.media.clip.writer import explained_writing
from mien.pipeline import MEMORY, NONE, ClipPipeline, Made, Seen, Stopwatch
from mien.safety.manifest import beside, take_away
from mien.types import Event, Frame, Swapped
from mien.video.comparing import Comparison
from mien.video.job import VideoJob, work_folder
from mien.video.preview import Preview
from mien.video.progress import Pace, VideoProgress
from mien.video.record import Record
from mien.video.report import VideoReport, shares_of
from mien.video.untouched import QUEUE, copied_as_it_is, copyable, encoded_again, timed

log = logging.getLogger(__name__)

CPU = torch.device("cpu")


class _NothingToCompare(Exception):
    """Ends a comparison in which nothing differs."""


class _Untouched(Exception):
    """Ends an encode in which nothing was changed, in favour of a copy or of one without a mark."""


def swap_clip(
    job: VideoJob,
    pipeline: ClipPipeline,
    *,
    model: str,
    engines: Sequence[Engine],
    progress: Callable[[VideoProgress], object] | None = None,
) -> VideoReport:
    """Write ``job.output`` and return what was done; ``engines`` are the networks that do it.

    If nobody of the cast is found, the pictures are copied without encoding, where that is possible
    and no other codec is asked for. Whatever ends it early, an interrupt too, leaves nothing under
    the output's name. Raises ClipUnreadable, ClipUnwritable, DiskFull, InvalidOption, and what
    ``progress`` raises.
    """
    began = perf_counter()
    providers = {engine.model: engine.provider for engine in engines}
    run = _Run(job, pipeline, home_of(engines), progress)
    copied = False
    try:
        try:
            written = run()
        except _Untouched:
            copied = copyable(job)
            written = copied_as_it_is(job) if copied else encoded_again(job, progress)
        if not run.marked:
            job.mark.take_away(job.output)
        if run.manifest is None:
            with explained_writing(job.output):
                take_away(job.output)
    except BaseException:
        for path in run.beside:  # they belong to what is not there
            path.unlink(missing_ok=True)
        raise
    return VideoReport(
        written=written,
        copied=copied,
        cast=pipeline.cast,
        model=model,
        providers=providers,
        frames=run.record.frames,
        swapped=run.record.swapped,
        kept=run.kept,
        most=run.record.most,
        nearest=run.record.nearest,
        limit=pipeline.pipeline.limit(pipeline.cast),
        stretches=run.record.stretches,
        tracks=run.record.tracks,
        events=tuple(_moved_event(event, job.span.origin) for event in pipeline.events),
        lost=tuple(_moved_loss(lost, job.span.origin) for lost in job.clip.lost),
        timings=run.timings,
        seconds=perf_counter() - began,
        gpu=Peak.of(engines),
        beside=tuple(run.beside),
        manifest=run.manifest,
        signed=run.signed,
        label=None if run.untouched else job.imprint.report(),
    )


class _Run:
    """The frames of one job on their way."""

    def __init__(
        self,
        job: VideoJob,
        pipeline: ClipPipeline,
        home: torch.device,
        progress: Callable[[VideoProgress], object] | None,
    ) -> None:
        """``home`` is where the networks are: pictures of eight bits are brought there."""
        self.job, self.pipeline, self._home = job, pipeline, home
        self.record = Record(job.span.origin)
        self.kept = 0
        first, last = job.span.first, job.span.last
        self.preview = None if job.preview is None else Preview(first, last)
        self.beside: list[Path] = []
        """Files that were written beside the output."""

        self.marked = False
        """Whether a mark is among them."""

        self.signed = False
        self.manifest: Path | None = None
        """The one of them with the output's manifest."""

        self._progress, self._pace = progress, Pace(first, last)
        # one for each thread; every stage is there from the beginning, as others read along
        self._reading, self._finding = Stopwatch(), Stopwatch()
        self._returning, self._writing = Stopwatch(), Stopwatch()
        self._reading.seconds.update(decode=0.0, convert=0.0)
        self._returning.seconds["return"] = self._writing.seconds["encode"] = 0.0
        self._from: Fraction | None = None
        """When the first frame is shown that is to be written; None for the first there is."""

        self._comparison: Comparison | None = None

    @property
    def untouched(self) -> bool:
        """Whether no frame was changed."""
        return self.record.swapped == 0

    @property
    def timings(self) -> dict[str, float]:
        """Seconds by stage, of all threads."""
        return {
            **self._reading.seconds,
            **self._finding.seconds,
            **self._returning.seconds,
            **self._writing.seconds,
        }

    def __call__(self) -> Written:
        """Do it all. Raises _Untouched if the clip is better copied, or has a mark for nothing."""
        job = self.job
        writer = self._writer(job.output, job.clip, job.recipe)
        try:
            with writer:
                self.kept = writer.frames_kept
                self._take_all(writer)
        except (_Untouched, Refused):  # of what is refused no piece is kept either
            writer.forget()
            raise
        assert writer.result is not None
        self.signed = writer.seal is not None
        if writer.beside is not None:
            self.manifest = writer.beside
            self.beside.append(writer.beside)
        return writer.result

    def _writer(self, output: Path, clip: Clip, recipe: str) -> ClipWriter:
        job = self.job
        tags = {**job.settings.tags, **job.mark.tags}
        return ClipWriter(
            output,
            clip,
            settings=replace(job.settings, tags=tags, covers="drop"),
            start=job.span.start,
            end=job.span.end,
            work=work_folder(output) if job.resume else None,
            recipe=recipe,
            seal=job.seal,
        )

    def _take_all(self, writer: ClipWriter) -> None:
        """Take every frame to ``writer``, and to that of the comparison if there is one."""
        path = self.job.compare
        if path is None:
            self._through(writer, None)
            self._complete(writer)
            return
        look = self.job.clip.look
        self._comparison = Comparison(
            look.in_sdr if self.job.sdr and not look.tones.plain else look
        )
        joined = copy(self.job.clip)
        joined.look = self._comparison.look  # what decides how it is written, and only that
        both = self._writer(path, joined, f"compared: {self.job.recipe}")
        try:
            with both:
                self._through(writer, both)
                if self.untouched:
                    raise _NothingToCompare
                # neither appears before both are whole: else what was there would be gone
                both.complete()
                self._complete(writer)
        except _NothingToCompare:
            both.forget()
            self._complete(writer)
            return
        except Refused:
            both.forget()
            raise
        self.beside += [path, *([] if both.beside is None else [both.beside])]

    def _complete(self, writer: ClipWriter) -> None:
        """Write the rest, and what goes beside the output, before that appears."""
        if self.untouched and self.record.frames:  # every one has marks, and none should
            self._write_beside()
            raise _Untouched
        writer.complete()
        self._write_beside()

    def _write_beside(self) -> None:
        job, path = self.job, self.job.mark.beside(self.job.output)
        # the preview first, as it is large: marks that are there are of what is there
        if job.preview is not None and self.preview is not None and self.preview.frames:
            mark, seal = (None, None) if self.untouched else (job.mark.xmp, job.seal)
            imprint = NONE if self.untouched else job.imprint
            self.preview.save(job.preview, mark, seal, imprint)
            self.beside.append(job.preview)
            if seal is not None and (manifest := beside(job.preview)) is not None:
                self.beside.append(manifest)
        if job.compare is not None and not self.untouched:
            marked = job.mark.beside(job.compare)
            if marked is not None:
                job.mark.write(marked, job.mark.xmp)
                self.beside.append(marked)
        # a mark of ours would be untrue if nothing is synthetic but what was so before
        mark = job.mark.before if self.untouched else job.mark.xmp
        if path is not None and mark is not None:
            job.mark.write(path, mark)
            self.beside.append(path)  # not sooner: a file that is not ours is not to be deleted
            self.marked = True

    def _through(self, writer: ClipWriter, both: ClipWriter | None) -> None:
        """Take every frame from the decoder to the encoders."""
        starts = [_first_wanted(each) for each in (writer, both) if each is not None]
        self._from = None if None in starts else min(each for each in starts if each is not None)

        film = self.job.imprint.film()
        film_of_both = None if both is None else self.job.imprint.film()

        def write(item: tuple[ClipWriter, StoredFrame]) -> None:
            into, stored = item
            with self._writing("encode"):
                into.write(stored)

        def finish(item: tuple[StoredFrame, Swapped]) -> None:
            before, done = item
            covered = () if done.layers is None else done.layers.covered
            places = [part.rectangle for part in covered]
            # the comparison first, as a frame ends with being written
            if both is not None and _wanted(starts[1], before.time):
                assert self._comparison is not None
                assert film_of_both is not None
                with self._returning("return"):
                    after = before.with_changes(done.frame, places) if places else before
                    joined = film_of_both(self._comparison(before, after))
                written.put((both, joined))
            if _wanted(starts[0], before.time):
                with self._returning("return"):
                    device = done.frame.pixels.device
                    stored = with_room(device, lambda: film(before, done.frame, places))
                written.put((writer, stored))

        with ExitStack() as stack:
            frames = stack.enter_context(closing(ahead(self._decoded(), QUEUE)))
            written = stack.enter_context(Behind(write, 1))
            behind = stack.enter_context(Behind(finish, QUEUE))
            pool = ThreadPoolExecutor(self.job.threads, "faces")
            stack.callback(pool.shutdown, cancel_futures=True)
            waiting: deque[tuple[StoredFrame, Future[Made] | Seen]] = deque()
            for stored, picture in frames:
                seen = self.pipeline.see(picture)
                needed = self._needed(stored.time, seen)
                waiting.append((stored, pool.submit(self._made, seen) if needed else seen))
                if len(waiting) > self.job.threads:
                    self._finish(*waiting.popleft(), behind)
            while waiting:
                self._finish(*waiting.popleft(), behind)

    def _needed(self, time: Fraction, seen: Seen) -> bool:
        """Return whether the faces of a frame are to be made: for it, later ones or the preview."""
        if self._from is None or time >= self._from - MEMORY:
            return True
        return bool(seen.targets) and self.preview is not None and self.preview.lacks(time)

    def _finish(
        self,
        stored: StoredFrame,
        coming: Future[Made] | Seen,
        behind: Behind[tuple[StoredFrame, Swapped]],
    ) -> None:
        made = coming.result() if isinstance(coming, Future) else coming
        kept = self._from is not None and stored.time < self._from
        shown = self.preview is not None and self.preview.lacks(stored.time)
        if isinstance(made, Seen) or (kept and not shown):
            done = self.pipeline.skip(made)
        else:
            done = self.pipeline.finish(made)
        if self.preview is not None and (done.layers is not None or not done.chosen):
            self.preview(done, stored.look, stored.time)
        if not kept:
            behind.put((stored, done))
        self.record(done, stored.time)
        for stage, seconds in done.timings.items():
            own = self._finding.seconds
            own[stage] = own.get(stage, 0.0) + seconds
        if self._progress is not None:
            shares = shares_of(self.timings)
            self._progress(self._pace(self.record.frames, stored.time, shares))

    def _picture(self, stored: StoredFrame) -> Frame:
        """Return the upright picture of a frame, to be changed, on the GPU if it can be there."""
        look = stored.look
        if self._home != CPU and look.tones.plain and not look.converter.deep:
            try:
                return stored.picture(self._home)
            except torch.OutOfMemoryError as error:
                log.warning("Frames are worked on by the CPU from now on: %s", error)
                self._home = CPU
        return stored.picture()

    def _made(self, seen: Seen) -> Made:
        return with_room(seen.frame.pixels.device, lambda: self.pipeline.make(seen))

    def _decoded(self) -> Iterator[tuple[StoredFrame, Frame]]:
        """Yield frames, and their upright pictures to be changed."""
        job = self.job
        frames = job.clip.frames(
            start=job.span.start,
            end=job.span.end,
            sdr=job.sdr,
            fields=job.fields,
            hardware=job.hardware,
        )
        with closing(timed(frames, self._reading)) as decoded:
            for stored in decoded:
                with self._reading("convert"):
                    picture = self._picture(stored)
                yield stored, picture
                del stored, picture


def _first_wanted(writer: ClipWriter) -> Fraction | None:
    """Return when the first frame is shown that ``writer`` lacks; None if it lacks them all."""
    return writer.resume_from if writer.frames_kept else None


def _wanted(start: Fraction | None, time: Fraction) -> bool:
    return start is None or time >= start


def _moved_event(event: Event, origin: Fraction) -> Event:
    return replace(event, start=event.start - origin, end=event.end - origin)


def _moved_loss(lost: Lost, origin: Fraction) -> Lost:
    start = None if lost.start is None else lost.start - origin
    end = None if lost.end is None else lost.end - origin
    return replace(lost, start=start, end=end)
