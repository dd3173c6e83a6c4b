"""Embedding: from aligned faces to points on the identity sphere."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from mien.engines import Engine, numbers_faults, run_guarded
from mien.errors import BadOutput, TemplateMismatch
from mien.models import EmbedderContract
from mien.types import Crops


class Embedder:
    """Runs a face-embedding network on aligned crops.

    ``space`` names the network that made an embedding; embeddings of different spaces never meet.
    """

    def __init__(self, engine: Engine, contract: EmbedderContract) -> None:
        self.engine, self.contract = engine, contract

    @property
    def space(self) -> str:
        """Name of the embeddings' space."""
        return self.engine.model

    def __call__(self, crops: Crops) -> Tensor:
        """Return unit embeddings, float32 (K, D) on the CPU, of crops aligned to its template.

        Raises TemplateMismatch when the crops were aligned for another network, BadOutput when
        the network returns no direction.
        """
        contract = self.contract
        if crops.template != contract.template:
            raise TemplateMismatch(expected=contract.template, found=crops.template)
        if not len(crops.pixels):
            return torch.zeros(0, contract.dimension)
        raw, faults = run_guarded(
            self.engine,
            {contract.input: contract.pixels.encode(crops.pixels)},
            output=contract.output,
            check=self._faults,
        )
        fault = next(filter(None, faults), None)
        if raw is None or fault:
            raise BadOutput(model=self.space, provider=self.engine.provider, reason=str(fault))
        return unit(raw.cpu())

    def _faults(self, rows: Tensor) -> list[str | None]:
        """Say of each of ``rows`` why it is no embedding, or None."""
        faults = numbers_faults(rows, (self.contract.dimension,))
        return [
            fault or (None if bool(row.any()) else "nothing but zeros")
            for row, fault in zip(rows, faults, strict=True)
        ]


def unit(vectors: Tensor) -> Tensor:
    """Return ``vectors`` (..., D) scaled to length 1; zeros stay zeros."""
    # by the greatest first: the squares of very small or large values leave float32's range
    greatest = vectors.abs().amax(dim=-1, keepdim=True)
    return functional.normalize(
        vectors / greatest.clamp_min(torch.finfo(vectors.dtype).tiny), dim=-1
    )


def mean_identity(embeddings: Tensor) -> Tensor:
    """Return the spherical mean (D,) of unit embeddings (N, D).

    The plain mean, put back on the sphere: for faces of one person it lies within two degrees of
    the Fréchet mean, mostly far less, and needs no iteration.
    """
    return unit(embeddings.mean(dim=0))


def distances(a: Tensor, b: Tensor) -> Tensor:
    """Return the cosine distances (A, B), 0 to 2, of unit embeddings (A, D) and (B, D)."""
    return (1 - a @ b.T).clamp(0, 2)


def strangers(embeddings: Tensor, same_person: float) -> list[int]:
    """Return which of the unit embeddings (N, D) show somebody else than most of them.

    The person is the one whom most pictures resemble: the picture with the most others within
    ``same_person`` (cosine) is the seed, and whoever does not resemble it is a stranger.
    """
    alike = embeddings @ embeddings.T >= same_person
    seed = int(alike.sum(dim=1).argmax())
    return (~alike[seed]).nonzero().flatten().tolist()


def mix(target: Tensor, source: Tensor, strength: float) -> Tensor:
    """Return the points ``strength`` of the way from ``target`` to ``source`` on the sphere.

    Both are unit vectors (..., D); the way is the great circle (Shoemake, "Animating rotation with
    quaternion curves", 1985). Between opposite vectors, which no two faces have, it is undefined.
    """
    cosine = (target * source).sum(dim=-1, keepdim=True).clamp(-1 + 1e-6, 1 - 1e-6)
    angle = torch.acos(cosine)
    mixed = torch.sin((1 - strength) * angle) * target + torch.sin(strength * angle) * source
    return unit(mixed / torch.sin(angle))
