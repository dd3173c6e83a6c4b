"""Marking: a clip says that it is synthetic, in words that its container holds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict
from uuid import uuid4

from mien.errors import ClipUnwritable
from mien.media.atomic import whole_file
from mien.media.clip.writer import explained_writing
from mien.safety import AIGC, SYNTHETIC, aigc_label, statement, xmp_packet
from mien.safety.marks import PRODUCED
from mien.version import __version__

OWN = b"urn:mien:"
"""What a packet of mien's has in it."""

MADE = re.compile(
    r"CreatorTool=mien (?P<version>[^;]*); urn:mien:1\.0:consent=(?P<consents>[^;]*); "
    r"urn:mien:1\.0:model=(?P<model>\S*)"
)
"""What a mark says, as ``statement`` puts it into words."""

PACKED = re.compile(
    r'CreatorTool="mien (?P<version>[^"]*)".*?mien:consent="(?P<consents>[^"]*)"'
    r'.*?mien:model="(?P<model>[^"]*)"',
    re.DOTALL,
)
"""The same in ``xmp_packet``."""

UNTOLD = (".ts", ".m2ts", ".mts")
"""Suffixes of files that hold no metadata: their mark is a file beside them, as a BMP's."""


class Made(TypedDict):
    """What a mark says."""

    consents: list[str]
    model: str
    version: str


@dataclass(frozen=True, slots=True)
class Mark:
    """What a clip says of how it was made."""

    tags: Mapping[str, str]
    """Metadata of the container."""

    xmp: bytes
    """The same, as pictures say it."""

    before: bytes | None = None
    """The mark that the input has already, in it or beside it; None if mien did not make it."""

    tags_before: Mapping[str, str] = field(default_factory=dict)
    """Metadata that say what the mark beside the input says; empty if there is none."""

    def take_away(self, output: Path) -> None:
        """Delete a mark beside ``output`` that is an earlier output's. Raises ClipUnwritable."""
        path = self.beside(output)
        if path is None:
            return
        with explained_writing(path):
            if path.is_file() and OWN in path.read_bytes():
                path.unlink()

    @staticmethod
    def beside(output: Path) -> Path | None:
        """Return the file for the mark of ``output`` if that holds none; None if it does."""
        if output.suffix.lower() not in UNTOLD:
            return None
        return output.with_name(f"{output.name}.xmp")

    def write(self, path: Path, packet: bytes) -> None:
        """Write a mark into a file of its own. Raises ClipUnwritable."""
        with explained_writing(path):
            if path.exists() and OWN not in path.read_bytes():
                raise ClipUnwritable(
                    f"{path} is there, and not from mien; name another clip.", path=path
                )
            with whole_file(path) as file:
                file.write(packet)


def mark_for(
    source: Path,
    metadata: Mapping[str, str],
    *,
    consents: tuple[str, ...],
    model: str,
    produced: str | None = None,
) -> Mark:
    """Return the mark of a clip made with ``model`` and the records ``consents``.

    ``source`` is the input, and ``metadata`` its own: its comment stays, before the mark.
    ``produced`` is the clip's id in the label of GB 45438-2025; a new one, unless it is given.
    """
    produced = produced or uuid4().hex
    ours = statement(consents=consents, model=model, version=__version__)
    key = next((key for key in metadata if key.lower() == "comment"), "comment")
    comment = metadata.get(key, "")
    before, words = None, {}
    if (made := MADE.search(comment)) is not None:
        before = xmp_packet(**_made(made), produced=_produced(metadata.get(AIGC, "")))
    path = Mark.beside(source)
    if path is not None:
        with suppress(OSError):
            beside = path.read_bytes()
            if OWN in beside:
                before = beside
                packed = beside.decode(errors="replace")
                if (made := PACKED.search(packed)) is not None:
                    label = aigc_label(version=made["version"], produced=_produced(packed))
                    words = {key: statement(**_made(made)), AIGC: label}
    if "urn:mien:" in comment:  # mien made the input: the new mark takes the place of its own
        comment = comment.partition(SYNTHETIC)[0]
    said = f"{comment.strip()}\n{ours}" if comment.strip() else ours
    label = aigc_label(version=__version__, produced=produced)
    packet = xmp_packet(consents=consents, model=model, version=__version__, produced=produced)
    return Mark({key: said, AIGC: label}, packet, before, words)


def _produced(text: str) -> str | None:
    found = re.search(PRODUCED, text)
    return None if found is None else found[1]


def _made(found: re.Match[str]) -> Made:
    consents = found["consents"].split(", ") if found["consents"] else []
    return {"consents": consents, "model": found["model"], "version": found["version"]}
