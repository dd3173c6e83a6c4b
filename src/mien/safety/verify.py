"""Verifying: what a file shows of its origin: what is proven, what is probable, what is unknown.

A manifest is proof, if its signature is valid, the file is what was signed, and the certificate is
one that is trusted. Marks are words that anybody can write or take off: they make it probable. A
file with neither may be anything.
"""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from mien.errors import CertificateUnusable, Unverifiable
from mien.safety.certificate import Certificate, certificate_of, own_path
from mien.safety.manifest import (
    LABEL,
    OTHER,
    QUIET,
    has,
    kind_of,
    read_beside,
    reader_of,
    reason_of,
    undisturbed,
)
from mien.safety.marks import PRODUCED, SYNTHETIC
from mien.token_uri import TokenUri

Verdict: TypeAlias = Literal["proven", "unproven", "tampered", "nothing"]
"""Whether the origin is proven; or something says it, and does not prove it; or something is there
that does not fit; or there is nothing."""

Standing: TypeAlias = Literal["own", "trusted", "unknown"]
"""Whose certificate it is: of who verifies, of an authority that they trust, or anybody's."""

PACKET = re.compile(
    rb'CreatorTool="mien (?P<version>[^"]{0,40})".{0,400}?DigitalSourceType="(?P<kind>[^"]{0,200})"'
    rb'.{0,400}?mien:consent="(?P<consents>[^"]{0,4000})".{0,400}?mien:model="(?P<model>[^"]{0,200})"',
    re.DOTALL,
)
"""What ``xmp_packet`` says. Other programs may write attributes in another order: then it is not
found, which is no proof of anything."""

WORDS = re.compile(
    rb"DigitalSourceType=(?P<kind>\S{0,200}); CreatorTool=mien (?P<version>[^;]{0,40}); "
    rb"urn:mien:1\.0:consent=(?P<consents>[^;]{0,4000}); "
    rb"urn:mien:1\.0:model=(?P<model>[\w.-]{0,200})"
)
"""What ``statement`` says."""

LABELLED = re.compile(PRODUCED.encode())
"""The id that the label of GB 45438-2025 gives the file."""

NEAR = 8192
"""Bytes around a mark in which all of it is."""

MOST = 64
"""How many places that look like a mark are looked at."""

CREDENTIAL = (
    "signingCredential.",
    "claimSignature.outsideValidity",
    "timeStamp.",
    "timeOfSigning.",
    "com.adobe.",
)
"""How codes begin that tell of the certificate or the clock, and not of the file."""

PLAIN = (
    (
        (
            "assertion.dataHash.",
            "assertion.bmffHash.",
            "assertion.boxesHash.",
            "assertion.boxHash.",
        ),
        "the file is not the one that was signed: it was edited since, or the manifest is another "
        "file's",
    ),
    (
        ("claimSignature.", "claim."),
        "the manifest was edited: its signature does not fit it",
    ),
    (
        ("assertion.", "hashedURI.", "ingredient.", "manifest."),
        "what the manifest tells was edited since it was signed",
    ),
)
"""What codes mean, by how they begin."""


@dataclass(frozen=True, slots=True)
class Marks:
    """What words in a file say of it."""

    version: str
    """The version of mien that wrote them."""

    model: str
    consents: tuple[str, ...]
    produced: str | None = None
    """The file's id; None in clips of kinds that hold no such label, and in older ones."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a C2PA manifest says, and whether it is to be believed."""

    place: Literal["embedded", "beside"]
    readable: bool
    standing: Standing = "unknown"
    signer: str = ""
    """Whom the certificate names, and who issued it; not to be believed if that is unknown."""

    time: str | None = None
    """When it was signed, as an authority states; None: nobody does."""

    software: str = ""
    synthetic: bool = False
    """Whether it says that a network made all or parts of the file."""

    consents: tuple[str, ...] = ()
    networks: tuple[tuple[str, str], ...] = ()
    """Names and sha256."""

    produced: str | None = None
    earlier: int = 0
    """How many manifests of earlier stages are kept in it."""

    intact: bool = False
    """Whether the signature is valid, and all that was signed is as it was."""

    problems: tuple[str, ...] = ()
    """What does not fit, in sentences."""

    doubts: tuple[str, ...] = ()
    """What is wrong with the certificate alone, beside that it is unknown."""

    codes: tuple[str, ...] = ()
    """C2PA's own codes of all failures."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What something else says, such as a watermark."""

    name: str
    proven: bool
    text: str
    details: Mapping[str, Any] = field(default_factory=dict)
    """The same for programs."""


class Looker(Protocol):
    """A further way to tell where a file is from, beside manifest and marks."""

    def __call__(self, path: Path, manifest: Manifest | None) -> Finding | None:
        """Return what is found in the file, or None. It raises no error for any file."""


@dataclass(frozen=True, slots=True)
class Verified:
    """What a file shows of its origin."""

    path: Path
    verdict: Verdict
    manifest: Manifest | None
    marks: Marks | None
    proven: tuple[str, ...]
    probable: tuple[str, ...]
    unknown: tuple[str, ...]
    findings: tuple[Finding, ...] = field(default=())


def verify(path: Path, *, own: Sequence[Certificate] = (), trust: bytes | None = None,
           lookers: Sequence[Looker] = ()) -> Verified:  # fmt: skip
    """Return what the file at ``path`` shows of its origin; nobody on the network is asked.

    ``own`` are certificates of who verifies, and ``trust`` is PEM of authorities whose
    certificates are believed. Raises Unverifiable if the file cannot be read, and nothing else,
    however broken it is.
    """
    try:
        if path.exists() and not path.is_file():
            raise Unverifiable(path, "it is not a file")
        manifest = _manifest(path, own, trust)
        marks = _marks(path)
    except OSError as error:
        raise Unverifiable(path, error.strerror or str(error)) from error
    findings = tuple(found for look in lookers if (found := look(path, manifest)) is not None)
    if manifest is not None and not manifest.problems and manifest.standing != "unknown":
        verdict: Verdict = "proven"
    elif manifest is not None and manifest.problems:
        verdict = "tampered"
    elif any(found.proven for found in findings):
        verdict = "proven"
    elif manifest is not None or marks is not None or findings:
        verdict = "unproven"
    else:
        verdict = "nothing"
    proven, probable, unknown = _told(manifest, marks)
    proven += [found.text for found in findings if found.proven]
    probable += [found.text for found in findings if not found.proven]
    return Verified(
        path, verdict, manifest, marks, tuple(proven), tuple(probable), tuple(unknown), findings
    )


def own_certificates(
    certificate: Path | None, private_key: Path | None, token: TokenUri | None = None
) -> list[Certificate]:
    """Return the user's own certificate, and that of this machine; none is made.

    What cannot be used is left out: whoever verifies need not sign. A token is not asked.
    """
    found = []
    with suppress(CertificateUnusable):
        if certificate and (private_key or token):
            found.append(certificate_of(certificate, private_key, token))
    with suppress(CertificateUnusable):
        if own_path().exists():
            found.append(certificate_of(own_path(), own_path()))
    return found


def _manifest(path: Path, own: Sequence[Certificate], trust: bytes | None) -> Manifest | None:
    """Return what the manifest in ``path``, or else that beside it, says. Raises OSError."""
    kind = kind_of(path)
    if kind != OTHER:
        try:
            return undisturbed(_read, path, kind, None, own, trust)
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001 - files of others hold all sorts of things
            if "ManifestNotFound" not in str(error) and has(path, b"jumb") and has(path, b"c2pa"):
                return _damaged("embedded", error)
    content = read_beside(path)
    if content is None:
        return None
    try:
        return undisturbed(_read, path, kind, content, own, trust)
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001
        return _damaged("beside", error)


def _damaged(place: Literal["embedded", "beside"], error: Exception) -> Manifest:
    said = f"there is a manifest, but it or the file is damaged: {reason_of(error)}"
    return Manifest(place, readable=False, problems=(said,), codes=(str(error),))


def _read(
    path: Path,
    kind: str,
    content: bytes | None,
    own: Sequence[Certificate],
    trust: bytes | None,
) -> Manifest:
    """Return what a manifest says. Raises C2paError, OSError."""
    asked: list[tuple[Standing, bytes, int | None]] = [
        ("own", each.anchors, each.serial) for each in own
    ]
    if trust is not None:
        asked.append(("trusted", trust, None))
    standing: Standing = "unknown"
    found: dict[str, Any] = {}
    for name, anchors, serial in asked or [("unknown", b"", None)]:
        settings = {**QUIET, "trust": {"trust_anchors": anchors.decode()}} if anchors else QUIET
        with path.open("rb") as stream, reader_of(stream, kind, content, settings) as reader:
            found = json.loads(reader.json())
        if found.get("validation_state") == "Trusted":
            signature = _active(found).get("signature_info", {})
            if serial is None or str(serial) == signature.get("cert_serial_number"):
                standing = name
                break
    return _said(found, "embedded" if content is None else "beside", standing)


def _active(found: dict[str, Any]) -> dict[str, Any]:
    manifest: dict[str, Any] = found.get("manifests", {}).get(found.get("active_manifest"), {})
    return manifest


def _said(
    found: dict[str, Any], place: Literal["embedded", "beside"], standing: Standing
) -> Manifest:
    """Return what the library read, in mien's words. Nothing in it is sure to be as expected."""
    active = _active(found)
    results = found.get("validation_results", {}).get("activeManifest", {})
    codes = [str(each.get("code", "")) for each in results.get("failure", [])]
    of_file = [code for code in codes if not code.startswith(CREDENTIAL)]
    doubts = [
        code for code in codes if code not in of_file and code != "signingCredential.untrusted"
    ]
    problems = list(dict.fromkeys(_plain(code) for code in of_file))
    if not problems and found.get("validation_state") == "Invalid" and not doubts:
        problems = ["the manifest is invalid"]
    valid = {each.get("code") for each in results.get("success", [])}
    intact = not problems and "claimSignature.validated" in valid
    signature = active.get("signature_info", {})
    named = [signature.get("common_name"), signature.get("issuer")]
    software = (active.get("claim_generator_info") or [{}])[0]
    facts = _assertion(active, LABEL)
    actions = _assertion(active, "c2pa.actions").get("actions", [])
    kinds = [str(each.get("digitalSourceType", "")) for each in _dicts(actions)]
    networks = _dicts(facts.get("networks"))
    produced = facts.get("produced")
    return Manifest(
        place=place,
        readable=True,
        standing=standing if not problems else "unknown",
        signer=", ".join(str(each) for each in named if each),
        time=signature.get("time"),
        software=f"{software.get('name', '')} {software.get('version', '')}".strip(),
        synthetic=any("rainedAlgorithmicMedia" in kind for kind in kinds),
        consents=tuple(str(each) for each in facts.get("consents") or ()),
        networks=tuple((str(n.get("name")), str(n.get("sha256"))) for n in networks),
        produced=None if produced is None else str(produced),
        earlier=max(len(found.get("manifests", {})) - 1, 0),
        intact=intact,
        problems=tuple(problems),
        doubts=tuple(dict.fromkeys(doubts)),
        codes=tuple(codes),
    )


def _plain(code: str) -> str:
    for begins, meaning in PLAIN:
        if code.startswith(begins):
            return meaning
    return f"the manifest is invalid ({code})"


def _dicts(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _assertion(active: dict[str, Any], label: str) -> dict[str, Any]:
    for each in _dicts(active.get("assertions")):
        if str(each.get("label", "")).startswith(label) and isinstance(each.get("data"), dict):
            return dict(each["data"])
    return {}


def _marks(path: Path) -> Marks | None:
    """Return what marks of mien's say in the file, or in NAME.xmp beside it. Raises OSError."""
    for place in (path, path.with_name(f"{path.name}.xmp")):
        if not place.is_file() or place.stat().st_size == 0:
            continue
        with place.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as all_:
            for sign in (b'CreatorTool="mien ', SYNTHETIC.encode()):
                at = -1
                for _ in range(MOST):
                    if (at := all_.find(sign, at + 1)) < 0:
                        break
                    near = all_[max(at - 1024, 0) : at + NEAR]
                    made = PACKET.search(near) or WORDS.search(near)
                    if made is not None:
                        # a clip's metadata may come in any order
                        label = LABELLED.search(near, made.end()) or LABELLED.search(near)
                        return _marks_of(made, label)
    return None


def _marks_of(made: re.Match[bytes], produced: re.Match[bytes] | None) -> Marks:
    text = {key: value.decode(errors="replace") for key, value in made.groupdict().items()}
    return Marks(
        version=text["version"],
        model=text["model"],
        consents=tuple(each for each in text["consents"].split(", ") if each),
        produced=None if produced is None else produced[1].decode(),
    )


def _told(manifest: Manifest | None, marks: Marks | None) -> tuple[list[str], list[str], list[str]]:
    """Return in sentences what is proven, probable and unknown."""
    proven: list[str] = []
    probable: list[str] = []
    unknown: list[str] = []
    if manifest is None:
        unknown.append("there is no manifest: it was never signed, or the metadata were stripped")
    elif manifest.problems:
        unknown += _compared(manifest, marks)
        unknown.append("what the manifest says is not to be believed of this file")
    else:
        known = manifest.standing != "unknown"
        believed = proven if known else probable
        if manifest.intact:
            proven.append("the file is what was signed: nothing was changed since")
        else:
            unknown.append("whether the file is what was signed: the signature cannot be checked")
        (proven if known else unknown).append(_signed_by(manifest))
        believed.append(_made(manifest))
        unknown += [f"the certificate is in doubt ({code})" for code in manifest.doubts]
        if manifest.time is None:
            unknown.append("when it was signed: no authority states it")
        else:
            believed.append(f"it was signed at {manifest.time}")
    if marks is not None:
        consents = ", ".join(marks.consents) or "none"
        probable.append(
            f"its marks say that mien {marks.version} swapped faces in it with {marks.model}; "
            f"consent records: {consents}"
        )
    elif manifest is None:
        unknown.append("there are no marks of mien's either: the file may be anything")
    return proven, probable, unknown


def _compared(manifest: Manifest, marks: Marks | None) -> list[str]:
    """Return what the ids in both say, if there are any: which of two attacks it was."""
    if marks is None or not manifest.produced or not marks.produced:
        return []
    if marks.produced == manifest.produced:
        return ["by the ids in both, marks and manifest belong together: it was edited since"]
    return ["by the ids in both, the manifest was copied here from another file"]


def _signed_by(manifest: Manifest) -> str:
    if manifest.standing == "own":
        return f"it was signed with a certificate of yours ({manifest.signer})"
    if manifest.standing == "trusted":
        return f"it was signed with a certificate that is trusted ({manifest.signer})"
    return (
        f"who signed it: nobody known here issued the certificate ({manifest.signer}), and "
        "anybody can make one with any name"
    )


def _made(manifest: Manifest) -> str:
    by = manifest.software or "a program without a name"
    if not manifest.synthetic:
        return f"{by} made the manifest; it does not say that a network made any part"
    consents = f"; consent records: {', '.join(manifest.consents)}" if manifest.consents else ""
    names = ", ".join(name for name, _ in manifest.networks)
    networks = f" with {names}" if names else ""
    return f"{by} made parts of it by trained networks{networks}{consents}"
