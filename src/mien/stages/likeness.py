"""Likeness: what a person looks like, averaged over what was seen of them."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True, slots=True, eq=False)
class Likeness:
    """The spherical mean of unit embeddings that came one by one; see ``mean_identity``."""

    total: Tensor | None = None
    """float32 (D,): their sum; None of none."""

    count: int = 0

    @property
    def mean(self) -> Tensor:
        """The mean (D,), unit length; of one embedding that embedding, bit for bit."""
        assert self.total is not None
        return self.total if self.count == 1 else functional.normalize(self.total, dim=0)

    def with_one_more(self, embedding: Tensor) -> Likeness:
        """Return the likeness that also counts ``embedding`` (D,)."""
        if self.total is None:
            return Likeness(embedding, 1)
        return Likeness(self.total + embedding, self.count + 1)
