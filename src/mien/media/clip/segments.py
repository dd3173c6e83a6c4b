"""Segments: finished pieces of a clip, kept beside the output so that work can be taken up.

A work folder holds a manifest and one file a segment. A segment is the packets of one run of the
encoder, in the order of decoding, and the times they are shown at. It starts with a key frame and
refers to nothing outside, so segments are joined by writing their packets one after the other.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO

from mien.errors import ClipUnwritable
from mien.media.atomic import whole_file

VERSION = 1
HEAD = struct.Struct("<qq?I")
"""Of a packet: when it is shown, for how long, whether it is a key frame, its bytes."""

BLOCK = 1 << 16
BLOCKS = 64


@dataclass(frozen=True, slots=True)
class Packet:
    """An encoded frame. Times are counts of the output's unit."""

    shown: int
    duration: int
    key: bool
    data: bytes


@dataclass(frozen=True, slots=True)
class Finished:
    """A segment that is whole."""

    file: str
    frames: int
    first: str
    """When its first frame is shown, as the input counts: a fraction of seconds."""

    last: str
    """When its last frame is shown."""

    end: str
    """When that ends."""

    origin: str
    """The input's time that is zero in the output, also a fraction of seconds."""

    sha256: str


class Work:
    """The work folder of one output.

    ``recipe`` is everything that decides what comes out; a folder with another one is started
    afresh. Raises ClipUnwritable if the folder cannot be used.
    """

    def __init__(self, folder: Path, recipe: Mapping[str, Any]) -> None:
        self.folder = folder
        self._recipe = json.loads(json.dumps(dict(recipe), sort_keys=True, default=str))
        self.segments: list[Finished] = []
        self._open: _Growing | None = None
        try:
            folder.mkdir(exist_ok=True)
            self.segments = self._found()
            kept = {segment.file for segment in self.segments}
            for path in (*folder.glob("segment-*"), *folder.glob(".mien-*.part")):
                if path.name not in kept:
                    path.unlink()
            self._save()
        except OSError as error:
            raise ClipUnwritable(
                f"The work folder {folder} cannot be used: {error.strerror}.", path=folder
            ) from None

    @property
    def frames(self) -> int:
        """How many frames are finished."""
        return sum(segment.frames for segment in self.segments)

    def add(self, packets: list[Packet]) -> None:
        """Put packets of the segment that is being made into its file."""
        if self._open is None:
            self._open = _Growing(self.folder / f"segment-{len(self.segments):06d}")
        self._open.add(packets)

    def finish(
        self, *, frames: int, span: tuple[Fraction, Fraction, Fraction], origin: Fraction
    ) -> None:
        """Close the segment that is being made; from here on it survives a crash.

        ``span`` is when its first and last frame are shown and when the last ends.
        """
        if self._open is None:
            return
        segment, self._open = self._open, None
        segment.close()
        name, digest = segment.path.name, segment.digest.hexdigest()
        first, last, end = map(str, span)
        self.segments.append(Finished(name, frames, first, last, end, str(origin), digest))
        self._save()

    def abandon(self) -> None:
        """Forget the segment that is being made; keep those that are finished."""
        if self._open is not None:
            self._open.abandon()
            self._open = None

    def packets(self) -> Iterator[list[Packet]]:
        """Yield the packets of every finished segment. Raises ClipUnwritable for a damaged one."""
        for segment in self.segments:
            yield list(_read(self.folder / segment.file))

    def remove(self) -> None:
        """Delete the folder, but not what somebody else put there."""
        self.abandon()
        for segment in self.segments:
            with suppress(OSError):
                (self.folder / segment.file).unlink(missing_ok=True)
        with suppress(OSError):
            (self.folder / "manifest.json").unlink(missing_ok=True)
            self.folder.rmdir()

    def _found(self) -> list[Finished]:
        """Return the segments of an earlier run with the same recipe that are as they were."""
        try:
            manifest = json.loads((self.folder / "manifest.json").read_text("utf-8"))
            if manifest["version"] != VERSION or manifest["recipe"] != self._recipe:
                return []
            segments = [Finished(**segment) for segment in manifest["segments"]]
            for number, each in enumerate(segments):
                if each.file != f"segment-{number:06d}" or not isinstance(each.frames, int):
                    return []
                _ = [Fraction(time) for time in (each.first, each.last, each.end, each.origin)]
        except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError):
            return []
        sound: list[Finished] = []
        for segment in segments:
            try:
                with (self.folder / segment.file).open("rb") as file:
                    if hashlib.file_digest(file, "sha256").hexdigest() != segment.sha256:
                        break
            except OSError:
                break
            sound.append(segment)
        return sound

    def _save(self) -> None:
        manifest = {
            "version": VERSION,
            "recipe": self._recipe,
            "segments": [asdict(segment) for segment in self.segments],
        }
        with whole_file(self.folder / "manifest.json") as file:
            file.write(json.dumps(manifest, indent=1).encode())


class _Growing:
    """The file of a segment that is being made; it has its name once it is whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.digest = hashlib.sha256()
        self._stack = ExitStack()
        self._file: BinaryIO = self._stack.enter_context(whole_file(path))

    def add(self, packets: list[Packet]) -> None:
        for packet in packets:
            head = HEAD.pack(packet.shown, packet.duration, packet.key, len(packet.data))
            for part in (head, packet.data):
                self.digest.update(part)
                self._file.write(part)

    def close(self) -> None:
        self._stack.close()

    def abandon(self) -> None:
        with suppress(_Abandoned):
            self._stack.__exit__(_Abandoned, _Abandoned(), None)


class _Abandoned(Exception):
    """Ends the writing of a file that nobody wants any more."""


def _read(path: Path) -> Iterator[Packet]:
    with path.open("rb") as file:
        while head := file.read(HEAD.size):
            shown, duration, key, size = HEAD.unpack(head)
            data = file.read(size)
            if len(data) < size:
                raise ClipUnwritable(f"The segment {path} is damaged; delete it.", path=path)
            yield Packet(shown, duration, key, data)


def digest_of(path: Path) -> str:
    """Return what tells the file at ``path`` from others: a sha256 of its size and samples of it.

    64 blocks of 64 KiB, evenly spread and the last one among them, stand for the whole, which may
    take minutes to read.
    """
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        for number in range(BLOCKS):
            file.seek(max(size - BLOCK, 0) * number // (BLOCKS - 1))
            digest.update(file.read(BLOCK))
    return digest.hexdigest()


def free_bytes(folder: Path) -> int | None:
    """Return how many bytes the disk of ``folder`` has free; None if that is unknown."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None
