"""Marking: a clip says that it is synthetic, in words that its container holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mien.errors import ClipUnwritable
from mien.media.atomic import whole_file
from mien.media.clip.writer import explained_writing
from mien.safety import SYNTHETIC, statement, xmp_packet
from mien.version import __version__

OWN = b"urn:mien:"
"""What a packet of mien's has in it."""

UNTOLD = (".ts", ".m2ts", ".mts")
"""Suffixes of files that hold no metadata: their mark is a file beside them, as a BMP's."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What a clip says of how it was made."""

    tags: Mapping[str, str]
    """Metadata of the container."""

    xmp: bytes
    """The same, as pictures say it."""

    @staticmethod
    def copy_beside(source: Path, output: Path) -> None:
        """Let the mark beside ``output``, which is a copy, be that of ``source``, or none."""
        if output.suffix.lower() not in UNTOLD:
            return
        theirs, ours = (path.with_name(f"{path.name}.xmp") for path in (source, output))
        with explained_writing(ours):
            if source.suffix.lower() in UNTOLD and theirs.is_file():
                with whole_file(ours) as file:
                    file.write(theirs.read_bytes())
            else:
                ours.unlink(missing_ok=True)

    def beside(self, output: Path) -> Path | None:
        """Return the file for the mark of ``output`` if that holds none; None if it does."""
        if output.suffix.lower() not in UNTOLD:
            return None
        return output.with_name(f"{output.name}.xmp")

    def write(self, path: Path) -> None:
        """Write the mark into a file of its own. Raises ClipUnwritable."""
        with explained_writing(path):
            if path.exists() and OWN not in path.read_bytes():
                raise ClipUnwritable(
                    f"{path} is there, and not from mien; name another clip.", path=path
                )
            with whole_file(path) as file:
                file.write(self.xmp)


def mark_for(metadata: Mapping[str, str], *, consents: tuple[str, ...], model: str) -> Mark:
    """Return the mark of a clip made with ``model`` and the records ``consents``.

    ``metadata`` are those of the input: its comment stays, before the mark.
    """
    ours = statement(consents=consents, model=model, version=__version__)
    key = next((key for key in metadata if key.lower() == "comment"), "comment")
    comment = metadata.get(key, "")
    if "urn:mien:" in comment:  # mien made the input: the new mark takes the place of its own
        comment = comment.partition(SYNTHETIC)[0]
    said = f"{comment.strip()}\n{ours}" if comment.strip() else ours
    packet = xmp_packet(consents=consents, model=model, version=__version__)
    return Mark({key: said}, packet)
