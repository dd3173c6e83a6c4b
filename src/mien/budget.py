"""How much of a GPU's memory may be taken, in the words of the option ``gpu_memory``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from mien.errors import InvalidOption

BYTES = {"MB": 10**6, "GB": 10**9}
"""Units, as those who sell GPUs count them."""

ALLOWED = "a part of the GPU's memory above 0, such as 4GB, 800MB or 50%"


@dataclass(frozen=True, slots=True)
class Budget:
    """A part of a GPU's memory."""

    amount: float
    """Above 0; as a share at most 1."""

    share: bool
    """Whether ``amount`` is a share of all that the GPU has, and not bytes."""

    text: str
    """How it was said."""

    @classmethod
    def read(cls, text: str) -> Self:
        """Return what '4GB', '800MB' or '50%' means. Raises InvalidOption."""
        found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)(%|MB|GB)", str(text))
        if not found:
            raise InvalidOption("gpu_memory", text, ALLOWED)
        share = found[2] == "%"
        amount = float(found[1]) / 100 if share else float(found[1]) * BYTES[found[2]]
        if amount <= 0 or (share and amount > 1):
            raise InvalidOption("gpu_memory", text, ALLOWED)
        return cls(amount, share, text)

    def of(self, total: int | None) -> int:
        """Return the bytes of a GPU that has ``total``, or None if that is not known.

        Raises InvalidOption for more than there is, and for a share of what is not known.
        """
        if total is None and self.share:
            allowed = "a size such as 4GB, as PyTorch sees no GPU here that it could be a share of"
            raise InvalidOption("gpu_memory", self.text, allowed)
        wanted = int(self.amount * total) if self.share and total else int(self.amount)
        if total is not None and wanted > total:
            allowed = f"at most the {total / 1e9:.1f}GB that the GPU has"
            raise InvalidOption("gpu_memory", self.text, allowed)
        return wanted
