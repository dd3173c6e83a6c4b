"""What commands show while they work."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self


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
            self._status.update(f"{what}…")

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
