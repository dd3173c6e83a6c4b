"""Writing clips: like the input in all that was not asked to change, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any

import av
from av.error import FFmpegError

from mien.errors import ClipUnwritable, DiskFull, InvalidOption, MienError, PictureUnwritable
from mien.media.atomic import Seal, whole_file
from mien.media.claim import claim
from mien.media.clip.containers import Container, container_of
from mien.media.clip.encoding import SEGMENT, Encoder, Plan
from mien.media.clip.info import ClipInfo
from mien.media.clip.labels import mux_options
from mien.media.clip.look import Look
from mien.media.clip.order import Order, Written, plan_for
from mien.media.clip.reading import Clip
from mien.media.clip.run import FULL, Run
from mien.media.clip.segments import Work, digest_of, free_bytes
from mien.media.clip.settings import ClipSettings
from mien.media.clip.stored import StoredFrame

ROOM = 1.3
"""How much larger than the input an output is reckoned, to be on the safe side."""


class ClipWriter:
    """Writes the frames of ``clip`` to ``path``, with its other tracks and all that it says.

    A context: left without an error, the file appears under its name; left with one, nothing is
    left behind, but for the segments in ``work``. Frames are those of ``clip.frames`` with the
    same ``start`` and ``end``, or what with_changes and in_sdr made of them.

    ``work`` is a folder for finished segments; with it, encoding that was interrupted is taken up:
    ask for the frames from ``resume_from`` on. ``recipe`` is what, beside the settings, decides
    what the frames look like. The output is the same with and without ``work``, byte for byte
    where the encoder repeats itself, as all but libx264 do, and that nearly always.

    ``seal`` signs the file before it appears; ``beside`` is the file it wrote beside it, if any.

    Raises ClipUnwritable, DiskFull and InvalidOption, on making one, on writing or on leaving, and
    then what ``seal`` raises.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        clip: Clip,
        *,
        settings: ClipSettings | None = None,
        start: Fraction | None = None,
        end: Fraction | None = None,
        work: Path | None = None,
        recipe: str = "",
        seal: Seal | None = None,
    ) -> None:
        self.path, self.clip = Path(path), clip
        self.settings = settings or ClipSettings()
        self.start, self.end = start, end
        self.container: Container = check_clip_output(self.path, inputs={"the input": clip.path})
        self._plan_for(clip.look)
        self.result: Written | None = None
        self.seal = seal
        self.beside: Path | None = None
        self._work_folder, self._recipe = work, recipe
        self._work: Work | None = None
        self._stack = ExitStack()
        self._open = ExitStack()
        """Of the run, which is closed before the file gets its name."""

        self._run: Run | None = None
        self._complete = False

    @property
    def resume_from(self) -> Fraction | None:
        """From which time on frames are still to be written; None for all of them."""
        if self._work is None or not self._work.segments:
            return self.start
        return Fraction(self._work.segments[-1].last) + self.clip.info.time_base

    @property
    def frames_kept(self) -> int:
        """How many frames an earlier run has finished."""
        return 0 if self._work is None else self._work.frames

    def __enter__(self) -> ClipWriter:
        with explained_writing(self.path):
            copies = 1 + (self._work_folder is not None) + (self.seal is not None)
            check_space(self.path, self.clip.info, copies=copies)
            try:
                self._stack.enter_context(claim(self.path))
            except PictureUnwritable as error:
                raise ClipUnwritable(str(error), path=self.path) from None
            if self._work_folder is not None:
                self._work = Work(self._work_folder, self._whole_recipe())
        return self

    def forget(self) -> None:
        """Delete the finished segments in ``work``: nobody will take them up."""
        if self._work is not None:
            self._work.remove()

    def write(self, frame: StoredFrame) -> None:
        """Write the next frame, which ends with it. Raises ClipUnwritable, DiskFull."""
        with explained_writing(self.path):
            if self._run is None:
                self._run = self._begin(frame.look, frame.time)
            self._run.write(frame)

    def complete(self) -> None:
        """Write all that is still to come: leaving the context then only gives the file its name.

        For files that are to appear together or not at all. Raises ClipUnwritable, DiskFull.
        """
        with explained_writing(self.path):
            if self._run is None:
                if self._work is None or not self._work.segments:
                    raise ClipUnwritable(
                        f"{self.path} cannot be written: there is not a single frame.",
                        path=self.path,
                    )
                self._run = self._begin(self.clip.look, Fraction(0))
            self._run.finish()
            self._open.close()
            self._complete = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self._discard(error)
            return
        try:
            with explained_writing(self.path):
                self.result = self._finish()
        except BaseException as failure:
            self._discard(failure)
            raise

    def _plan_for(self, look: Look) -> Plan:
        return plan_for(look, self.clip.info, self.container, self.settings, self.path)

    def _begin(self, look: Look, first: Fraction) -> Run:
        work = self._work
        resumed = work is not None and bool(work.segments)
        origin = Fraction(0)
        if work is not None and resumed:
            origin = Fraction(work.segments[0].origin)
        elif self.start is not None:
            origin = first
        file = self._stack.enter_context(whole_file(self.path, self._sealed))
        order = Order(self.path, self.clip, self.container, self.settings, self.start, self.end)
        output = av.open(
            file,
            "w",
            format=self.container.name,
            options=mux_options(self.clip.info, self.container, self.path, self.settings.tags),
        )
        self._stack.enter_context(self._open)
        return self._open.enter_context(Run(order, output, look, origin, work))

    def _finish(self) -> Written:
        if not self._complete:
            self.complete()
        assert self._run is not None
        self._stack.close()
        if self._work is not None:
            self._work.remove()
        return replace(self._run.summary(), size=self.path.stat().st_size)

    def _sealed(self, part: Path, path: Path) -> Path | None:
        self.beside = None if self.seal is None else self.seal(part, path)
        return self.beside

    def _discard(self, error: BaseException) -> None:
        if self._work is not None:
            self._work.abandon()
        self._stack.__exit__(type(error), error, error.__traceback__)

    def _whole_recipe(self) -> dict[str, Any]:
        # what a file says of itself is not in its pieces, and an id in it is new each time
        settings = asdict(replace(self.settings, tags={}))
        look = self.clip.look
        # frames come in either look. Hardware that is there today may not be tomorrow, and pieces
        # of two encoders do not go together
        looks = [look] if look.tones.plain else [look, look.in_sdr]
        encoders = [self._plan_for(each).encoder for each in looks]
        return {
            "encoders": [(encoder.family, encoder.name) for encoder in encoders],
            "input": digest_of(self.clip.path),
            "settings": settings,
            "container": self.container.name,
            "start": str(self.start),
            "end": str(self.end),
            "segment": SEGMENT,
            "cores": os.cpu_count(),  # of which encoders make threads, which show in the output
            "ffmpeg": av.ffmpeg_version_info,
            "recipe": self._recipe,
        }


def check_clip_output(path: Path, *, inputs: dict[str, Path]) -> Container:
    """Return what ``path`` is to become, before any work is done.

    ``inputs`` are files that must not be written over, by what the user calls them. Raises
    ClipUnwritable, and InvalidOption naming the input that would be written over.
    """
    container = container_of(path)
    with explained_writing(path):
        if path.is_dir():
            raise ClipUnwritable(f"{path} is a folder; name a file.", path=path)
        if not path.parent.is_dir():
            raise ClipUnwritable(f"The folder {path.parent} does not exist.", path=path)
        for name, taken in inputs.items():
            if path.exists() and taken.exists() and path.samefile(taken):
                raise InvalidOption("output", str(path), f"a file other than {name}")
    return container


def encoder_for(look: Look, info: ClipInfo, settings: ClipSettings, path: Path) -> Encoder:
    """Return the software that would encode frames of ``look`` for ``path``.

    Its words are those of ``settings`` with hardware too. Raises ClipUnwritable, InvalidOption.
    """
    settings = replace(settings, encoder="none")
    return plan_for(look, info, container_of(path), settings, path).encoder


def check_space(path: Path, info: ClipInfo, *, copies: int = 1) -> None:
    """Raise DiskFull if the disk of ``path`` has no room for a clip like ``info``.

    ``copies`` is how many there are of it at a time: segments are one, and what is being signed.
    """
    needed = int(info.path.stat().st_size * ROOM * copies)
    free = free_bytes(path.parent)
    if free is not None and free < needed:
        raise DiskFull(path, needed=needed, free=free)


@contextmanager
def explained_writing(path: Path) -> Iterator[None]:
    """Turn what the system and FFmpeg say of a file being written into mien's errors."""
    try:
        yield
    except MienError:
        raise
    except (OSError, FFmpegError, ValueError) as error:
        number = getattr(error, "errno", None)
        if number in FULL:
            raise DiskFull(path) from error
        what = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise ClipUnwritable(
            f"{path} could not be written: {what}. Nothing was left there.", path=path
        ) from error
