"""What is refused, and from where on: the limits by which the engine works, and their file.

The file is ``policy.toml`` in mien's own folder, or the one that MIEN_POLICY names. It chooses a
profile and may change its limits; what no line changes are the profile's. No profile can take away
the marks on what was made: there is no such key.
"""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mien.errors import PolicyInvalid
from mien.safety.audit import AuditLog
from mien.safety.keys import home, write_whole


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

    visible_label: bool = False
    """Whether a label must be seen on what was made; see mien.safety.label."""


RANGES: Mapping[str, tuple[float, float]] = MappingProxyType(
    {"content": (0.1, 0.95), "minor": (18, 40), "adult": (18, 40), "protected": (0.3, 0.55)}
)
"""The least and the greatest value of each limit."""

PROFILES: Mapping[str, Limits] = MappingProxyType(
    {
        "default": Limits(),
        "eu-deployer": Limits(visible_label=True),
        "cn": Limits(visible_label=True),
    }
)


@dataclass(frozen=True, slots=True)
class Policy:
    """A profile, and what its file makes of it."""

    profile: str
    limits: Limits
    path: Path | None = None
    """The file; None if there is none."""

    digest: str | None = None
    """sha256 of the file."""


def read_policy(folder: Path | None = None) -> Policy:
    """Return the policy of ``folder``, by default mien's own, or of what MIEN_POLICY names.

    Without a file it is the profile 'default'. Raises PolicyInvalid if a file that is there, or
    named, cannot be read, or has a key or a value that is not allowed.
    """
    named = os.environ.get("MIEN_POLICY")
    path = Path(named).expanduser() if named else (folder or home()) / "policy.toml"
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        if not named:
            return Policy("default", PROFILES["default"])
        raise PolicyInvalid(path, "there is no such file; MIEN_POLICY names it") from None
    except OSError as error:
        raise PolicyInvalid(path, f"it cannot be read ({error.strerror})") from error
    try:
        table = tomllib.loads(content.decode())
    except ValueError as error:
        raise PolicyInvalid(path, f"it is no TOML ({error})") from None
    profile = table.pop("profile", "default")
    if not isinstance(profile, str) or profile not in PROFILES:
        raise PolicyInvalid(path, f"profile = {profile!r}; allowed: {', '.join(PROFILES)}")
    limits = replace(PROFILES[profile], **{k: _checked(path, k, v) for k, v in table.items()})
    if limits.adult < limits.minor:
        reason = f"adult = {limits.adult:g} is below minor = {limits.minor:g}"
        raise PolicyInvalid(path, reason)
    return Policy(profile, limits, path, hashlib.sha256(content).hexdigest())


def note_policy(policy: Policy, audit: AuditLog) -> None:
    """Log it, once, if another policy was the last that the log of this folder tells of.

    Raises AuditUnwritable; no face is swapped by limits that are not in the log.
    """
    seen = audit.folder / "policy.seen"
    now = policy.digest or "none"
    try:
        before = seen.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        before = "none"
    if now != before:
        audit.append("policy.changed", digest=policy.digest, profile=policy.profile)
        write_whole(seen, now.encode())


def _checked(path: Path, key: str, value: Any) -> Any:
    """Return the value of a limit. Raises PolicyInvalid."""
    known = [each.name for each in fields(Limits)]
    if key not in known:
        raise PolicyInvalid(path, f"{key!r} is no limit; allowed: profile, {', '.join(known)}")
    if key not in RANGES:
        if isinstance(value, bool):
            return value
        raise PolicyInvalid(path, f"{key} = {value!r}; allowed: true, false")
    least, most = RANGES[key]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not least <= value <= most:
        raise PolicyInvalid(path, f"{key} = {value!r}; allowed: {least:g} to {most:g}")
    return float(value)
