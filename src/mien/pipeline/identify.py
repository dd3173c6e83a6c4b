"""From pictures of a person to an identity."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from threading import Lock

import torch
from cachetools import LRUCache
from torch import Tensor

from mien.errors import DifferentPeople, NoFace
from mien.media import Picture
from mien.pipeline.cache import EmbeddingCache
from mien.pipeline.finder import FaceFinder
from mien.stages.align import align
from mien.stages.embed import Embedder, distances, mean_identity, strangers
from mien.types import Faces, Frame, Identity

log = logging.getLogger(__name__)

REMEMBERED = 64
"""Pictures whose largest face need not be looked for again."""

STEPS = 64
"""Into how many steps a unit is cut by ``rounded``."""


class Identifier:
    """Embeds the largest face of each picture and averages them.

    ``networks`` names the content of all networks involved; it is part of the cache's key.
    """

    def __init__(
        self, finder: FaceFinder, embedder: Embedder, cache: EmbeddingCache, networks: str
    ) -> None:
        self.finder, self.embedder, self.cache = finder, embedder, cache
        self.networks = networks
        self._faces: LRUCache[str, Faces] = LRUCache(REMEMBERED)
        self._lock = Lock()

    def reference(self, pictures: Sequence[Picture]) -> Identity:
        """Return who is in the first of ``pictures``, to be recognised; it has no consent.

        Raises as ``person`` does.
        """
        return self.person(pictures)[0]

    def distances(self, frame: Frame, faces: Faces, people: Sequence[Identity]) -> Tensor:
        """Return the cosine distances (K, P), 0 to 2, of ``faces`` in ``frame`` to ``people``."""
        embeddings = self.embedder(align(frame, faces, self.embedder.contract))
        return distances(embeddings, torch.stack([one.embedding for one in people]).to(embeddings))

    def person(self, pictures: Sequence[Picture]) -> tuple[Identity, list[str]]:
        """Return who is in the first picture, and the digests of the pictures that show them.

        They have no consent yet. Pictures that show somebody else are left out and named in
        ``outliers``. Raises NoFace, and DifferentPeople when no other picture shows the person in
        the first.
        """
        digests = [picture.digest for picture in pictures]
        embeddings = torch.stack(
            [self._embed(*pair) for pair in zip(pictures, digests, strict=True)]
        )
        odd = strangers(embeddings, self.embedder.contract.same_person)
        if 0 in odd or (len(pictures) > 1 and len(odd) == len(pictures) - 1):
            names = ", ".join(picture.name for picture in pictures)
            raise DifferentPeople(
                f"These pictures do not show one person: {names}. Several source pictures must be "
                "of the person in the first.",
                picture=names,
            )
        outliers = tuple(pictures[i].name for i in odd)
        if outliers:
            log.warning("Left out, as they show somebody else: %s.", ", ".join(outliers))
        kept = [i for i in range(len(pictures)) if i not in odd]
        used = [digests[i] for i in kept]
        digest = hashlib.sha256("".join(sorted(used)).encode()).hexdigest()
        person = Identity(
            embedding=mean_identity(embeddings[kept]),
            space=self.embedder.space,
            digest=used[0] if len(used) == 1 else digest,
            consent="",
            outliers=outliers,
        )
        return person, used

    def face(self, picture: Picture) -> Faces:
        """Return the largest face in a picture; the last ones are remembered. Raises NoFace."""
        digest = picture.digest
        with self._lock:
            known = self._faces.get(digest)
        if known is not None:
            return known
        faces = self.finder(picture.frame.view, largest_only=True)
        if not len(faces):
            raise NoFace(picture.name)
        with self._lock:
            self._faces[digest] = faces[0]
        return faces[0]

    def _embed(self, picture: Picture, digest: str) -> Tensor:
        known = self.cache.get(digest, self.networks)
        if known is not None:
            return known
        face = self.face(picture)
        embedding = self.embedder(align(picture.frame, face, self.embedder.contract))[0].cpu()
        self.cache.put(digest, self.networks, embedding)
        return embedding


def rounded(identity: Identity) -> bytes:
    """Return the embedding in steps of 1/64, as int16, little-endian: what consent commits to.

    Steps are coarse, so that one picture gives the same bytes on every run with the same network;
    another provider's small differences may still move a number that lies between two steps.
    """
    return (identity.embedding.float().cpu() * STEPS).round().numpy().astype("<i2").tobytes()
