"""Which files are meant: names, folders, patterns and lists in, paths out."""

from __future__ import annotations

import glob
import logging
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mien.errors import InvalidOption
from mien.media.formats import READABLE
from mien.media.kinds import CLIPS, in_folders

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Found:
    """A file that was meant."""

    path: Path
    below: Path
    """Its path within the folder that was named; else its name."""


def expand(
    name: str, *, option: str, leave_out: Path | None = None, clips: bool = False
) -> list[Found]:
    """Return the pictures that ``name`` stands for: one, or those of a folder, pattern or list.

    With ``clips`` also clips that are in a folder; what else is named may be anything.

    A file that exists is itself, whatever its name. A folder stands for the pictures in it and in
    the folders below, but not hidden ones, and not those below ``leave_out``; a name with ``*``,
    ``?`` or ``[`` for what it matches (``**`` for any folders), and ``@list.txt`` for the names in
    that file, one a line, where ``@-`` is the standard input. A name of nothing that exists stands
    for itself, and is an error when it is opened. Raises InvalidOption, with ``option``, if a
    folder or pattern has no picture or a list cannot be read.
    """
    return _expand(name, option, leave_out, clips, lists=())


def _expand(
    name: str, option: str, leave_out: Path | None, clips: bool, lists: tuple[str, ...]
) -> list[Found]:
    if not name or "\0" in name:
        raise InvalidOption(option, name, "a name that a file can have")
    path = Path(name)
    if os.path.isdir(name):  # noqa: PTH112 - unlike pathlib's, it takes any name
        found = [
            Found(each, each.relative_to(path))
            for each in _pictures_below(path, option, leave_out, clips)
        ]
        if not found:
            wanted = f"a folder with pictures ({', '.join(READABLE)})"
            wanted += f" or clips ({', '.join(CLIPS)})" if clips else ""
            raise InvalidOption(option, name, wanted)
        return found
    if os.path.lexists(name):
        return [Found(path, Path(path.name))]
    if name.startswith("@"):
        if name in lists:
            raise InvalidOption(option, name, "a list that does not name itself")
        lines = _lines(name[1:], option)
        return distinct(
            each
            for line in lines
            for each in _expand(line, option, leave_out, clips, (*lists, name))
        )
    if glob.has_magic(name):
        matches = sorted(glob.glob(name, recursive=True))  # noqa: PTH207 - takes absolute ones too
        files = [Path(match) for match in matches if Path(match).is_file()]
        if not files:
            raise InvalidOption(option, name, "a pattern that some file matches")
        return [Found(each, Path(each.name)) for each in files]
    return [Found(path, Path(path.name))]


def distinct(files: Iterable[Found]) -> list[Found]:
    """Return ``files`` without those that were named before."""
    first: dict[str, Found] = {}
    for each in files:
        first.setdefault(os.path.realpath(each.path), each)
    return list(first.values())


def _pictures_below(folder: Path, option: str, leave_out: Path | None, clips: bool) -> list[Path]:
    left_out = None if leave_out is None else os.path.realpath(leave_out)
    found = []

    def missed(error: OSError) -> None:
        if error.filename == str(folder):
            raise InvalidOption(
                option, str(folder), f"a folder that can be read ({error.strerror})"
            )
        log.warning("%s cannot be read and is left out: %s.", error.filename, error.strerror)

    for place, folders, names in os.walk(folder, onerror=missed):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and os.path.realpath(os.path.join(place, name)) != left_out  # noqa: PTH118
        )
        found += [
            Path(place, name)
            for name in sorted(names)
            if not name.startswith(".") and in_folders(Path(place, name), clips=clips)
        ]
    return found


def _lines(name: str, option: str) -> list[str]:
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text("utf-8-sig")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise InvalidOption(option, f"@{name}", f"a list that can be read ({why})") from None
    if "\0" in text:
        raise InvalidOption(option, f"@{name}", "a list that is text")
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise InvalidOption(option, f"@{name}", "a list with a name in each line")
    return lines
