"""Where a key lies in a token or HSM, in the words of the option ``signing_pkcs11``: RFC 7512."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Self
from urllib.parse import unquote, unquote_to_bytes

from mien.errors import InvalidOption

OPTION = "signing_pkcs11"

EXAMPLE = "pkcs11:token=NAME;object=NAME?module-path=/ABSOLUTE/LIBRARY.so&pin-source=/ABSOLUTE/FILE"

TOKEN = ("token", "serial", "model", "manufacturer", "slot-id")
"""What may be said of the token."""

KEY = ("object", "id", "type")
"""What may be said of the key."""

ASKED = ("module-path", "pin-source")
"""What may be said of how to get at them."""


@dataclass(frozen=True, slots=True)
class TokenUri:
    """A PKCS #11 URI. What is None is not asked for; a PIN is never in it."""

    text: str
    """How it was said."""

    module: Path
    """The token's own library, an absolute path."""

    pin: Path | None = None
    """The file with the PIN, an absolute path; None: nobody logs in."""

    token: str | None = None
    serial: str | None = None
    model: str | None = None
    manufacturer: str | None = None
    slot: int | None = None
    object: str | None = None
    """The key's label."""

    id: bytes | None = None

    @classmethod
    def read(cls, text: str) -> Self:
        """Return what a URI such as EXAMPLE means. Raises InvalidOption, which shows no PIN.

        It must name the library and the key. A name that is not known is an error in all places,
        as one that is left out in silence would let another key fit.
        """
        path, _, query = str(text).removeprefix("pkcs11:").partition("?")
        if not str(text).startswith("pkcs11:") or re.search(r"[\s#]", text):
            _refuse(text, "a PKCS #11 URI")
        given = _parts(text, path, ";", (*TOKEN, *KEY)) | _parts(text, query, "&", ASKED)
        if given.get("type", "private") != "private":
            _refuse(text, "type=private, or no type: what signs is a private key")
        if "object" not in given and "id" not in given:
            _refuse(text, "the key's object= (its label) or id=")
        number = given.get("slot-id")
        if number is not None and not re.fullmatch(r"\d{1,19}", number, re.ASCII):
            _refuse(text, "a slot-id of digits")
        module = _file(text, "module-path", given)
        if module is None:
            _refuse(text, "the module-path= of the token's library")
        return cls(
            text=text,
            module=module,
            pin=_file(text, "pin-source", given),
            token=given.get("token"),
            serial=given.get("serial"),
            model=given.get("model"),
            manufacturer=given.get("manufacturer"),
            slot=None if number is None else int(number),
            object=given.get("object"),
            id=unquote_to_bytes(given["id"]) if "id" in given else None,
        )


def _parts(text: str, part: str, between: str, known: tuple[str, ...]) -> dict[str, str]:
    """Return the values by name, decoded but that of ``id``, which is bytes."""
    given: dict[str, str] = {}
    for one in filter(None, part.split(between)):
        name, equals, value = one.partition("=")
        if name == "pin-value":
            _refuse(text, "pin-source=, a file with the PIN: a pin-value would be seen by who lists"
                          " settings or processes")  # fmt: skip
        if name not in known:
            _refuse(text, f"there, of {', '.join(known)}; not {name!r}")
        if not equals or not value or name in given:
            _refuse(text, f"{name}= once, with a value")
        if re.search(r"%(?![0-9A-Fa-f]{2})", value):
            _refuse(text, f"two hexadecimal digits after each % of {name}=")
        try:
            given[name] = value if name == "id" else unquote(value, errors="strict")
        except UnicodeDecodeError:
            _refuse(text, f"UTF-8 in {name}=")
    return given


def _file(text: str, name: str, given: dict[str, str]) -> Path | None:
    value = given.get(name)
    if value is None:
        return None
    plain = re.sub("^file:(//)?(?=/)", "", value)
    path = Path(plain)
    if not path.is_absolute() or "\0" in plain:  # that of RFC 7512 may be a program: '|/bin/ask'
        _refuse(text, f"an absolute path as {name}=")
    return path


def _refuse(text: str, wanted: str) -> NoReturn:
    raise InvalidOption(OPTION, text, f"{wanted}; as in {EXAMPLE}")
