"""Who replaces whom, as people write it down: ``alice.jpg=bob.jpg``, or a small file for many."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from mien.errors import InvalidOption

SUFFIXES = (".toml", ".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Pair:
    """One person's pictures, and those of the person who is replaced."""

    source: tuple[Path, ...]
    target: tuple[Path, ...]
    consent: str | None = None
    """A statement for the source that the file has."""


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    source: str | list[str]
    target: str | list[str]
    consent: str | None = None


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    map: list[_Row]


def read_pairs(text: str) -> list[Pair]:
    """Return the pair that ``text`` is, or those in the file that it names.

    A pair is 'SOURCE=TARGET'; where names have an equals sign too, the files that exist decide. A
    file ends with .toml, .yaml or .yml and holds a list ``map`` of tables with ``source`` and
    ``target``, each a picture or a list of pictures of one person, and if need be ``consent``, a
    statement for the source. Its paths are relative to its folder. Raises InvalidOption.
    """
    file = Path(text).suffix.lower() in SUFFIXES
    if file and ("=" not in text or os.path.exists(text)):  # noqa: PTH110 - takes any name
        return _from_file(Path(text))
    cuts = [i for i, letter in enumerate(text) if letter == "="]
    splits = [(Path(text[:i]), Path(text[i + 1 :])) for i in cuts if text[:i] and text[i + 1 :]]
    if not splits:
        allowed = "SOURCE=TARGET, two pictures, or a file that ends with " + ", ".join(SUFFIXES)
        raise InvalidOption("map", text, allowed)
    there = (split for split in splits if all(map(os.path.exists, split)))
    source, target = next(there, splits[0])
    return [Pair((source,), (target,))]


def _from_file(path: Path) -> list[Pair]:
    try:
        text = path.read_text("utf-8-sig")
        parsed: Any = tomllib.loads(text) if path.suffix.lower() == ".toml" else _yaml(text)
    except (OSError, ValueError, RecursionError) as error:
        why = getattr(error, "strerror", None) or error
        raise InvalidOption("map", str(path), f"a file that can be read ({why})") from None
    try:
        rows = _Table.model_validate(parsed).map
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        allowed = f"a list 'map' of tables with source and target ({where}: {first['msg']})"
        raise InvalidOption("map", str(path), allowed) from None
    pairs = [
        Pair(_paths(path.parent, row.source), _paths(path.parent, row.target), row.consent)
        for row in rows
    ]
    if not pairs or not all(pair.source and pair.target for pair in pairs):
        raise InvalidOption("map", str(path), "at least one picture for every source and target")
    return pairs


def _yaml(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None


def _paths(folder: Path, names: str | list[str]) -> tuple[Path, ...]:
    several = [names] if isinstance(names, str) else names
    if not all(several):
        return ()
    # unlike pathlib's, this leaves an unknown ~user as it is
    return tuple(folder / os.path.expanduser(name) for name in several)  # noqa: PTH111
