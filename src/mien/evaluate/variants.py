"""What is evaluated, and the controls beside it: each makes a picture of a source and a target.

Without controls a number says nothing. The untouched target is the floor of identity and perfect
in all else; the source pasted by its landmarks is near the ceiling of identity, with the wrong pose
and expression; a face put on itself shows what the network costs when there is nothing to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from mien.errors import InvalidOption, PictureUnreadable
from mien.evaluate.people import Portrait
from mien.evaluate.pixels import SIZE, TEMPLATE
from mien.evaluate.protocol import Pair
from mien.geometry import apply, cut, fit_similarity, paste, template
from mien.media import READABLE, read_picture
from mien.models import Catalogue
from mien.stages.color import match_color
from mien.stages.mask import face_mask
from mien.swapper import Swapper
from mien.types import Faces, Identity

CONTROLS = ("untouched", "pasted", "itself")
SEPARATOR = "__"
"""Between the names of source and target in the name of a result."""


class Subject(Protocol):
    """What is evaluated."""

    @property
    def name(self) -> str:
        """What it is called in the report."""
        ...

    @property
    def makes(self) -> bool:
        """Whether it can make any pair, and not only those that are there."""
        ...

    def account(self) -> dict[str, Any]:
        """Return what it is, ready for JSON."""
        ...

    def consents(self) -> Sequence[str]:
        """Return the ids of the consent records by which it used faces."""
        ...

    def __call__(self, source: Portrait, target: Portrait, pair: Pair) -> Tensor:
        """Return ``target`` with the face of ``source``, uint8 (H, W, 3) in sRGB."""
        ...


@dataclass(eq=False)
class Model:
    """A swap network of the catalogue, in mien's own pipeline."""

    swapper: Swapper
    consent: str | None
    """The statement for all pictures that serve as sources; see Swapper.identity."""

    catalogue: Catalogue
    makes: bool = True
    _identities: dict[Path, Identity] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The network's name."""
        return self.swapper.model

    def account(self) -> dict[str, Any]:
        """Return the network's name and hash."""
        card = self.catalogue.card(self.name, "swapper")
        return {"model": card.name, "sha256": card.sha256, "licence": card.licence}

    def consents(self) -> list[str]:
        """Return the ids of the records of all sources, each once."""
        return list(dict.fromkeys(one.consent for one in self._identities.values()))

    def __call__(self, source: Portrait, target: Portrait, pair: Pair) -> Tensor:
        """Return the swapped picture; raises what Swapper.identity and Swapper.swap raise."""
        del pair
        result = self.swapper.swap(target.path, self.identity(source))
        return torch.from_numpy(result.pixels)

    def identity(self, source: Portrait) -> Identity:
        """Return who ``source`` is, asking for consent once."""
        if source.path not in self._identities:
            made = self.swapper.identity(source.path, consent=self.consent)
            self._identities[source.path] = made
        return self._identities[source.path]


@dataclass(frozen=True, slots=True)
class Results:
    """A folder of pictures that some program made."""

    folder: Path
    makes: bool = False

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.resolve().name

    def account(self) -> dict[str, Any]:
        """Return the folder's name."""
        return {"results": self.name}

    def consents(self) -> tuple[str, ...]:
        """Return nothing: the consent to these pictures is not mien's to record."""
        return ()

    def listed(self) -> list[tuple[str, str, Path | None]]:
        """Return source, target and file of each picture called SOURCE__TARGET."""
        found: list[tuple[str, str, Path | None]] = []
        for path in sorted(self.folder.glob(f"*{SEPARATOR}*")):
            if path.suffix.lower() in READABLE:
                source, _, target = path.stem.partition(SEPARATOR)
                found.append((source, target, path))
        if not found:
            raise InvalidOption("results", str(self.folder), "a folder of SOURCE__TARGET pictures")
        return found

    def __call__(self, source: Portrait, target: Portrait, pair: Pair) -> Tensor:
        """Return the picture that was made; raises PictureUnreadable."""
        del source, target
        assert pair.result is not None  # listed with its file
        return read_picture(pair.result).frame.view


def check_size(after: Tensor, before: Tensor, name: str) -> Tensor:
    """Return ``after``; raises PictureUnreadable if it is not of the size of ``before``."""
    if after.shape != before.shape:
        sizes = [f"{one.shape[1]} x {one.shape[0]}" for one in (after, before)]
        raise PictureUnreadable(f"{name} has {sizes[0]} pixels, and its target {sizes[1]}.")
    return after


def paste_source(frame: Tensor, face: Faces, under: Tensor, place: Faces) -> Tensor:
    """Return the picture ``under`` with the one face of ``frame`` in it, aligned by five points.

    Both are uint8 (H, W, 3); ``face`` and ``place`` are one face each. Mask and colour match are
    those that mien's pipeline gives to a network's output: what differs from a swap is the network.
    """
    to = template(TEMPLATE).at(SIZE)
    here = fit_similarity(place.points, to)
    crop = cut(frame, fit_similarity(face.points, to), SIZE)
    there = cut(under, here, SIZE)
    assert place.mesh is not None  # the finder places it
    mask = face_mask(apply(here, place.mesh[..., :2]), SIZE)
    opacity = mask[:, None]
    crop = match_color(crop, there, mask)
    pasted = under.clone()
    paste(pasted, torch.cat([crop * opacity, opacity], dim=1), here)
    return pasted
