"""Whole files or none: output appears under its name only when it is complete."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary neighbour of ``path`` for writing, and rename it when all went well.

    Whatever ends the block early, an interrupt too, removes the neighbour and leaves what was at
    ``path`` as it was. A symbolic link is written through. Raises OSError.
    """
    target = Path(os.path.realpath(path))
    part = target.with_name(f".mien-{secrets.token_hex(8)}.part")
    try:
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
