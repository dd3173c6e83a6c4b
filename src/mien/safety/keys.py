"""The key with which this machine's user signs consent records and the audit log.

It is a file in mien's own folder, made at first use, that nobody else may read. A signature shows
that what it is under was written with this key and not changed since. It does not show who sat at
the machine: whoever can read the key can sign with it.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from platformdirs import user_data_path

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

WAIT = 20.0
"""Seconds to wait for another process before it is an error."""


def home() -> Path:
    """Return the folder of mien's own files: MIEN_HOME, or the user's data folder."""
    named = os.environ.get("MIEN_HOME")
    return Path(named).expanduser() if named else user_data_path("mien", appauthor=False)


def canonical(content: dict[str, Any]) -> str:
    """Return ``content`` as the one JSON text that is signed and hashed, in ASCII."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


class Key:
    """An Ed25519 key in the file ``path``; the file is made when something is first signed.

    Methods raise OSError if the file cannot be read or made, ValueError if it is no such key.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def sign(self, purpose: str, text: str) -> str:
        """Return the signature of ``text`` in hex; ``purpose`` keeps kinds of text apart."""
        return self._private.sign(_message(purpose, text)).hex()

    def verify(self, purpose: str, text: str, signature: str) -> bool:
        """Return whether ``signature`` was made by ``sign`` with this key."""
        from cryptography.exceptions import InvalidSignature

        public = self._private.public_key()
        try:
            public.verify(bytes.fromhex(signature), _message(purpose, text))
        except (InvalidSignature, ValueError, TypeError):
            return False
        return True

    @cached_property
    def public(self) -> str:
        """The public key, 32 bytes in hexadecimal: whoever has it can check signatures."""
        return self._private.public_key().public_bytes_raw().hex()

    @cached_property
    def name(self) -> str:
        """A short name of the key, by which records say who signed them."""
        return hashlib.sha256(bytes.fromhex(self.public)).hexdigest()[:16]

    @cached_property
    def _private(self) -> Ed25519PrivateKey:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        if not os.path.exists(self.path):  # noqa: PTH110 - this one is False, too, behind a lock
            self._make()
        try:
            key = load_pem_private_key(self.path.read_bytes(), None)
        except (ValueError, TypeError) as error:
            raise ValueError(f"the key {self.path} is damaged ({error})") from None
        if not isinstance(key, Ed25519PrivateKey):
            raise ValueError(f"the key {self.path} is no Ed25519 key")
        return key

    def _make(self) -> None:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from filelock import FileLock

        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with FileLock(self.path.with_suffix(".lock"), timeout=WAIT, mode=0o600):
            if self.path.exists():  # another process was first
                return
            content = Ed25519PrivateKey.generate().private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            write_whole(self.path, content)


def write_whole(path: Path, content: bytes) -> None:
    """Put ``content`` in the file ``path``, for its owner alone: all or nothing of it."""
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # its mode is 0600
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


def _message(purpose: str, text: str) -> bytes:
    return f"mien {purpose} 1\n{text}".encode()
