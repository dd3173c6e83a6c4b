"""The certificate with which this machine signs what it writes: made here, or the user's own.

The key of the user's own may be in a file, or in a token that does not give it away.

The one made here is of EC P-256, issued by an authority that is made for it and forgotten at once:
nobody can issue a second one. It shows that files are from one machine and were not changed since.
It does not show whose machine that is; for that, a certificate is to be had from an authority.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mien.errors import CertificateUnusable, InvalidOption, OptionsConflict
from mien.safety.keys import WAIT, home, write_whole
from mien.safety.token import TokenKey
from mien.token_uri import OPTION, TokenUri

if TYPE_CHECKING:
    from cryptography import x509

FILE = "certificate.pem"
"""The file, in mien's own folder, with the key, its certificate, and that of the authority."""

LASTS = timedelta(days=3650)
"""How long a certificate is valid that is made here: ten years."""

ORGANIZATION = "mien (made on the user's own machine)"
"""What viewers show as the issuer: nothing about the user."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A key and its certificate, ready to sign."""

    path: Path
    """The file of the certificate."""

    chain: bytes
    """PEM: the certificate, then those of the authorities above it, as far as they are known."""

    key: bytes | TokenKey
    """PEM, PKCS #8, without a passphrase; or what signs with a key that cannot be had."""

    algorithm: str
    """C2PA's name of the signature: es256, es384, es512, ps256 or ed25519."""

    serial: int
    """The certificate's number, by which its authority knows it."""

    @property
    def anchors(self) -> bytes:
        """PEM of what is above the certificate in ``chain``; of itself, if nothing is."""
        from cryptography import x509

        certificates = x509.load_pem_x509_certificates(self.chain)
        return b"".join(map(_pem, certificates[1:] or certificates))


def own_path() -> Path:
    """Return where the certificate is that is made here."""
    return home() / FILE


def own_certificate() -> Certificate:
    """Return the certificate of this machine; it is made at first use.

    Raises CertificateUnusable if it cannot be read or made.
    """
    path = own_path()
    try:
        if not os.path.exists(path):  # noqa: PTH110 - this one is False, too, behind a lock
            _make(path)
        content = path.read_bytes()
    except OSError as error:
        raise CertificateUnusable(path, error.strerror or str(error)) from error
    return _read(path, content, content)


def certificate_of(
    certificate: Path | None, private_key: Path | None, token: TokenUri | None = None
) -> Certificate:
    """Return the certificate in these files, PEM, or that of this machine if there are none.

    With ``token`` its key is there, and not in a file; it is not looked at until it signs. Raises
    InvalidOption if one is missing, OptionsConflict if there are two keys, CertificateUnusable if
    they cannot be used.
    """
    if private_key is not None and token is not None:
        raise OptionsConflict("private_key", OPTION, "a certificate has one key")
    if certificate is None and private_key is None and token is None:
        return own_certificate()
    if certificate is None:
        key = "in the token" if private_key is None else private_key
        raise InvalidOption("certificate", None, f"the certificate of the key {key}")
    if private_key is None and token is None:
        raise InvalidOption("private_key", None, f"the key of the certificate {certificate}")
    contents = []
    for path in filter(None, (certificate, private_key)):
        try:
            contents.append(path.read_bytes())
        except OSError as error:
            raise CertificateUnusable(path, error.strerror or str(error)) from error
    if token is None:
        return _read(certificate, *contents)
    certificates = _certificates(certificate, contents[0])
    public = certificates[0].public_key()
    algorithm = _algorithm(certificate, public)
    return _complete(certificate, certificates, TokenKey(token, algorithm, public), algorithm)


def _read(path: Path, chain: bytes, key: bytes) -> Certificate:
    from cryptography.hazmat.primitives import serialization

    certificates = _certificates(path, chain)
    try:
        private: Any = serialization.load_pem_private_key(key, None)
    except TypeError:
        reason = "its key has a passphrase; take it off, in a file that you alone may read"
        raise CertificateUnusable(path, reason) from None
    except ValueError:
        raise CertificateUnusable(path, "its key is no private key, as PEM") from None
    leaf = certificates[0]
    form = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    if leaf.public_key().public_bytes(*form) != private.public_key().public_bytes(*form):
        raise CertificateUnusable(path, "the private key is another certificate's")
    content = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return _complete(path, certificates, content, _algorithm(path, leaf.public_key()))


def _certificates(path: Path, chain: bytes) -> list[x509.Certificate]:
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(chain)
    except ValueError:
        raise CertificateUnusable(path, "there is no certificate in it, as PEM") from None


def _complete(
    path: Path, certificates: list[x509.Certificate], key: bytes | TokenKey, algorithm: str
) -> Certificate:
    """Return the certificate, if it is valid today."""
    leaf = certificates[0]
    now = datetime.now(UTC)
    if now >= leaf.not_valid_after_utc:
        raise CertificateUnusable(path, f"it has expired, on {leaf.not_valid_after_utc:%Y-%m-%d}")
    if now < leaf.not_valid_before_utc:
        reason = f"it is valid from {leaf.not_valid_before_utc:%Y-%m-%d} on; look at the clock"
        raise CertificateUnusable(path, reason)
    return Certificate(
        path=path,
        chain=b"".join(map(_pem, certificates)),
        key=key,
        algorithm=algorithm,
        serial=leaf.serial_number,
    )


def _algorithm(path: Path, public: object) -> str:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    if isinstance(public, ec.EllipticCurvePublicKey):
        curves = {"secp256r1": "es256", "secp384r1": "es384", "secp521r1": "es512"}
        if public.curve.name in curves:
            return curves[public.curve.name]
    if isinstance(public, rsa.RSAPublicKey) and public.key_size >= 2048:
        return "ps256"
    if isinstance(public, ed25519.Ed25519PublicKey):
        return "ed25519"
    reason = "its key is of a kind that C2PA does not allow; use EC P-256, P-384 or P-521, RSA of"
    raise CertificateUnusable(path, f"{reason} 2048 bits or more, or Ed25519")


def _make(path: Path) -> None:
    """Make a key, an authority and a certificate, and forget the authority's key."""
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from filelock import FileLock

    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with FileLock(path.with_suffix(".lock"), timeout=WAIT, mode=0o600):
        if path.exists():  # another process was first
            return
        above, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
        authority = _draft(above.public_key(), above.public_key(), leaf=False)
        leaf = _draft(key.public_key(), above.public_key(), leaf=True)
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        signed = [_pem(draft.sign(above, hashes.SHA256())) for draft in (leaf, authority)]
        write_whole(path, b"".join([private, *signed]))


def _draft(public: Any, issuer: Any, *, leaf: bool) -> x509.CertificateBuilder:
    """Return a certificate to be signed, with what C2PA asks of it and no more."""
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    def name(common: str) -> x509.Name:
        return x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION),
                x509.NameAttribute(NameOID.COMMON_NAME, common),
            ]
        )

    uses = dict.fromkeys(
        ["content_commitment", "key_encipherment", "data_encipherment", "key_agreement"], False
    )
    now = datetime.now(UTC)
    draft = (
        x509.CertificateBuilder()
        .subject_name(name("mien signer" if leaf else "mien authority"))
        .issuer_name(name("mien authority"))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # clocks of who looks may be behind
        .not_valid_after(now + LASTS)
        .add_extension(x509.BasicConstraints(not leaf, None if leaf else 0), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=leaf,
                key_cert_sign=not leaf,
                crl_sign=not leaf,
                encipher_only=False,
                decipher_only=False,
                **uses,
            ),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer), critical=False)
    )
    if leaf:  # C2PA takes this use for documents that are signed; there is none for us alone
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.EMAIL_PROTECTION])
        draft = draft.add_extension(usage, critical=False)
    return draft


def _pem(certificate: x509.Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)
