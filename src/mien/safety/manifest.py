"""Manifests: what a file says of its origin, by C2PA, signed so that a change shows.

A manifest tells of the target that was opened and of the faces that were swapped in it, names the
networks by their sha256 and the consent records by their ids, and keeps what the target's own
manifests tell. It names no person and no file, and holds no thumbnail, as that of the target would
show the face that was replaced.
"""

from __future__ import annotations

import io
import json
import logging
import mmap
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar

from mien.errors import CertificateUnusable, SigningFailed, TokenUnusable
from mien.safety.certificate import Certificate, certificate_of, own_path
from mien.safety.marks import DIGITAL_SOURCE_TYPE
from mien.safety.token import TokenKey
from mien.token_uri import TokenUri
from mien.version import __version__

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

LABEL = "mien.swap"
"""Of the assertion with what C2PA has no word for."""

OTHER = "application/octet-stream"
"""The kind of files that hold no manifest: theirs is in a file beside them."""

LARGEST = 64 << 20
"""Bytes of a file beside that is read: manifests have some kilobytes."""

HEADS: Mapping[bytes, str] = MappingProxyType(
    {
        b"\xff\xd8\xff": "image/jpeg",
        b"\x89PNG\r\n\x1a\n": "image/png",
        b"GIF87a": "image/gif",
        b"GIF89a": "image/gif",
        b"II*\0": "image/tiff",
        b"MM\0*": "image/tiff",
    }
)
"""First bytes of files that hold a manifest."""

BRANDS: Mapping[bytes, str] = MappingProxyType(
    {
        b"avif": "image/avif",
        b"avis": "image/avif",
        **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"mif1"), "image/heic"),
        b"qt  ": "video/quicktime",
    }
)
"""Kinds of files made of boxes; all others are MP4."""

QUIET: Mapping[str, Any] = MappingProxyType(
    {
        "builder": {"thumbnail": {"enabled": False}},
        "verify": {"verify_trust": True, "remote_manifest_fetch": False, "ocsp_fetch": False},
    }
)
"""How the library is to work: it asks nobody on the network, and makes no thumbnails."""


@dataclass(frozen=True, slots=True)
class SoftBinding:
    """What ties a manifest to a watermark, so that it can be found again if it was taken off."""

    algorithm: str
    """The watermark's name in C2PA's list."""

    value: str
    """What the watermark says."""


@dataclass(frozen=True, slots=True)
class Seal:
    """Signs one file, which is complete, before it gets its name."""

    certificate: Certificate
    definition: Mapping[str, Any]
    """The manifest as C2PA's library wants it, without the target."""

    target: Path | None
    """The picture or clip that was opened; None if it is in no file."""

    timestamp: str | None = None
    """URL of the authority that says when it was signed; None: nobody is asked."""

    def __call__(self, file: Path, name: Path) -> Path | None:
        """Sign ``file``, which is to be called ``name``; return the file beside it, if any.

        Raises SigningFailed, TokenUnusable, and OSError as of a full disk; ``file`` is of no use
        then.
        """
        kind = kind_of(file)
        if kind == OTHER:
            return self._beside(file, name)
        signed = file.with_name(f"{file.name}.signed")
        try:
            with _Watched(signed) as out:
                undisturbed(self._sign, file, kind, name, out)
                out.flush()
                os.fsync(out.fileno())
            signed.replace(file)
        except BaseException:
            signed.unlink(missing_ok=True)
            raise
        return None

    def _beside(self, file: Path, name: Path) -> Path:
        path = side_file(name)
        if path.exists() and not _ours(path):
            raise SigningFailed(name, f"{path} is there, and not from mien; name another file")
        part = file.with_name(f"{file.name}.manifest")
        try:
            content = undisturbed(self._sign, file, OTHER, name, _Nowhere())
            with part.open("xb") as out:
                out.write(content)
                out.flush()
                os.fsync(out.fileno())
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        return path

    def _sign(self, file: Path, kind: str, name: Path, out: _Watched | _Nowhere) -> bytes:
        """Write ``file`` with its manifest to ``out``; return the manifest."""
        from c2pa import C2paError

        with file.open("rb") as source:
            try:
                with (
                    self._builder() as builder,
                    _signer(self.certificate, self.timestamp) as signer,
                ):
                    if kind == OTHER:
                        builder.set_no_embed()
                    content: bytes = builder.sign(signer, kind, source, out)
            except C2paError as error:
                if isinstance(out, _Watched) and out.failure is not None:
                    raise out.failure from error
                raise SigningFailed(name, reason_of(error)) from error
        return content

    def _builder(self) -> Any:
        from c2pa import C2paError

        if self.target is not None:
            try:
                return self._with(self.target)
            except OSError:
                log.warning("%s is gone; the manifest does without it.", self.target)
            except C2paError as error:
                # what is no manifest of a damaged file is of no interest to anybody
                there = side_file(self.target).exists() or has(self.target, b"jumb")
                log.log(
                    logging.WARNING if there else logging.INFO,
                    "%s has a damaged manifest, which is left out (%s).",
                    self.target,
                    reason_of(error),
                )
        ingredient: dict[str, Any] = {**_INGREDIENT, "format": OTHER}
        return _new({**self.definition, "ingredients": [ingredient]})

    def _with(self, target: Path) -> Any:
        """Return a builder that keeps the manifests in ``target`` or beside it."""
        kind = kind_of(target)
        with target.open("rb") as stream:
            builder = _new(self.definition)
            ingredient: dict[str, Any] = dict(_INGREDIENT)
            beside = read_beside(target) if kind == OTHER else None
            if beside is not None:
                with reader_of(stream, kind, beside, QUIET) as reader:
                    found = json.loads(reader.json())
                ingredient |= {
                    "active_manifest": found["active_manifest"],
                    "validation_results": found["validation_results"],
                    "manifest_data": {"format": "application/c2pa", "identifier": "target.c2pa"},
                }
                builder.add_resource("target.c2pa", io.BytesIO(beside))
                stream.seek(0)
            builder.add_ingredient(ingredient, kind, stream)
        return builder


@dataclass(frozen=True)
class Provenance:
    """What all manifests of one swapper have in common, and what signs them."""

    networks: Mapping[str, str] = field(default_factory=dict)
    """Sha256 by name."""

    certificate: Path | None = None
    """File of the user's own certificate, and those above it; None: mien makes one."""

    private_key: Path | None = None
    timestamp: str | None = None
    token: TokenUri | None = None
    """Where the key of ``certificate`` is, if it is in no file."""

    _read: dict[Path, Certificate] = field(default_factory=dict, init=False, repr=False)
    """By path: mien's own folder may be another one later."""

    def prepare(self) -> None:
        """Make sure that files can be signed, before there is work that would be in vain.

        Raises CertificateUnusable, TokenUnusable, InvalidOption if only one file of two is named,
        and OptionsConflict if there are two keys.
        """
        self._ready()

    def seal(
        self,
        target: Path | None,
        *,
        consents: Sequence[str],
        produced: str | None = None,
        watermark: SoftBinding | None = None,
    ) -> Seal:
        """Return what signs a file made of ``target`` with the records ``consents``.

        ``produced`` is the id that the marks in the file give it. Raises as ``prepare`` does.
        """
        networks = [{"name": name, "sha256": digest} for name, digest in self.networks.items()]
        facts: dict[str, Any] = {"consents": list(consents), "networks": networks}
        if produced is not None:
            facts["produced"] = produced
        assertions = [
            {"label": "c2pa.actions.v2", "data": _actions(watermark), "created": True},
            {"label": LABEL, "data": facts, "created": True},
        ]
        if watermark is not None:
            blocks = [{"scope": {}, "value": watermark.value}]
            data = {"alg": watermark.algorithm, "blocks": blocks}
            assertions.append({"label": "c2pa.soft-binding", "data": data, "created": True})
        return Seal(self._ready(), _definition(assertions), target, self.timestamp)

    def _ready(self) -> Certificate:
        path = self.certificate or own_path()
        certificate = self._read.get(path)
        if certificate is None:
            certificate = certificate_of(self.certificate, self.private_key, self.token)
            if isinstance(certificate.key, TokenKey):
                certificate.key.check(certificate.path)
            if self.certificate is not None:  # that C2PA allows it shows when it is used
                _try(certificate)
            self._read[path] = certificate
        return certificate


class _Watched(io.BufferedRandom):
    """A new file that remembers what went wrong with it: the library tells only that it did."""

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path, "x+"))
        self.failure: OSError | None = None

    def write(self, content: Any, /) -> int:
        try:
            return super().write(content)
        except OSError as error:
            self.failure = error
            raise


class _Nowhere(io.RawIOBase):
    """Takes the copy of a file whose manifest goes beside it, and keeps nothing of it."""

    def __init__(self) -> None:
        super().__init__()
        self._at = self._size = 0

    def write(self, content: Any, /) -> int:
        self._at += len(content)
        self._size = max(self._size, self._at)
        return len(content)

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0, /) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at


def undisturbed(function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Return what ``function`` returns, called in a thread of its own, which no interrupt reaches.

    The library reads and writes by calling back: an interrupt there would be lost, and what is
    read cut short. It is raised here, when the library is done.
    """
    with ThreadPoolExecutor(1, "manifest") as pool:
        return pool.submit(function, *args, **options).result()


def side_file(path: Path) -> Path:
    """Return where the manifest of ``path`` is if that holds none."""
    return path.with_name(f"{path.name}.c2pa")


def beside(path: Path) -> Path | None:
    """Return the file with the manifest of ``path`` if that is there, and holds none itself."""
    side = side_file(path)
    with suppress(OSError):
        if kind_of(path) == OTHER and side.is_file():
            return side
    return None


def take_away(path: Path) -> None:
    """Delete a manifest of mien's beside ``path``, of what was there before. Raises OSError."""
    side = side_file(path)
    if side.is_file() and _ours(side):
        side.unlink()


def read_beside(path: Path) -> bytes | None:
    """Return the manifest beside ``path``; None if there is none. Raises OSError."""
    side = side_file(path)
    if not side.is_file() or side.stat().st_size > LARGEST:
        return None
    return side.read_bytes()


def kind_of(path: Path) -> str:
    """Return the media type of a file that holds a manifest, or OTHER, by its first bytes.

    Raises OSError.
    """
    with path.open("rb") as file:
        head = file.read(16)
    for begin, kind in HEADS.items():
        if head.startswith(begin):
            return kind
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    if head[4:8] == b"ftyp":
        return BRANDS.get(head[8:12], "video/mp4")
    return OTHER


def has(path: Path, sign: bytes) -> bool:
    """Return whether ``sign`` is anywhere in a file. Raises OSError."""
    if path.stat().st_size == 0:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(sign) >= 0


def reader_of(stream: Any, kind: str, manifest: bytes | None, settings: Mapping[str, Any]) -> Any:
    """Return C2PA's reader of a file, with the manifest beside it. Raises C2paError."""
    import c2pa

    return c2pa.Reader(kind, stream, manifest, context=c2pa.Context.from_dict(dict(settings)))


def reason_of(error: Exception) -> str:
    """Return what the library says, without its own names for the kinds of errors."""
    said = str(error)
    kind, colon, rest = said.partition(": ")
    return (rest if colon and kind.isalnum() else said).strip() or type(error).__name__


_INGREDIENT = MappingProxyType({"title": "target", "relationship": "parentOf", "label": "target"})


def _actions(watermark: SoftBinding | None) -> dict[str, Any]:
    """Return what was done to the target, in C2PA's words."""
    actions: list[dict[str, Any]] = [
        {"action": "c2pa.opened", "parameters": {"ingredientIds": ["target"]}},
        {
            "action": "c2pa.edited",
            "softwareAgent": {"name": "mien", "version": __version__},
            "digitalSourceType": DIGITAL_SOURCE_TYPE,
            "parameters": {"description": "Faces were swapped by trained networks."},
        },
    ]
    if watermark is not None:
        actions.append({"action": "c2pa.watermarked.bound"})
    return {"actions": actions, "allActionsIncluded": True}


def _definition(assertions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "claim_generator_info": [{"name": "mien", "version": __version__}],
        "assertions": [{**each, "data": dict(each["data"])} for each in assertions],
    }


def _new(definition: Mapping[str, Any]) -> Any:
    import c2pa

    return c2pa.Builder(dict(definition), c2pa.Context.from_dict(dict(QUIET)))


@contextmanager
def _signer(certificate: Certificate, timestamp: str | None) -> Iterator[Any]:
    """Yield what signs. Raises what a token raises, of which the library tells nothing."""
    import c2pa

    key, name = certificate.key, certificate.algorithm
    if isinstance(key, bytes):
        url = None if timestamp is None else timestamp.encode()
        with c2pa.Signer.from_info(
            c2pa.C2paSignerInfo(name.encode(), certificate.chain, key, url)
        ) as signer:
            yield signer
        return
    failures: list[TokenUnusable] = []

    def sign(content: bytes) -> bytes:
        try:
            return key(content)
        except TokenUnusable as error:  # what is raised here the library would log, and forget
            failures.append(error)
            return b""

    algorithm = getattr(c2pa.C2paSigningAlg, name.upper())
    try:
        with c2pa.Signer.from_callback(
            sign, algorithm, certificate.chain.decode(), timestamp
        ) as signer:
            yield signer
    except c2pa.C2paError as error:
        if failures:
            raise failures[0] from error
        raise


def _try(certificate: Certificate) -> None:
    """Sign a byte, and nothing. Raises CertificateUnusable if C2PA does not allow it."""
    from c2pa import C2paError

    action = {"action": "c2pa.created", "digitalSourceType": DIGITAL_SOURCE_TYPE}
    label = {"label": "c2pa.actions.v2", "data": {"actions": [action]}, "created": True}
    try:
        with _new(_definition([label])) as builder, _signer(certificate, None) as signer:
            builder.set_no_embed()
            builder.sign(signer, OTHER, io.BytesIO(b"\0"), io.BytesIO())
    except C2paError as error:
        raise CertificateUnusable(certificate.path, reason_of(error)) from error


def _ours(path: Path) -> bool:
    with suppress(OSError):
        return path.stat().st_size <= LARGEST and LABEL.encode() in path.read_bytes()
    return False
