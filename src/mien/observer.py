"""Who can be seen: the faces in a picture, with their numbers, and who is who."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from torch import Tensor

from mien.choice import Order, check_choice
from mien.errors import InvalidOption
from mien.loader import Loader
from mien.media import (
    MAX_MEGAPIXELS,
    Picture,
    PictureLike,
    as_list,
    in_srgb,
    read_picture,
    write_picture,
)
from mien.media.draw import draw_faces
from mien.models import Catalogue
from mien.pipeline import EmbeddingCache, Identifier, assign, in_order
from mien.result import describe, picture_of
from mien.types import Faces, Identity


@dataclass(frozen=True, slots=True, eq=False)
class Sighting:
    """The faces in one picture."""

    picture: Picture
    faces: Faces
    """In the order that was asked for: their numbers are what ``faces`` of Swapper.swap takes."""

    people: tuple[str | None, ...]
    """For each face the name of the picture of the person it is; None for everybody else."""

    distances: Tensor | None
    """float32 (K, P): cosine distances of the faces to the people; None if there were none."""

    def save(self, path: str | Path) -> None:
        """Write the picture with boxes, meshes, points, numbers and scores drawn on it.

        No face is changed, so there is no mark. Raises PictureUnwritable.
        """
        drawn = draw_faces(in_srgb(self.picture, self.picture.frame), self.faces)
        write_picture(Path(path), picture_of(drawn, Path(path).name), xmp=None)

    def report(self) -> list[dict[str, Any]]:
        """Return a row for each face, ready for JSON."""
        rows = describe(self.faces, self.distances)
        if self.distances is not None:
            for row, person in zip(rows, self.people, strict=True):
                row["person"] = person
        return rows


class Observer:
    """Finds and recognises faces, without the networks that only swapping needs.

    The options are Swapper's; ``embedder`` is the network that knows people, loaded when the first
    person is to be recognised. ``max_distance`` is the greatest cosine distance (0 to 2) at which a
    face is somebody's; None leaves it to the embedder's card.
    """

    def __init__(
        self,
        *,
        detector: str = "yunet",
        embedder: str = "sface",
        provider: str = "cpu",
        allow_fallback: bool = False,
        threads: int | None = None,
        gpu_memory: str | None = None,
        models: str | Path | None = None,
        max_distance: float | None = None,
        max_megapixels: float = MAX_MEGAPIXELS,
    ) -> None:
        check_choice(None, None, max_distance, person="only")
        self._loader = Loader(Catalogue(models), provider, allow_fallback, threads, gpu_memory)
        self._finder = self._loader.finder(detector)
        self._embedder = embedder
        self.max_distance, self.max_megapixels = max_distance, max_megapixels

    def __call__(
        self,
        picture: PictureLike,
        *,
        order: Order = "large-small",
        against: PictureLike | Sequence[PictureLike] = (),
    ) -> Sighting:
        """Return the faces in ``picture``, of an animation in its first frame, in ``order``.

        ``against`` is a picture of a person to look for, or several, of one person each. Raises
        PictureUnreadable, NoFace if a person's picture shows none, InvalidOption.
        """
        if order not in get_args(Order):
            raise InvalidOption("order", order, get_args(Order))
        read = read_picture(picture, max_megapixels=self.max_megapixels)
        faces = in_order(self._finder(read.frame.view), order)
        people: list[str | None] = [None] * len(faces)
        far = None
        several = as_list(against)
        if several:
            known = [read_picture(one, max_megapixels=self.max_megapixels) for one in several]
            identities = [self._identifier.reference([one]) for one in known]
            far = self._identifier.distances(read.frame, faces, identities)
            limit = self.max_distance
            if limit is None:
                limit = self._identifier.embedder.contract.max_distance
            for face, person in assign(far, limit):
                people[face] = known[person].name
        return Sighting(read, faces, tuple(people), far)

    def person(self, picture: PictureLike) -> Identity:
        """Return who the largest face in ``picture`` is; it cannot be put on another.

        Raises PictureUnreadable, NoFace.
        """
        read = read_picture(picture, max_megapixels=self.max_megapixels)
        return self._identifier.reference([read])

    @cached_property
    def _identifier(self) -> Identifier:
        return self._loader.identifier(self._finder, self._embedder, EmbeddingCache())
