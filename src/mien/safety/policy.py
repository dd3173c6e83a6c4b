"""What is refused, and from where on: the limits by which the engine works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one profile. The defaults are the strictest that ship."""

    content: float = 0.8
    """Score of the content filter from which a picture is refused, 0 to 1."""

    minor: float = 18.0
    """Estimated years below which a face is refused, whatever a consent record says."""

    adult: float = 23.0
    """Estimated years below which it is refused unless a record says that it is an adult's."""

    protected: float = 0.44
    """Cosine from which a face is that of somebody in the protected gallery: one comparison in
    11,000 of two people reaches it (docs/safety.md)."""
