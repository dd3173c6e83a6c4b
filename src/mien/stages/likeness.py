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

    good: bool = False
    """Whether they are of clear views. One view that is not clear is better than none, no more."""

    @property
    def mean(self) -> Tensor:
        """The mean (D,), unit length; of one embedding that embedding, bit for bit."""
        assert self.total is not None
        return self.total if self.count == 1 else functional.normalize(self.total, dim=0)

    def with_one_more(self, embedding: Tensor, *, good: bool) -> Likeness:
        """Return the likeness that also counts ``embedding`` (D,), of a clear view or not."""
        if self.total is None or (good and not self.good):
            return Likeness(embedding, 1, good)
        if self.good and not good:
            return self
        return Likeness(self.total + embedding, self.count + 1, good)
