"""What is refused, and from where on: the limits by which the engine works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one profile. The defaults are the strictest that ship."""

    protected: float = 0.4
    """Cosine from which a face is that of somebody in the protected gallery."""
