"""Watermarks in files: which mark, if any, the pixels of a picture or a clip carry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from mien.engines import OnnxEngine
from mien.errors import MienError
from mien.media import in_srgb, read_picture
from mien.media.clip import Clip
from mien.models import Catalogue, WatermarkContract
from mien.safety import AuditLog
from mien.safety.verify import Finding, Manifest
from mien.safety.watermark import Finder, Found, identifier

WATERMARK = "mien-watermark"
"""The network that sees marks."""

PLACES, RUN = 4, 3
"""At how many places of a clip it is looked at, and how many frames there: codecs leave more of a
mark in some frames than in others."""


def shipped(threads: int | None = None) -> Callable[[Tensor], Tensor]:
    """Return the extractor that ships, on the CPU: see ``Finder``.

    Raises WeightsMissing, WeightsCorrupt, EngineError.
    """
    card = Catalogue().card(WATERMARK, "watermark")
    contract = card.contract
    assert isinstance(contract, WatermarkContract)
    engine = OnnxEngine(WATERMARK, card.read, threads=threads)

    def extract(y: Tensor) -> Tensor:
        return engine({contract.input: y})[contract.output]

    return extract


@lru_cache(maxsize=1)
def finder() -> Finder:
    """Return what finds marks. Raises as ``shipped`` does."""
    return Finder(shipped())


def watermark_in(path: Path) -> Found | None:
    """Return the mark in a picture or clip, or None. Raises PictureUnreadable, ClipUnreadable."""
    try:
        frames: Iterator[Tensor] = _frames_of_picture(path)
        first = next(frames)
    except MienError as error:
        try:
            clip = Clip(path)
        except MienError:
            raise error from None
        return finder()(_frames_of_clip(clip))
    return finder()([first, *frames])


def _frames_of_picture(path: Path) -> Iterator[Tensor]:
    picture = read_picture(path)
    step = max(1, len(picture.frames) // PLACES)
    for frame in picture.frames[::step][:PLACES]:
        yield torch.from_numpy(in_srgb(picture, frame))


def _frames_of_clip(clip: Clip) -> Iterator[Tensor]:
    start, length = clip.info.start or Fraction(0), clip.info.duration or Fraction(0)
    size: torch.Size | None = None
    for place in range(PLACES):
        begin = start + length * place / PLACES
        with closing(clip.frames(start=begin)) as frames:
            for number, stored in enumerate(frames):
                pixels = stored.picture().view
                size = size or pixels.shape
                if number == RUN or pixels.shape != size:
                    break
                yield pixels


@dataclass(frozen=True, slots=True)
class WatermarkLooker:
    """Looks for a watermark in a file that is to be verified; see ``safety.verify.Looker``."""

    audit: AuditLog | None = None
    """A log that may tell when a file with the mark was written."""

    def __call__(self, path: Path, manifest: Manifest | None) -> Finding | None:
        """Return what the watermark says, if there is one."""
        try:
            found = watermark_in(path)
        except MienError:  # what is no picture or clip, or is too large, shows none
            return None
        if found is None:
            return None
        own = f"{found.identifier:012x}"
        text = f"its pixels carry a watermark of mien's, {own}{_told(found)}: " + _belongs(
            found.identifier, manifest
        )
        line = None if self.audit is None else self.audit.written(own)
        if line is not None:
            records = ", ".join(line.get("records") or ()) or "none"
            text += (
                f"; this machine's log says that it wrote a file with that mark at {line['time']}, "
                f"consent records: {records}"
            )
        return Finding("watermark", False, text, {**asdict(found), "identifier": own})


def _told(found: Found) -> str:
    """Return what was done to the picture since it was marked."""
    said = []
    if found.mirrored:
        said.append("mirrored")
    if abs(found.turn) >= 0.3:
        said.append(f"turned by {found.turn:.1f} degrees")
    if abs(found.size - 1) >= 0.02:
        said.append(f"{found.size:.0%} of the shorter side is left")
    return f" ({', '.join(said)})" if said else ""


def _belongs(number: int, manifest: Manifest | None) -> str:
    if manifest is None or not manifest.produced:
        return "a network made parts of it"
    if identifier(manifest.produced) == number:
        return "that of its manifest"
    return "not that of its manifest, so one of the two is another file's"
