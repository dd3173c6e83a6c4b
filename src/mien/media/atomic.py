"""Whole files or none: output appears under its name only when it is complete."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypeAlias

Seal: TypeAlias = Callable[[Path, Path], Path | None]
"""Given a file that is complete and the name that it is to get, it changes the file for the last
time: signs it. It returns the file that it wrote beside the name, or None. Raises OSError or a
MienError if it cannot; nothing is beside the name then."""


@contextmanager
def whole_file(path: Path, seal: Seal | None = None) -> Iterator[BinaryIO]:
    """Open a temporary neighbour of ``path`` for writing; seal and rename it when all went well.

    Whatever ends the block early, an interrupt too, removes the neighbour and leaves what was at
    ``path`` as it was. A symbolic link is written through. Raises OSError, and what ``seal`` does.
    """
    target = Path(os.path.realpath(path))
    part = target.with_name(f".mien-{secrets.token_hex(8)}.part")
    beside = None
    try:
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if seal is not None:
            beside = seal(part, path)
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        if beside is not None:
            beside.unlink(missing_ok=True)
        raise
