"""Directories of tags: what EXIF data and TIFF files are made of (TIFF 6.0, section 2; EXIF 2.32).

Values stay the bytes they are: nothing that a camera or an editor wrote is understood, and so
nothing is lost. What is malformed is left out, entry by entry.
"""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass, field
from typing import BinaryIO, Literal

Order = Literal["<", ">"]

EXIF, GPS, INTEROP = 0x8769, 0x8825, 0xA005
POINTERS = (EXIF, GPS, INTEROP)
"""Tags that point to a directory of their own."""

SIZES = {
    **dict.fromkeys((1, 2, 6, 7), 1),
    **dict.fromkeys((3, 8), 2),
    **dict.fromkeys((4, 9, 11, 13), 4),
    **dict.fromkeys((5, 10, 12, 16, 17, 18), 8),
}
"""Bytes of a value, by its type: byte, ASCII, short, long, rational, and so on."""

BYTE, ASCII, SHORT, LONG, RATIONAL, UNDEFINED = 1, 2, 3, 4, 5, 7
WHOLE = {1: "B", 3: "H", 4: "I", 13: "I", 16: "Q", 18: "Q"}
"""Types of whole numbers, as struct has them."""

MOST_ENTRIES, MOST_BYTES = 4096, 1 << 26


@dataclass(frozen=True, slots=True)
class Entry:
    """The value of a tag."""

    kind: int
    """The type of its values; see SIZES."""

    data: bytes
    """The values, in the byte order of the directory."""

    @property
    def count(self) -> int:
        """How many values there are."""
        return len(self.data) // SIZES[self.kind]


@dataclass(slots=True)
class Directory:
    """Values by tag, and the directories that some tags point to."""

    order: Order
    """'<' for little endian, '>' for big endian."""

    entries: dict[int, Entry] = field(default_factory=dict)
    below: dict[int, Directory] = field(default_factory=dict)
    following: int = 0
    """Where the next directory of the file is; 0 for nowhere."""

    def whole(self, tag: int) -> tuple[int, ...]:
        """Return the whole numbers of ``tag``; none if it is not there or holds something else."""
        entry = self.entries.get(tag)
        if entry is None or entry.kind not in WHOLE:
            return ()
        return struct.unpack(f"{self.order}{entry.count}{WHOLE[entry.kind]}", entry.data)

    def rational(self, tag: int) -> float | None:
        """Return the first fraction of ``tag``, or None."""
        entry = self.entries.get(tag)
        if entry is None or entry.kind != RATIONAL or not entry.data:
            return None
        above, under = struct.unpack_from(f"{self.order}II", entry.data)
        return above / under if under else None

    def put(self, tag: int, kind: int, *values: int) -> None:
        """Set ``tag`` to whole numbers, or to pairs of them that are fractions."""
        letter = "I" if kind == RATIONAL else WHOLE[kind]
        self.entries[tag] = Entry(kind, struct.pack(f"{self.order}{len(values)}{letter}", *values))


def read_tags(file: BinaryIO) -> Directory:
    """Return the first directory of a TIFF file, or of EXIF data without their prefix.

    Raises ValueError if there is none.
    """
    file.seek(0)
    head = file.read(16)
    orders: dict[bytes, Order] = {b"II": "<", b"MM": ">"}
    order = orders.get(head[:2])
    if order is None or len(head) < 8:
        raise ValueError("it does not begin as TIFF data do")
    (magic,) = struct.unpack(f"{order}H", head[2:4])
    if magic == 42:
        (at,) = struct.unpack(f"{order}I", head[4:8])
    elif magic == 43 and len(head) == 16:
        (at,) = struct.unpack(f"{order}Q", head[8:16])
    else:
        raise ValueError("it does not begin as TIFF data do")
    # values that lie on each other would make much of little: none are read beyond the file's size
    budget = [file.seek(0, io.SEEK_END)]
    directory = _read(file, order, at, budget, big=magic == 43, depth=2)
    if directory is None:
        raise ValueError("its first directory is not there")
    return directory


def _read(
    file: BinaryIO, order: Order, at: int, budget: list[int], *, big: bool, depth: int
) -> Directory | None:
    counting, entry_size, inline = ("Q", 20, 8) if big else ("H", 12, 4)
    pointer = "Q" if big else "I"
    width = struct.calcsize(counting)
    table = _bytes(file, at, width)
    if len(table) < width:
        return None
    count = min(struct.unpack(f"{order}{counting}", table)[0], MOST_ENTRIES)
    rows = _bytes(file, at + width, count * entry_size)
    directory = Directory(order)
    for start in range(0, len(rows) - entry_size + 1, entry_size):
        tag, kind, number = struct.unpack_from(f"{order}HH{pointer}", rows, start)
        if kind not in SIZES or number * SIZES[kind] > MOST_BYTES:
            continue
        size = number * SIZES[kind]
        field_at = start + entry_size - inline
        data = rows[field_at : field_at + min(size, inline)]
        if size > inline:
            if size > budget[0]:
                continue
            budget[0] -= size
            data = _bytes(file, struct.unpack_from(f"{order}{pointer}", rows, field_at)[0], size)
        if len(data) < size:
            continue
        entry = Entry(kind, data)
        if tag in POINTERS:
            target = Directory(order, {tag: entry}).whole(tag)
            if len(target) == 1 and depth:
                found = _read(file, order, target[0], budget, big=big, depth=depth - 1)
                if found is not None:
                    directory.below[tag] = found
        else:
            directory.entries[tag] = entry
    end = _bytes(file, at + width + count * entry_size, inline)
    if len(end) == inline:
        (directory.following,) = struct.unpack(f"{order}{pointer}", end)
    return directory


def _bytes(file: BinaryIO, at: int, size: int) -> bytes:
    if at < 0 or at >= 1 << 62:
        return b""
    file.seek(at)
    return file.read(size)


def directory_bytes(directory: Directory, at: int) -> bytes:
    """Return ``directory`` and those below it as they stand in a file from the byte ``at``.

    ``at`` is even. The next directory is nowhere.
    """
    order = directory.order
    pointers = {tag: Entry(LONG, b"\0" * 4) for tag in directory.below}
    entries = sorted({**directory.entries, **pointers}.items())
    rows, values = bytearray(), bytearray()
    after = at + 2 + 12 * len(entries) + 4
    for tag, entry in entries:
        data = entry.data
        if tag in directory.below:
            place = after + len(values)
            values += directory_bytes(directory.below[tag], place)
            data = struct.pack(f"{order}I", place)
        elif len(data) > 4:
            place = after + len(values)
            values += data
            data = struct.pack(f"{order}I", place)
        values += b"\0" * (len(values) % 2)
        rows += struct.pack(f"{order}HHI", tag, entry.kind, entry.count) + data.ljust(4, b"\0")
    return struct.pack(f"{order}H", len(entries)) + bytes(rows) + b"\0" * 4 + bytes(values)


def header(order: Order, at: int) -> bytes:
    """Return the eight bytes before TIFF data whose first directory is at the byte ``at``."""
    return (b"II" if order == "<" else b"MM") + struct.pack(f"{order}HI", 42, at)


def exif_bytes(directory: Directory) -> bytes:
    """Return EXIF data, with their prefix; nothing if the directory is empty."""
    if not directory.entries and not directory.below:
        return b""
    return b"Exif\0\0" + header(directory.order, 8) + directory_bytes(directory, 8)


def read_exif(data: bytes) -> Directory:
    """Return the directory of EXIF data, with or without their prefix. Raises ValueError."""
    return read_tags(io.BytesIO(data.removeprefix(b"Exif\0\0")))
