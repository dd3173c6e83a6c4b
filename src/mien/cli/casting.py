"""Who is put on whom, from options: identities are made once, and asked for consent once."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mien.cli.console import Progress
from mien.errors import ConsentMissing, InvalidOption, MienError

if TYPE_CHECKING:
    from mien.pairs import Pair
    from mien.pipeline import Cast
    from mien.plan import Job
    from mien.settings import Settings
    from mien.swapper import Swapper
    from mien.types import Identity


def parse_faces(text: str | None) -> Any:
    """Return what ``--faces`` says: a word, or numbers."""
    if text is None or text in ("largest", "all"):
        return text
    try:
        return tuple(int(number) for number in text.split(","))
    except ValueError:
        allowed = "largest, all, or numbers from 0 up as in 0,2"
        raise InvalidOption("faces", text, allowed) from None


@dataclass
class Casting:
    """The options that say whose face goes where; called with a job, it gives the job's cast."""

    pairs: list[Pair]
    also: list[Path]
    consent: str | None
    faces: Any
    order: Any
    only: Path | None
    max_distance: float | None
    settings: Settings
    consent_record: str | None = None
    _casts: dict[Path | None, Cast | MienError] = field(default_factory=dict)

    @property
    def inputs(self) -> dict[str, Path]:
        """Files that must not be written over, by what the user calls them."""
        files = {f"--also {path}": path for path in self.also}
        if self.only is not None:
            files[f"--only {self.only}"] = self.only
        for pair in self.pairs:
            files |= {f"--map {path}": path for path in (*pair.source, *pair.target)}
        return files

    @property
    def largest(self) -> bool:
        """Whether it is the largest face that is swapped, and the others are not looked for."""
        return self.faces in (None, "largest") and not self.pairs and self.only is None

    def absent(self, number: int) -> str:
        """Say who is missing, by a number of Result.missing."""
        if self.pairs:
            return ", ".join(path.name for path in self.pairs[number].target)
        return f"face {number}" if self.only is None else self.only.name

    def begin(self, swapper: Swapper, progress: Progress) -> None:
        """Take what is needed to make casts."""
        self._swapper, self._progress = swapper, progress

    def __call__(self, job: Job) -> Cast:
        """Return the cast for ``job``; a source that failed fails again, unread."""
        if job.source not in self._casts:
            try:
                self._casts[job.source] = self._cast(job.source)
            except MienError as error:
                self._casts[job.source] = error
        cast = self._casts[job.source]
        if isinstance(cast, MienError):
            raise cast
        return cast

    def _cast(self, source: Path | None) -> Cast:
        options: dict[str, Any] = {
            "faces": self.faces,
            "order": self.order,
            "max_distance": self.max_distance,
        }
        if self.max_distance is None and (self.pairs or self.only):
            options["max_distance"] = self.settings.max_distance
        if source is None:
            options["map"] = [
                (
                    self._identify(
                        pair.source, self.consent if pair.consent is None else pair.consent
                    ),
                    list(pair.target),
                )
                for pair in self.pairs
            ]
            return self._swapper.cast(**options)
        identity = self._identify([source, *self.also], self.consent)
        return self._swapper.cast(identity, only=self.only, **options)

    def _identify(self, pictures: Sequence[Path], consent: str | None) -> Identity:
        """Make the identity; ask for a statement of consent if none is known and one can ask."""
        self._progress(f"Reading {pictures[0].name}")
        named = self.consent_record if consent is None else None
        try:
            return self._swapper.identity(list(pictures), consent=consent, consent_record=named)
        except ConsentMissing:
            if (
                consent is not None
                or named is not None
                or not (sys.stdin.isatty() and sys.stderr.isatty())
            ):
                raise
        with self._progress.paused():
            names = ", ".join(path.name for path in pictures)
            print(
                f"mien works only with consent. Whose face is in {names}, and do they agree to its "
                "use?\nState it in a sentence; it is recorded and remembered for this picture. "
                "Leave it empty to stop.\nConsent: ",
                end="",
                file=sys.stderr,
                flush=True,
            )
            statement = sys.stdin.readline()
        return self._swapper.identity(list(pictures), consent=statement)
