"""Marking: a clip says that it is synthetic, in words that its container holds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mien.errors import ClipUnwritable
from mien.media.atomic import whole_file
from mien.media.clip.writer import explained_writing
from mien.safety import SYNTHETIC, statement, xmp_packet
from mien.version import __version__

OWN = b"urn:mien:"
"""What a packet of mien's has in it."""

MADE = re.compile(
    r"CreatorTool=mien (?P<version>[^;]*); urn:mien:1\.0:consent=(?P<consents>[^;]*); "
    r"urn:mien:1\.0:model=(?P<model>\S*)"
)
"""What a mark says, as ``statement`` puts it into words."""

UNTOLD = (".ts", ".m2ts", ".mts")
"""Suffixes of files that hold no metadata: their mark is a file beside them, as a BMP's."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What a clip says of how it was made."""

    tags: Mapping[str, str]
    """Metadata of the container."""

    xmp: bytes
    """The same, as pictures say it."""

    before: bytes | None = None
    """What the input's own words say of that, in the same form; None if mien did not make it."""

    def of(self, source: Path) -> bytes | None:
        """Return the mark that ``source`` has already, in it or beside it; None if it has none."""
        beside = self.beside(source)
        if beside is not None:
            with suppress(OSError):
                packet = beside.read_bytes()
                if OWN in packet:
                    return packet
        return self.before

    def take_away(self, output: Path) -> None:
        """Delete a mark beside ``output`` that is an earlier output's. Raises ClipUnwritable."""
        path = self.beside(output)
        if path is None:
            return
        with explained_writing(path):
            if path.is_file() and OWN in path.read_bytes():
                path.unlink()

    def beside(self, output: Path) -> Path | None:
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


def mark_for(metadata: Mapping[str, str], *, consents: tuple[str, ...], model: str) -> Mark:
    """Return the mark of a clip made with ``model`` and the records ``consents``.

    ``metadata`` are those of the input: its comment stays, before the mark.
    """
    ours = statement(consents=consents, model=model, version=__version__)
    key = next((key for key in metadata if key.lower() == "comment"), "comment")
    comment = metadata.get(key, "")
    made = MADE.search(comment)
    before = None
    if made is not None:
        given = tuple(made["consents"].split(", ")) if made["consents"] else ()
        before = xmp_packet(consents=given, model=made["model"], version=made["version"])
    if "urn:mien:" in comment:  # mien made the input: the new mark takes the place of its own
        comment = comment.partition(SYNTHETIC)[0]
    said = f"{comment.strip()}\n{ours}" if comment.strip() else ours
    packet = xmp_packet(consents=consents, model=model, version=__version__)
    return Mark({key: said}, packet, before)
