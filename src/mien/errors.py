"""Every error mien raises on purpose. Each says what was wrong, where, and what to do.

MienError
├── InvalidOption           an option's value is not in the allowed set
├── OptionsConflict         two options contradict each other
├── PictureError            a picture file or array
│   ├── PictureUnreadable
│   └── PictureUnwritable
├── ClipError               a video file
│   ├── ClipUnreadable
│   ├── DecoderUnavailable  the device that was asked for does not decode it
│   └── ClipUnwritable
│       └── DiskFull
├── FaceError               the faces in a picture
│   ├── NoFace              none at all
│   │   ├── NoSuchFace      none of this number
│   │   └── PersonAbsent    none of this person
│   └── DifferentPeople     several source pictures, not one person
├── Refused                 mien will not do this
│   ├── ConsentMissing
│   ├── ConsentUnconfirmed  another person's, and it was not said that they agreed
│   ├── ConsentRevoked
│   ├── ConsentExpired
│   ├── ConsentForged       the record was edited, copied, or signed by somebody else
│   ├── ClockSetBack
│   ├── ProtectedPerson     somebody in the gallery of protected people
│   ├── LooksYoung          somebody who may be a minor
│   ├── UnsuitableContent   the content filter says so
│   └── EmbedderUnfit       faces that cannot be compared with the protected gallery
├── GalleryUnusable         the gallery of protected people cannot be read or written
├── PolicyInvalid           the file with the limits
├── LedgerUnusable          the consent ledger cannot be read or written
├── AuditError              the audit log
│   ├── AuditUnwritable
│   └── AuditBroken         it is not what was written
├── ProvenanceError         the manifest of a file
│   ├── CertificateUnusable
│   ├── TokenUnusable       the key in a token or HSM
│   ├── SigningFailed
│   └── Unverifiable        the file cannot be read
├── ModelError              the catalogue and its files
│   ├── UnknownModel
│   ├── CardInvalid
│   ├── WeightsMissing
│   └── WeightsCorrupt
├── EngineError             running a network
│   ├── EngineUnavailable
│   ├── OutOfMemory
│   └── BadOutput
├── GpuFull                 no memory for pictures on a GPU
├── TrainingError           a pack, network or state of a training run
├── MeasurementFailed       a frame of 'mien bench'
├── Mismatch                two parts that do not fit together
│   ├── TemplateMismatch
│   └── SpaceMismatch
└── Unforeseen              a fault of mien's own
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path


class MienError(Exception):
    """Base of all errors that mien raises on purpose."""


class InvalidOption(MienError, ValueError):
    """An option's value is not allowed. A PIN in it is not shown."""

    def __init__(self, option: str, value: object, allowed: Iterable[object] | str) -> None:
        if isinstance(value, str):  # wherever it was put: under a name that is misspelt, too
            value = re.sub(r"(pin-value)=[^&;?\s]*", r"\1=…", value)
        self.option, self.value = option, value
        self.allowed = allowed if isinstance(allowed, str) else ", ".join(map(str, allowed))
        super().__init__(f"{option}={value!r} is not possible. Allowed: {self.allowed}.")


class OptionsConflict(MienError, ValueError):
    """Two options contradict each other. ``options`` are their names."""

    def __init__(self, one: str, other: str, why: str) -> None:
        self.options = (one, other)
        super().__init__(f"The options {one!r} and {other!r} contradict each other: {why}.")


class PictureError(MienError):
    """A picture could not be used. ``path`` is None for pictures that came from memory."""

    def __init__(self, message: str, *, path: Path | None = None) -> None:
        self.path = path
        super().__init__(message)


class PictureUnreadable(PictureError):
    """The file or array is not a picture mien can read."""


class PictureUnwritable(PictureError):
    """The output picture could not be written; nothing was left behind."""


class ClipError(MienError):
    """A clip could not be used. ``path`` is its file."""

    def __init__(self, message: str, *, path: Path) -> None:
        self.path = path
        super().__init__(message)


class ClipUnreadable(ClipError):
    """The file is not a clip mien can read."""


class DecoderUnavailable(ClipError):
    """The device that was asked for does not decode the clip; nothing else did in its place."""

    def __init__(self, path: Path, *, device: str, reason: str) -> None:
        self.device, self.reason = device, reason
        super().__init__(
            f"{path} cannot be decoded on {device}: {reason}. mien.media.clip.Clip decodes it on "
            "the CPU.",
            path=path,
        )


class ClipUnwritable(ClipError):
    """The output clip could not be written; nothing was left behind."""


class DiskFull(ClipUnwritable):
    """There is no room for the output. ``needed`` and ``free`` are bytes, or None if unknown."""

    def __init__(self, path: Path, *, needed: int | None = None, free: int | None = None) -> None:
        self.needed, self.free = needed, free
        known = needed is not None and free is not None
        what = (
            f"it may take {needed / 1e6:,.0f} MB, and {free / 1e6:,.0f} MB are free"  # type: ignore[operator]
            if known
            else "the disk is full"
        )
        super().__init__(
            f"{path} cannot be written: {what}. Make room, or name a file on another disk; "
            "nothing was left there.",
            path=path,
        )


class FaceError(MienError):
    """The faces in a picture do not allow what was asked. ``picture`` names it."""

    def __init__(self, message: str, *, picture: str) -> None:
        self.picture = picture
        super().__init__(message)


class NoFace(FaceError):
    """No face was found."""

    def __init__(self, picture: str, message: str | None = None) -> None:
        super().__init__(
            message
            or f"No face was found in {picture}. Upright and turned faces from 20 pixels up are "
            "searched; is the face covered, cut off, or very dark?",
            picture=picture,
        )


class NoSuchFace(NoFace):
    """Faces were asked for by numbers that the picture does not have."""

    def __init__(self, picture: str, *, numbers: Iterable[int], found: int) -> None:
        self.found = found
        asked = ", ".join(map(str, numbers))
        has = f"{found} faces, 0 to {found - 1}" if found > 1 else "one face, 0"
        super().__init__(
            picture, f"{picture} has {has}; there is no face {asked}. 'mien faces' shows them."
        )


class PersonAbsent(NoFace):
    """No face in the picture is that of a person to replace. ``nearest`` is a distance."""

    def __init__(self, picture: str, *, nearest: float, limit: float) -> None:
        self.nearest, self.limit = nearest, limit
        super().__init__(
            picture,
            f"Nobody who is to be replaced was found in {picture}: the nearest face has a distance "
            f"of {nearest:.2f}, and at most {limit:.2f} is one person. 'mien faces --against' "
            "shows all distances; 'max_distance' changes the limit.",
        )


class DifferentPeople(FaceError):
    """Pictures that should show one person do not agree."""


class Refused(MienError):
    """mien declines the work; nothing was written."""


class ConsentMissing(Refused):
    """A face was to be used without a statement of consent."""

    def __init__(self, picture: str) -> None:
        self.picture = picture
        super().__init__(
            f"There is no statement of consent for the face in {picture}. State whose face it is "
            'and that its use is agreed to: --consent "…" on the command line, consent="…" in '
            "Python. The statement is recorded and its id goes into the output."
        )


class ConsentUnconfirmed(Refused):
    """A statement is about another person, and it was not said, apart, that they agreed."""

    def __init__(self, picture: str) -> None:
        self.picture = picture
        super().__init__(
            f"The face in {picture} is another person's. Ask them, and say that they agreed: "
            "--they-agreed on the command line, they_agreed=True in Python. Nothing was recorded."
        )


class ConsentRevoked(Refused):
    """The consent was withdrawn. ``record`` is its id, ``when`` a time in UTC."""

    def __init__(self, record: str, *, when: str, reason: str = "") -> None:
        self.record, self.when, self.reason = record, when, reason
        why = f" ({reason})" if reason else ""
        super().__init__(
            f"The consent {record} was revoked on {when}{why}; the face may not be used. If the "
            "person agrees again, record it with 'mien consent grant'."
        )


class ConsentExpired(Refused):
    """The consent no longer holds. ``record`` is its id, ``when`` a time in UTC."""

    def __init__(self, record: str, *, when: str) -> None:
        self.record, self.when = record, when
        super().__init__(
            f"The consent {record} expired on {when}; the face may not be used. If the person "
            "agrees again, record it with 'mien consent grant'."
        )


class ConsentForged(Refused):
    """A record in the ledger is not what was recorded. ``record`` is its id, or says which part."""

    def __init__(self, path: Path, record: str, reason: str) -> None:
        self.path, self.record, self.reason = path, record, reason
        super().__init__(
            f"The consent ledger at {path} cannot be trusted: {record} {reason}. Put back an "
            "untouched copy of the ledger and its key, or move both away and record the consent "
            "anew."
        )


class ClockSetBack(Refused):
    """The clock is behind what the ledger has seen. ``now`` and ``seen`` are times in UTC."""

    def __init__(self, *, now: str, seen: str, what: str) -> None:
        self.now, self.seen = now, seen
        super().__init__(
            f"This machine's clock says {now}, and {what} is of {seen}: the clock was set back. "
            "Whether a consent has expired cannot be told. Set the clock right."
        )


class ProtectedPerson(Refused):
    """Somebody would be swapped who is in the protected gallery.

    ``label`` says who; ``score`` is a cosine, and from ``limit`` on it is refused.
    """

    def __init__(self, what: str, *, label: str, score: float, limit: float) -> None:
        self.what, self.label, self.score, self.limit = what, label, score, limit
        super().__init__(
            f"It is refused to swap {what}: it looks like {label!r} in the gallery of protected "
            f"people (cosine {score:.2f}, refused from {limit:.2f}). Use a picture of somebody "
            "else. If it is somebody else, whoever keeps the gallery can look into it: 'mien "
            "protect list' and 'mien protect remove'."
        )


class LooksYoung(Refused):
    """Somebody would be swapped who may be a minor.

    ``years`` is an estimate, and below ``limit`` it is refused; ``clearable`` says whether a record
    of an adult's consent would allow it.
    """

    def __init__(self, what: str, *, years: float, limit: float, clearable: bool) -> None:
        self.what, self.years, self.limit, self.clearable = what, years, limit, clearable
        how = (
            "If you know that it is an adult, record it for this picture: 'mien consent grant "
            "PICTURE --adult …'; docs/safety.md says what that means."
            if clearable
            else "Use a picture of an adult."
        )
        super().__init__(
            f"It is refused to swap {what}: the estimated age is {years:.0f} years, and below "
            f"{limit:g} the person may be a minor. {how}"
        )


class UnsuitableContent(Refused):
    """A picture, or a frame of a clip, is not to be worked on.

    ``score`` is the filter's, 0 to 1, and from ``limit`` on it is refused. ``time`` is that of the
    frame in seconds; None for a picture.
    """

    def __init__(self, *, score: float, limit: float, time: float | None) -> None:
        self.score, self.limit, self.time = score, limit, time
        what = "the picture" if time is None else f"the frame at {time:.2f} s"
        super().__init__(
            f"It is refused to swap faces here: the content filter takes {what} for pornographic "
            f"(score {score:.2f}, refused from {limit:.2f}). Nothing was written. If that is "
            "wrong, use another picture or part of the clip."
        )


class EmbedderUnfit(Refused):
    """The protected gallery was made by another network than the one that knows the faces."""

    def __init__(self, found: str, expected: str) -> None:
        self.found, self.expected = found, expected
        super().__init__(
            f"Faces embedded by {found!r} cannot be compared with the protected gallery, which "
            f"{expected!r} made. Choose a swap network that uses {expected!r}."
        )


class GalleryUnusable(MienError):
    """The file with the protected people cannot be used; nothing is swapped without it."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(
            f"The gallery of protected people at {path} cannot be used: {reason}. Put back a copy, "
            "or move it away and add the people anew."
        )


class PolicyInvalid(MienError):
    """The file with the limits cannot be read, or says what is not allowed; nothing is swapped."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(
            f"The policy file {path} cannot be used: {reason}. docs/safety.md has its keys."
        )


class LedgerUnusable(MienError):
    """The file with the consent records cannot be used."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(
            f"The consent ledger at {path} cannot be used: {reason}. "
            "Set MIEN_HOME to a folder of yours, or move a damaged ledger away."
        )


class AuditError(MienError):
    """The audit log cannot be used. ``path`` is its file or folder."""

    def __init__(self, message: str, *, path: Path) -> None:
        self.path = path
        super().__init__(message)


class AuditUnwritable(AuditError):
    """A line cannot be written; the work that it was to tell of was not done, or not kept."""

    def __init__(self, path: Path, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"The audit log at {path} cannot be written: {reason}. No face is used without it. "
            "Make room, or set MIEN_HOME to a folder of yours.",
            path=path,
        )


class AuditBroken(AuditError):
    """The log is not what was written. ``line`` is counted from 1 in ``path``; 0 for all of it."""

    def __init__(self, path: Path, line: int, reason: str) -> None:
        self.line, self.reason = line, reason
        where = f"{path}, line {line}" if line else str(path)
        super().__init__(
            f"The audit log is broken at {where}: {reason}. 'mien audit verify' checks all of it; "
            "to begin a new log, move its folder away and keep it.",
            path=path,
        )


class ProvenanceError(MienError):
    """What a file says of its origin could not be written or read. ``path`` is a file."""

    def __init__(self, message: str, *, path: Path) -> None:
        self.path = path
        super().__init__(message)


class CertificateUnusable(ProvenanceError):
    """The certificate that signs, or its key, cannot be used. ``path`` is its file."""

    def __init__(self, path: Path, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"The certificate {path} cannot be used: {reason}. Nothing is written unsigned; name "
            "another with the settings 'certificate' and 'private_key', or none, for mien's own.",
            path=path,
        )


class TokenUnusable(ProvenanceError):
    """The key in a token or HSM cannot be used. ``path`` is the token's library.

    No message has the PIN.
    """

    def __init__(self, path: Path, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"The key in the token behind {path} cannot be used: {reason}. Nothing is written "
            "unsigned; the setting 'signing_pkcs11' says which key it is.",
            path=path,
        )


class SigningFailed(ProvenanceError):
    """An output could not be signed; nothing was left behind."""

    def __init__(self, path: Path, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"{path} could not be signed: {reason}. Nothing was left there. Another format may do; "
            "with a 'timestamp' set, its authority must be reached.",
            path=path,
        )


class Unverifiable(ProvenanceError):
    """There is no file to verify, or it cannot be opened."""

    def __init__(self, path: Path, reason: str) -> None:
        self.reason = reason
        super().__init__(f"{path} cannot be verified: {reason}. Name a file.", path=path)


class ModelError(MienError):
    """A network of the catalogue. ``model`` is its name."""

    def __init__(self, message: str, *, model: str) -> None:
        self.model = model
        super().__init__(message)


class UnknownModel(ModelError):
    """No card has this name and role."""

    def __init__(self, model: str, role: str | None, known: Iterable[str]) -> None:
        self.role = role
        kind = f"{role} named" if role else "model named"
        super().__init__(
            f"There is no {kind} {model!r}. Known: {', '.join(known) or 'none'}.", model=model
        )


class CardInvalid(ModelError):
    """A model card is not well formed."""


class WeightsMissing(ModelError):
    """The card is there and the file it describes is not."""


class WeightsCorrupt(ModelError):
    """A weights file is not the one its card describes; it was not run."""


class EngineError(MienError):
    """A network could not be run. ``model`` is its name."""

    def __init__(self, message: str, *, model: str) -> None:
        self.model = model
        super().__init__(message)


class EngineUnavailable(EngineError):
    """The provider that was asked for is not the one that would run."""

    def __init__(self, *, model: str, provider: str, reason: str) -> None:
        self.provider, self.reason = provider, reason
        super().__init__(
            f"Provider {provider!r} cannot run {model!r}: {reason} "
            "Choose another provider, or allow the fallback to the CPU.",
            model=model,
        )


class OutOfMemory(EngineError):
    """A network has no memory for the smallest batch: a single row."""

    def __init__(self, *, model: str, provider: str, reason: str) -> None:
        self.provider, self.reason = provider, reason
        super().__init__(
            f"Network {model!r} has no memory on {provider!r} for a single row: {reason} "
            "End what else uses the memory, raise gpu_memory if it is set, or choose the provider "
            "'cpu'.",
            model=model,
        )


class GpuFull(MienError):
    """A GPU has no memory for the pictures that are worked on there."""

    def __init__(self, *, device: str, reason: str) -> None:
        self.device, self.reason = device, reason
        super().__init__(
            f"There is no memory for pictures on {device!r}: {reason} End what else uses it, raise "
            "gpu_memory if it is set, make fewer frames at once, or choose the provider 'cpu'."
        )


class BadOutput(EngineError):
    """A network returned something that cannot be a result, twice; nothing was pasted."""

    def __init__(self, *, model: str, provider: str, reason: str) -> None:
        self.provider, self.reason = provider, reason
        advice = (
            "The weights or the runtime may be at fault: run 'mien models show' on the network."
            if provider == "cpu"
            else "The driver or runtime may be at fault: try the provider 'cpu'."
        )
        super().__init__(
            f"Network {model!r} on provider {provider!r} returned {reason}, also in the safe mode. "
            + advice,
            model=model,
        )


class TrainingError(MienError, ValueError):
    """A file of a training run, a pack, network or state, cannot be used. ``path`` names it."""

    def __init__(self, path: Path, reason: str, advice: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path} cannot be used: {reason}. {advice}")


class MeasurementFailed(MienError):
    """A frame that was to be timed could not be swapped. ``path`` and ``row`` say which.

    The error itself is its ``__cause__``.
    """

    def __init__(self, path: str, row: str, error: Exception) -> None:
        self.path, self.row = path, row
        what = str(error) if isinstance(error, MienError) else f"{type(error).__name__}: {error}"
        super().__init__(
            f"Measuring {path!r} on {row} failed: {what} "
            "'mien doctor' says more about this machine."
        )


class Mismatch(MienError):
    """Two parts do not fit together."""

    def __init__(self, what: str, *, expected: str, found: str) -> None:
        self.expected, self.found = expected, found
        super().__init__(f"{what}: expected {expected!r}, found {found!r}.")


class TemplateMismatch(Mismatch):
    """Crops were aligned for another network."""

    def __init__(self, *, expected: str, found: str) -> None:
        super().__init__(
            "The crops are aligned to another template", expected=expected, found=found
        )


class SpaceMismatch(Mismatch):
    """An embedding was made by another network than the one that is to read it."""

    def __init__(self, *, expected: str, found: str) -> None:
        super().__init__(
            "The identity was embedded by another network", expected=expected, found=found
        )


class Unforeseen(MienError):
    """An error that is mien's own fault; it ended one piece of work and not the others."""

    def __init__(self, error: Exception) -> None:
        super().__init__(
            f"An error that mien did not foresee: {type(error).__name__}: {error}. "
            "Please report it, with what 'mien --verbose …' prints."
        )
