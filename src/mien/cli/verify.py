"""``mien verify``: what a file shows of its origin."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mien.cli.exits import Exit
from mien.cli.options import Json
from mien.errors import InvalidOption

if TYPE_CHECKING:
    from mien.safety.verify import Verdict, Verified

HEADLINES: dict[Verdict, tuple[str, Exit]] = {
    "proven": ("its origin is proven", Exit.SUCCESS),
    "unproven": ("something tells of its origin, and nothing proves it", Exit.UNPROVEN),
    "tampered": ("it was tampered with", Exit.TAMPERED),
    "nothing": ("nothing tells of its origin", Exit.NOTHING),
}


def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A picture or clip.")],
    *,
    trust: Annotated[
        Path | None,
        typer.Option(
            help="PEM file of authorities whose certificates are trusted.", show_default="none"
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Say what FILE shows of its origin: what is proven, what is probable, what is unknown.

    The signed manifest is read, in FILE or in FILE.c2pa beside it, marks in the metadata, and the
    watermark in the pixels, also of a copy that was cropped, turned, resized or coded anew.
    Nobody on the network is asked. It ends with 0 if the origin is proven by a certificate of yours
    or of an authority in --trust; with 7 if the file or its manifest was tampered with; with 8 if
    something tells of the origin and does not prove it: a certificate that nobody knows, or marks
    or a watermark alone; with 9 if there is nothing.
    """
    from mien.safety import Ledger
    from mien.safety.verify import own_certificates
    from mien.safety.verify import verify as look
    from mien.settings import load
    from mien.token_uri import TokenUri
    from mien.watermarked import WatermarkLooker

    settings = load({"trust": trust}).settings
    token = TokenUri.read(settings.signing_pkcs11) if settings.signing_pkcs11 else None
    own = own_certificates(settings.certificate, settings.private_key, token)
    looker = WatermarkLooker(Ledger(settings.ledger).audit)
    authorities = _authorities(settings.trust)
    verified = look(file, own=own, trust=authorities, lookers=[looker])
    headline, code = HEADLINES[verified.verdict]
    if as_json:
        print(json.dumps({"verdict": verified.verdict, **_report(verified)}, indent=2))
        return code
    print(f"{file}: {headline}")
    for kind, sentences in (
        ("wrong", verified.manifest.problems if verified.manifest else ()),
        ("proven", verified.proven),
        ("probable", verified.probable),
        ("unknown", verified.unknown),
    ):
        for sentence in sentences:
            print(f"{kind:<8}  {_printable(sentence)}")
    return code


def _report(verified: Verified) -> dict[str, object]:
    report = {**asdict(verified), "path": str(verified.path)}
    report.pop("verdict")
    return report


def _authorities(path: Path | None) -> bytes | None:
    if path is None:
        return None
    from cryptography.x509 import load_pem_x509_certificates

    try:
        content = path.read_bytes()
        load_pem_x509_certificates(content)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "there is no certificate in it"
        raise InvalidOption("trust", str(path), f"a PEM file of certificates ({why})") from None
    return content


def _printable(text: str) -> str:
    """Return text from a file of unknown origin, without what would move a terminal's cursor."""
    return "".join(each if each.isprintable() else "?" for each in text)
