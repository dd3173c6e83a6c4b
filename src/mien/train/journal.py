"""What a visit says of itself: lines on the screen, and a log to plot."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any


class Journal:
    """Prints, and writes JSON lines. Only the first process of several says anything."""

    def __init__(self, path: Path, rank: int) -> None:
        self._began, self._rank, self._path = time.monotonic(), rank, path
        path.parent.mkdir(parents=True, exist_ok=True)

    def seconds(self) -> float:
        """Return how long ago the visit began."""
        return time.monotonic() - self._began

    def say(self, text: str) -> None:
        """Print a line."""
        if not self._rank:
            try:
                print(f"[{self.seconds():6.1f}s] {text}", flush=True)
            except BrokenPipeError:  # who listened has left; training goes on
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def note(self, kind: str, values: dict[str, Any]) -> None:
        """Print values and add them to the log."""
        if self._rank:
            return
        shown = {k: round(v, 5) if isinstance(v, float) else v for k, v in values.items()}
        self.say(f"{kind} " + " ".join(f"{k} {v}" for k, v in shown.items()))
        with self._path.open("a") as file:
            file.write(
                json.dumps({"kind": kind, "seconds": round(self.seconds(), 1)} | shown) + "\n"
            )
