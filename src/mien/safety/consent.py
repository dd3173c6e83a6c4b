"""Consent: no face is used without a statement that its use was agreed to.

A record says who states it, for which pictures, for what, and until when. Its id travels with the
identity into reports and into the output's metadata. It holds digests of pictures and a salted
commitment to the face; never a picture, and never an embedding.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Literal, TypeAlias

from mien.errors import InvalidOption

Declares: TypeAlias = Literal["self", "other", "licensed", "no-real-person"]
"""Who states it: the person in the picture; somebody whom that person told that they agree; who has
a licence for the picture that allows it; or that the picture shows no real person."""

UNSTATED = "unstated"
"""What a record declares that holds a statement in words alone, as that of 'mien swap' does."""


@dataclass(frozen=True, slots=True)
class Consent:
    """One recorded statement. Times are in UTC, to the second."""

    id: str
    statement: str
    granted: datetime
    """When it was recorded."""

    declares: str = UNSTATED
    """One of Declares, or 'unstated'."""

    agreed: bool = False
    """Whether it was said, apart from the statement, that another person agreed."""

    adult: bool = False
    """Whether it was said that the person in the pictures is an adult."""

    purpose: str = ""
    """For what the face may be used; empty if that was left open."""

    expires: datetime | None = None
    """From when on it no longer holds; None for a record without an end."""

    digests: tuple[str, ...] = ()
    """sha256 of the pixels of the pictures it covers, sorted."""

    space: str = ""
    """Name of the network that made the embedding behind ``commitment``."""

    salt: str = ""
    commitment: str = ""
    """See ``commit``; empty if the face was not embedded when it was recorded."""

    revoked: datetime | None = None
    """When it was withdrawn; None for a record that was not."""

    reason: str = ""
    """Why it was withdrawn; may be empty."""

    def state(self, now: datetime) -> str:
        """Return 'valid', 'revoked' or 'expired'."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and now >= self.expires else "valid"

    def shows(self, face: bytes) -> bool:
        """Return whether ``face`` is that of the record, if it has a commitment."""
        return bool(self.commitment) and hmac.compare_digest(
            self.commitment, commit(self.salt, face)
        )


def commit(salt: str, face: bytes) -> str:
    """Return the salted commitment to ``face``, a rounded embedding: sha256(salt || face), in hex.

    The face cannot be computed from it, and with another salt it is another number, so those of two
    ledgers do not show that they are of one person. Whoever has the salt and a face can check it.
    """
    return hashlib.sha256(bytes.fromhex(salt) + face).hexdigest()


def new_salt() -> str:
    """Return 32 random bytes in hexadecimal."""
    return secrets.token_hex(32)


def until(expires: datetime | date | str | None) -> datetime | None:
    """Return the moment, in UTC, from which on a consent no longer holds.

    A date is the last day, in UTC, on which it holds; texts are ISO 8601. Raises InvalidOption.
    """
    given = expires
    if isinstance(expires, str):
        try:
            expires = datetime.fromisoformat(expires)
            if "T" not in str(given) and " " not in str(given):
                expires = expires.date()
        except ValueError:
            expires = timedelta()  # type: ignore[assignment]
    if expires is None:
        return None
    try:
        if isinstance(expires, datetime) and expires.tzinfo is not None:
            return expires.astimezone(UTC).replace(microsecond=0)
        if isinstance(expires, date) and not isinstance(expires, datetime):
            return datetime.combine(expires, time(), UTC) + timedelta(days=1)
    except OverflowError:
        pass
    allowed = "the last day on which it holds, such as 2027-01-31, or a time with its zone"
    raise InvalidOption("expires", str(given), allowed)
