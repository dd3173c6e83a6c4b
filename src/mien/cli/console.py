"""What commands show while they work."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self


def drop_output() -> None:
    """Drop what is still to be printed, whose reader has left; nobody is to complain of it."""
    with suppress(OSError):  # a stream of a test or of another program has no number
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def heard() -> Iterator[None]:
    """Print in the block; if the reader of the output leaves, work goes on unheard."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        drop_output()


class Progress:
    """Says on a terminal what is being done, and is silent elsewhere."""

    def __init__(self, *, quiet: bool) -> None:
        self._status: Any = None
        if not quiet and sys.stderr.isatty():
            from rich.console import Console

            self._status = Console(stderr=True).status("Starting")

    def __enter__(self) -> Self:
        if self._status:
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._status:
            self._status.stop()

    def __call__(self, what: str) -> None:
        """Show that ``what`` is now being done."""
        if self._status:
            from rich.markup import escape

            self._status.update(f"{escape(what)}…")

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the terminal to a question."""
        if self._status:
            self._status.stop()
        try:
            yield
        finally:
            if self._status:
                self._status.start()
