"""Many pictures and clips: one picture is read and one written while another is worked on."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mien.errors import MienError, PictureUnwritable, Unforeseen
from mien.media import Picture, Subsampling, check_output, read_picture
from mien.media.claim import claim
from mien.pipeline import Cast
from mien.plan import Job
from mien.result import Result
from mien.safety.manifest import beside, take_away
from mien.swapper import Swapper
from mien.video import VideoReport

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one job."""

    job: Job
    report: dict[str, Any] | None = None
    """What Result.report or VideoReport.report says; None if nothing was written."""

    partial: bool = False
    """Whether a face could not be swapped though the output was written."""

    untouched: bool = False
    """Whether nobody who was meant is in the clip, which was written as it is."""

    skipped: bool = False
    error: MienError | None = None
    """Why nothing was written."""


def swap_files(
    swapper: Swapper,
    jobs: Iterable[Job],
    cast_of: Callable[[Job], Cast],
    *,
    strength: float = 1.0,
    quality: int | None = None,
    subsampling: Subsampling | None = None,
    skip_existing: bool = False,
    swap_clip: Callable[[Job, Cast], VideoReport] | None = None,
) -> Iterator[Outcome]:
    """Do ``jobs`` and yield what became of each, in their order.

    ``cast_of`` says who is put on whom, and ``swap_clip`` does a job that is a clip; the default
    makes it like its target in all else. They run in the caller's thread. An error, also of
    ``cast_of``, ends one job and not the others. While a picture is worked on, the next one is read
    and the one before is written, so at most three are in memory. With ``skip_existing`` jobs whose
    output is there are left out.
    """

    def begin(job: Job) -> _Step:
        step = _Step(job)
        if skip_existing and os.path.exists(job.output):  # noqa: PTH110 - takes any name
            step.outcome = Outcome(job, skipped=True)
        if step.outcome is not None or job.clip:  # who writes a clip claims its name
            return step
        step.guard(lambda: step.claims.enter_context(claim(job.output)))
        if step.outcome is None:
            step.picture = files.submit(_read, job, swapper.max_megapixels)
        return step

    def whole_clip(job: Job) -> Outcome:
        if job.makes_folder:
            for path in job.writes:
                path.parent.mkdir(parents=True, exist_ok=True)
        cast = cast_of(job)
        if swap_clip is not None:
            report = swap_clip(job, cast)
        else:
            report = swapper.swap_video(
                job.target,
                cast,
                output=job.output,
                strength=strength,
                preview=job.preview,
                compare=job.compare,
            )
        return Outcome(job, report.report(), partial=report.partial, untouched=report.untouched)

    def work(step: _Step) -> None:
        if step.job.clip and step.outcome is None:
            step.done = step.guard(lambda: whole_clip(step.job))
            return
        if step.picture is None:
            return
        picture = step.take(step.picture)
        step.picture = None
        if picture is None:
            return
        result = step.guard(lambda: swapper.swap(picture, cast_of(step.job), strength=strength))
        if result is None:
            return
        step.done = Outcome(step.job, result.report(), partial=result.partial)
        step.written = files.submit(_write, step.job, result, quality, subsampling)

    def finish(step: _Step) -> Outcome:
        if step.written is not None:
            step.say_where(step.take(step.written))
        step.claims.close()
        return step.outcome or step.done or Outcome(step.job, skipped=True)

    with ThreadPoolExecutor(2, "files") as files:  # one reads, one writes
        waiting = iter(jobs)
        current = before = following = None
        try:
            following = _next(waiting, begin)
            while following is not None or before is not None:
                current, following = following, None
                if current is not None:
                    following = _next(waiting, begin)
                    work(current)
                if before is not None:
                    yield finish(before)
                before, current = current, None
        finally:
            files.shutdown(cancel_futures=True)
            for step in (before, current, following):
                if step is not None:
                    step.claims.close()


def _read(job: Job, max_megapixels: float) -> Picture:
    if job.makes_folder:
        job.output.parent.mkdir(parents=True, exist_ok=True)
    for path in job.writes:
        check_output(path)
    picture = read_picture(job.target, max_megapixels=max_megapixels)
    check_output(job.output, picture=picture)
    return picture


def _write(
    job: Job, result: Result, quality: int | None, subsampling: Subsampling | None
) -> Path | None:
    """Write all files of a job; return the one with the output's manifest if it is in no other."""
    written: list[Path] = []
    try:
        if job.compare is not None:
            result.save_compare(job.compare)
            written.append(job.compare)
        if job.debug_view is not None:
            result.save_debug_view(job.debug_view)
            written.append(job.debug_view)
        result.save(job.output, quality=quality, subsampling=subsampling)
    except BaseException:
        for path in written:  # which show what is not there
            if beside(path) is not None:
                take_away(path)
            path.unlink(missing_ok=True)
        raise
    return beside(job.output)


class _Step:
    """A job on its way."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.claims = ExitStack()
        self.picture: Future[Picture] | None = None
        self.written: Future[Path | None] | None = None
        self.done: Outcome | None = None
        """What is to be said if writing goes well."""

        self.outcome: Outcome | None = None
        """What is to be said, if something went wrong or nothing is to be done."""

    def say_where(self, manifest: Path | None) -> None:
        """Let the report name the file beside the output with its manifest, if there is one."""
        if self.done is not None and self.done.report is not None:
            self.done.report["manifest_beside"] = None if manifest is None else str(manifest)

    def guard(self, action: Callable[[], Any]) -> Any:
        """Return what ``action`` returns; an error becomes the job's outcome."""
        try:
            return action()
        except MienError as error:
            self._fail(error)
        except OSError as error:
            reason = error.strerror or error
            message = f"{self.job.output} cannot be written: {reason}."
            self._fail(PictureUnwritable(message, path=self.job.output))
        except Exception as error:
            log.info("An error that mien did not foresee", exc_info=True)
            self._fail(Unforeseen(error))
        return None

    def _fail(self, error: MienError) -> None:
        """Let ``error`` be the outcome, without what ties it to the picture and its pixels."""
        links: list[BaseException | None] = [error]
        while links:
            if (link := links.pop()) is not None:
                link.__traceback__ = None
                links += [link.__cause__, link.__context__]
        self.outcome = Outcome(self.job, error=error)

    def take(self, future: Future[Any]) -> Any:
        """Return what ``future`` brings, guarded."""
        return self.guard(future.result)


def _next(jobs: Iterator[Job], begin: Callable[[Job], _Step]) -> _Step | None:
    job = next(jobs, None)
    return None if job is None else begin(job)
