"""The exit codes, and which error ends with which."""

from __future__ import annotations

from enum import IntEnum

from mien.errors import (
    AuditBroken,
    InvalidOption,
    MienError,
    NoFace,
    OptionsConflict,
    Refused,
    UnknownModel,
    UnsuitableContent,
)


class Exit(IntEnum):
    """What the exit code of a command says."""

    SUCCESS = 0
    FAILED = 1
    USAGE = 2
    NO_FACE = 3
    REFUSED = 4
    PARTIAL = 5
    BROKEN = 6
    TAMPERED = 7
    UNPROVEN = 8
    NOTHING = 9
    CONTENT = 10
    INTERRUPTED = 130

    def __str__(self) -> str:
        return f"{self.value} {self.name.lower().replace('_', ' ')}"


CODES: tuple[tuple[type[MienError], Exit], ...] = (
    (InvalidOption, Exit.USAGE),
    (OptionsConflict, Exit.USAGE),
    (UnknownModel, Exit.USAGE),
    (NoFace, Exit.NO_FACE),
    (UnsuitableContent, Exit.CONTENT),
    (Refused, Exit.REFUSED),
    (AuditBroken, Exit.BROKEN),
    (MienError, Exit.FAILED),
)
"""Looked through from the top; the first class that fits gives the code."""


def exit_code(error: MienError) -> Exit:
    """Return the exit code of ``error``."""
    return next(code for kind, code in CODES if isinstance(error, kind))
