"""A key in a token or HSM, by PKCS #11: it signs there, and mien never has it.

The token's own library is loaded into the process, so it is trusted as much as mien is. The PIN is
read from its file when it is needed, is given to that library, and is in no message.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any

from mien.errors import CertificateUnusable, TokenUnusable
from mien.token_uri import TokenUri

HASHES = {"es256": "sha256", "es384": "sha384", "es512": "sha512", "ps256": "sha256"}
"""What is signed of the content, by C2PA's name of the signature; Ed25519 signs all of it."""

MOST = 4096
"""Bytes of a file with a PIN that are read: a longer one is another file."""

_lock = Lock()
"""One call at a time: libraries of tokens need not allow more."""

_sessions: dict[tuple[str, bytes], Any] = {}
"""Open sessions by library and token: a token lets a process log in once."""

_refused: set[tuple[str, bytes, str]] = set()
"""Libraries, tokens and sha256 of PINs that were wrong: a token locks itself after some."""


class TokenKey:
    """The private key to which ``uri`` leads, which signs by ``algorithm``, C2PA's name.

    ``public`` is its certificate's key. For any number of threads. Nothing is looked at before
    something is signed. Methods raise TokenUnusable.
    """

    def __init__(self, uri: TokenUri, algorithm: str, public: Any) -> None:
        self.uri, self.algorithm, self._public = uri, algorithm, public
        self._found: tuple[Any, Any] = (None, None)  # a session, and the key that it found

    def __call__(self, content: bytes) -> bytes:
        """Return the signature of ``content`` as C2PA wants it: of EC r and s, one after another.

        A token that was taken out and put back is logged into anew.
        """
        with _lock:
            pkcs11 = self._binding()
            try:
                return self._sign(pkcs11, content)
            except pkcs11.PKCS11Error:
                self._forget()
            try:
                return self._sign(pkcs11, content)
            except pkcs11.PKCS11Error as error:
                self._forget()
                raise self._unusable(
                    f"it does not sign ({_said(error)}); look whether the token is there and "
                    "allows the key to sign"
                ) from None

    def check(self, certificate: Path) -> None:
        """Sign something. Raises CertificateUnusable if the key is another certificate's."""
        from cryptography.exceptions import InvalidSignature

        content = b"mien"
        try:
            self._verify(self(content), content)
        except (InvalidSignature, ValueError):
            reason = "the key in the token is another certificate's; name the one that was issued"
            raise CertificateUnusable(certificate, f"{reason} for this key") from None

    def _sign(self, pkcs11: Any, content: bytes) -> bytes:
        """Sign in an open session. Raises PKCS11Error as well."""
        session, pin = self._session(pkcs11)
        if self._found[0] is not session:
            self._found = (session, self._key(pkcs11, session))
        key = self._found[1]
        algorithm = self.algorithm
        options: dict[str, Any] = {"mechanism": pkcs11.Mechanism.EDDSA}
        if algorithm in HASHES:
            content = hashlib.new(HASHES[algorithm], content).digest()
            options = {"mechanism": pkcs11.Mechanism.ECDSA}
        if algorithm == "ps256":
            salted = (pkcs11.Mechanism.SHA256, pkcs11.MGF.SHA256, 32)
            options = {"mechanism": pkcs11.Mechanism.RSA_PKCS_PSS, "mechanism_param": salted}
        if pin is not None and _says(pkcs11, key, pkcs11.Attribute.ALWAYS_AUTHENTICATE):
            options["pin"] = pin()
        return bytes(key.sign(content, **options))

    def _verify(self, signature: bytes, content: bytes) -> None:
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, padding
        from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

        if self.algorithm == "ed25519":
            self._public.verify(signature, content)
            return
        kind = getattr(hashes, HASHES[self.algorithm].upper())()
        if self.algorithm == "ps256":
            salted = padding.PSS(padding.MGF1(kind), 32)
            self._public.verify(signature, content, salted, kind)
            return
        half = len(signature) // 2
        pair = [int.from_bytes(part) for part in (signature[:half], signature[half:])]
        self._public.verify(encode_dss_signature(*pair), content, ec.ECDSA(kind))

    def _binding(self) -> Any:
        try:
            import pkcs11
        except ImportError:
            reason = "python-pkcs11 is not installed; pip install 'mien[pkcs11]'"
            raise self._unusable(reason) from None
        return pkcs11

    def _session(self, pkcs11: Any) -> tuple[Any, Callable[[], str] | None]:
        """Return an open session, and what reads the PIN if there is one."""
        token = self._token(pkcs11)
        place = self._place(token)
        pin = None if self.uri.pin is None else self._pin
        if place not in _sessions:
            _sessions[place] = self._open(pkcs11, token, place, None if pin is None else pin())
        return _sessions[place], pin

    def _token(self, pkcs11: Any) -> Any:
        module, uri = self.uri.module, self.uri
        if not module.is_file():
            raise self._unusable(
                "there is no such file; name the library of the token's maker as module-path="
            )
        try:
            library = pkcs11.lib(str(module))
        except pkcs11.PKCS11Error as error:
            raise self._unusable(
                f"it is no PKCS #11 library that can be loaded here ({_said(error)}); name that of "
                "the token's maker as module-path="
            ) from None
        there = []
        for slot in library.get_slots(token_present=True):
            try:
                token = slot.get_token()
            except (pkcs11.TokenNotPresent, pkcs11.TokenNotRecognised):
                continue
            if pkcs11.TokenFlag.TOKEN_INITIALIZED in token.flags:
                there.append(token)
        found = [token for token in there if _fits(token, uri)]
        if not found:
            names = ", ".join(sorted(repr(token.label) for token in there)) or "none"
            raise self._unusable(f"no token there is the one that is named; there are: {names}. "
                                 "Put it in, or correct token=, serial=, slot-id=")  # fmt: skip
        if len(found) > 1:
            serials = ", ".join(_text(token.serial) for token in found)
            raise self._unusable(f"{len(found)} tokens fit; say serial=, of {serials}")
        return found[0]

    def _open(self, pkcs11: Any, token: Any, place: tuple[str, bytes], pin: str | None) -> Any:
        if pin is None:
            return token.open()
        file = self.uri.pin
        tried = (*place, hashlib.sha256(pin.encode()).hexdigest())
        wrong = f"the PIN in {file} is wrong; correct it there. It is tried once, as a token locks"
        if tried in _refused:
            raise self._unusable(f"{wrong} itself after some wrong ones")
        try:
            return token.open(user_pin=pin)
        except pkcs11.UserAlreadyLoggedIn:  # something else in this process did
            return token.open()
        except (pkcs11.PinIncorrect, pkcs11.PinInvalid, pkcs11.PinLenRange):
            _refused.add(tried)
            raise self._unusable(f"{wrong} itself after some wrong ones") from None
        except (pkcs11.PinLocked, pkcs11.PinExpired, pkcs11.UserPinNotInitialized) as error:
            raise self._unusable(
                f"the token lets nobody in ({_said(error)}); its maker's tool sets a new PIN"
            ) from None

    def _pin(self) -> str:
        file = self.uri.pin
        assert file is not None
        try:
            with file.open("rb") as opened:
                content = opened.read(MOST + 1).decode().rstrip("\r\n")
        except OSError as error:
            why = error.strerror or type(error).__name__
            reason = f"the file of the PIN, {file}, cannot be read ({why}); correct pin-source="
            raise self._unusable(reason) from None
        except UnicodeDecodeError:
            content = ""
        if not content or len(content) > MOST:
            reason = f"{file} holds no PIN; write it there as its only line, in UTF-8"
            raise self._unusable(reason)
        return content

    def _key(self, pkcs11: Any, session: Any) -> Any:
        attribute, uri = pkcs11.Attribute, self.uri
        wanted: dict[Any, Any] = {attribute.CLASS: pkcs11.ObjectClass.PRIVATE_KEY}
        if uri.object is not None:
            wanted[attribute.LABEL] = uri.object
        if uri.id is not None:
            wanted[attribute.ID] = uri.id
        found = list(session.get_objects(wanted))
        if not found:
            hint = "correct object= or id="
            if uri.pin is None:
                hint += ", or name a file with the PIN as pin-source=: without it keys are hidden"
            raise self._unusable(f"no private key in the token is the one that is named; {hint}")
        if len(found) > 1:
            raise self._unusable(f"{len(found)} private keys fit; say which one by id=")
        key = found[0]
        allowed = {
            "RSA": ("ps256",),
            "EC": ("es256", "es384", "es512"),
            "EC_EDWARDS": ("ed25519",),
        }
        kind = getattr(key.key_type, "name", str(key.key_type))
        if kind not in allowed:
            raise self._unusable(
                f"it is of a kind that C2PA does not allow ({kind}); use EC P-256, P-384 or P-521, "
                "RSA of 2048 bits or more, or Ed25519"
            )
        if self.algorithm not in allowed[kind]:
            raise self._unusable(
                f"it is an {kind} key, and the certificate's is another kind; name the certificate "
                "that was issued for this key"
            )
        if not _says(pkcs11, key, attribute.SIGN, otherwise=True):
            raise self._unusable("the token does not let it sign (CKA_SIGN); use a key made for it")
        return key

    def _place(self, token: Any) -> tuple[str, bytes]:
        return str(self.uri.module), token.serial

    def _forget(self) -> None:
        """Drop the sessions of this library: the next one logs in anew."""
        for place in [place for place in _sessions if place[0] == str(self.uri.module)]:
            try:
                _sessions.pop(place).close()
            except RuntimeError:  # of what is gone, which is all that is wanted
                continue

    def _unusable(self, reason: str) -> TokenUnusable:
        return TokenUnusable(self.uri.module, reason)


def _fits(token: Any, uri: TokenUri) -> bool:
    pairs = (
        (uri.token, token.label),
        (uri.serial, _text(token.serial)),
        (uri.model, token.model),
        (uri.manufacturer, token.manufacturer_id),
        (uri.slot, token.slot.slot_id),
    )
    return all(wanted is None or wanted == found for wanted, found in pairs)


def _says(pkcs11: Any, key: Any, attribute: Any, *, otherwise: bool = False) -> bool:
    """Return whether the token says yes of the key, or ``otherwise`` if it does not know."""
    try:
        return bool(key[attribute])
    except (pkcs11.AttributeTypeInvalid, pkcs11.AttributeSensitive):
        return otherwise


def _text(serial: bytes | str) -> str:
    return serial if isinstance(serial, str) else serial.decode("utf-8", "replace").strip("\0 ")


def _said(error: Exception) -> str:
    """Return what the library says: most of its errors are a name alone."""
    name = type(error).__name__
    return f"{name}: {error}" if str(error) else name
