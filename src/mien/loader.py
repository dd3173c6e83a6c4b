"""From names in the catalogue to stages with loaded networks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, cast

from mien.engines import Engine, OnnxEngine, choose, limit_memory, settled
from mien.models import (
    CONTRACTS,
    Catalogue,
    Contract,
    DetectorContract,
    EmbedderContract,
    MeshContract,
)
from mien.pipeline import EmbeddingCache, FaceFinder, Identifier
from mien.stages.detect import Detector
from mien.stages.embed import Embedder
from mien.stages.landmark import Landmarker
from mien.stages.trial import RoleTrial

MESH = "facemesh"
"""The network that places the mesh."""

OCCLUSION = "mien-occlusion"
"""The network that sees what is before a face."""

AGE = "faceres-age"
"""The network that estimates ages."""

CONTENT = "open-nsfw"
"""The network that knows unsuitable pictures."""

C = TypeVar("C", bound=Contract)


@dataclass(frozen=True, slots=True)
class Loader:
    """Loads networks by name, each on the provider that is asked for; see engines.choose.

    ``gpu_memory`` is what the process may take of the GPU's memory; see engines.limit_memory.
    """

    catalogue: Catalogue
    provider: str
    allow_fallback: bool
    threads: int | None
    gpu_memory: str | None = None
    _limit: int | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        # networks that work together share a GPU
        object.__setattr__(self, "provider", settled(self.provider))
        object.__setattr__(self, "_limit", limit_memory(self.provider, self.gpu_memory))

    def load(self, name: str, kind: type[C]) -> tuple[Engine, C]:
        """Return the network called ``name``, loaded, and its contract, which is of ``kind``.

        Raises UnknownModel, WeightsMissing, WeightsCorrupt, EngineUnavailable, EngineError.
        """
        role = next(role for role, contract in CONTRACTS.items() if contract is kind)
        card = self.catalogue.card(name, role)
        engine = choose(
            name,
            card.read,
            provider=self.provider,
            allow_fallback=self.allow_fallback,
            threads=self.threads,
            memory=self._limit,
            trial=RoleTrial(card.contract),
        )
        return engine, cast("C", card.contract)

    def refusing(self, name: str, kind: type[C]) -> tuple[Engine, C]:
        """Return the network called ``name`` that ships, on the CPU: work is refused by it.

        What is refused depends neither on the provider nor on a user's own cards. Raises as
        ``load`` does.
        """
        role = next(role for role, contract in CONTRACTS.items() if contract is kind)
        card = Catalogue().card(name, role)
        return OnnxEngine(name, card.read, threads=self.threads), cast("C", card.contract)

    def finder(self, detector: str) -> FaceFinder:
        """Return what finds faces with the detector of this name."""
        return FaceFinder(
            Detector(*self.load(detector, DetectorContract)),
            Landmarker(*self.load(MESH, MeshContract)),
        )

    def identifier(self, finder: FaceFinder, space: str, cache: EmbeddingCache) -> Identifier:
        """Return what knows people whom ``finder`` finds, with the embedder called ``space``."""
        detector = finder.detector.engine.model
        return Identifier(
            finder,
            Embedder(*self.load(space, EmbedderContract)),
            cache,
            networks=self.digests(detector, MESH, space),
        )

    def digests(self, *names: str) -> str:
        """Return the sha256 of the networks of these names: what embeddings depend on."""
        return " ".join(self.catalogue.card(name).sha256 for name in names)
