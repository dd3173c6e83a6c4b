"""Claims: while one run of mien makes a file, no other one does."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from mien.errors import PictureUnwritable


@contextmanager
def claim(path: Path) -> Iterator[None]:
    """Hold ``path`` for the block, against other runs of mien on this machine.

    Raises PictureUnwritable if another one holds it. Claims are locks in the folder for temporary
    files, so that nothing is left beside the output, and the system drops them if a run dies.
    """
    digest = hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()
    lock = None
    try:
        lock = FileLock(_folder() / f"{digest}.lock", timeout=0, thread_local=False)
        lock.acquire()
        while not os.path.exists(lock.lock_file):  # noqa: PTH110 - whoever held it took it away
            lock.release()
            lock.acquire()
    except Timeout:
        raise PictureUnwritable(
            f"{path} is being written by another run of mien. Wait for it, or name another file.",
            path=path,
        ) from None
    except OSError:  # without a place for locks, files still appear whole or not at all
        lock = None
    try:
        yield
    finally:
        if lock is not None:
            with suppress(OSError):  # on Windows a file that is open stays
                os.unlink(lock.lock_file)  # noqa: PTH108
            lock.release()


def _folder() -> Path:
    user = os.getuid() if hasattr(os, "getuid") else "all"
    folder = Path(tempfile.gettempdir()) / f"mien-locks-{user}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder
