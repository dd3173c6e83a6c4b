"""The protected gallery: people who must not be swapped, neither onto another nor from one.

It is a file beside the consent records, with a label and an embedding for each picture; no picture
is kept. Embeddings are biometric data: the file is its owner's alone, and nothing of it is logged.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from mien.errors import GalleryUnusable, InvalidOption
from mien.safety.audit import AuditLog
from mien.safety.keys import WAIT, Key, home, write_whole

SPACE = "sface"
"""The network that makes the embeddings."""

FORMAT = "mien protected 1"


@dataclass(frozen=True, slots=True, repr=False)
class Protected:
    """One picture of somebody who must not be swapped."""

    label: str
    """What they are called in messages."""

    face: tuple[float, ...]
    """The embedding, of unit length."""


class Gallery:
    """The gallery in ``folder``: the one named by MIEN_HOME, or else the user's data folder.

    It is made by the first ``add``; a file that is not there is a gallery of nobody. Methods raise
    GalleryUnusable if the file is damaged or cannot be read or written.
    """

    def __init__(self, folder: Path | None = None) -> None:
        folder = folder or home()
        self.path = folder / "protected.json"
        self.audit = AuditLog(folder / "audit", Key(folder / "signing.pem"))
        self._known: tuple[tuple[int, int, int], tuple[Protected, ...]] | None = None

    def all(self) -> tuple[Protected, ...]:
        """Return all entries, the oldest first. Cheap while the file does not change.

        The same tuple is returned until it does.
        """
        try:
            found = os.stat(self.path)  # noqa: PTH116 - a microsecond, for each frame
        except FileNotFoundError:
            self._known = None
            return ()
        except OSError as error:
            raise GalleryUnusable(self.path, error.strerror or str(error)) from error
        state = (found.st_mtime_ns, found.st_size, found.st_ino)
        known = self._known
        if known is None or known[0] != state:
            known = self._known = (state, self._read())
        return known[1]

    def add(self, people: Sequence[Protected]) -> int:
        """Add ``people``, and return how many were not there before. Raises AuditUnwritable."""
        with self._locked():
            before = self.all()
            new = [one for one in dict.fromkeys(people) if one not in before]
            if new:
                self._write([*before, *new])
                self.audit.append("protected.added", entries=len(new))
        return len(new)

    def remove(self, label: str) -> int:
        """Remove all entries of ``label``, and return how many they were.

        It is logged before it is done. Raises InvalidOption if there is none, AuditUnwritable.
        """
        with self._locked():
            before = self.all()
            kept = [one for one in before if one.label != label]
            if len(kept) == len(before):
                raise InvalidOption("LABEL", label, "one that 'mien protect list' shows")
            self.audit.append("protected.removed", entries=len(before) - len(kept))
            self._write(kept)
        return len(before) - len(kept)

    def _read(self) -> tuple[Protected, ...]:
        try:
            content = json.loads(self.path.read_bytes())
            if (content["format"], content["space"]) != (FORMAT, SPACE):
                raise ValueError("it is of another version of mien")
            people = tuple(
                Protected(str(o["label"]), _unpacked(o["face"])) for o in content["people"]
            )
        except OSError as error:
            raise GalleryUnusable(self.path, error.strerror or str(error)) from error
        except (ValueError, KeyError, TypeError) as error:
            raise GalleryUnusable(self.path, f"it is damaged ({error})") from None
        if len({len(one.face) for one in people}) > 1:
            raise GalleryUnusable(self.path, "it is damaged (embeddings differ in length)")
        return people

    def _write(self, people: Sequence[Protected]) -> None:
        content = {
            "format": FORMAT,
            "space": SPACE,
            "people": [{"label": one.label, "face": _packed(one.face)} for one in people],
        }
        try:
            write_whole(self.path, json.dumps(content, indent=1).encode())
        except OSError as error:
            raise GalleryUnusable(self.path, error.strerror or str(error)) from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        from filelock import FileLock

        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = FileLock(self.path.with_suffix(".lock"), timeout=WAIT, mode=0o600)
            lock.acquire()
        except OSError as error:
            raise GalleryUnusable(self.path, error.strerror or str(error)) from error
        try:
            yield
        finally:
            lock.release()


def _packed(face: Sequence[float]) -> str:
    """Return an embedding as base64 of float32, little-endian."""
    numbers = array("f", face)
    if sys.byteorder == "big":
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode()


def _unpacked(text: str) -> tuple[float, ...]:
    """Return the embedding that ``_packed`` made a text of. Raises ValueError."""
    numbers = array("f")
    numbers.frombytes(base64.b64decode(text, validate=True))
    if sys.byteorder == "big":
        numbers.byteswap()
    if not numbers or not all(map(isfinite, numbers)):
        raise ValueError("an embedding is not one")
    return tuple(numbers)
