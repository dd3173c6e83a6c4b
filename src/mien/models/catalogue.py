"""The catalogue of networks: one card (a TOML file) beside each weights file.

A card says where the network comes from, under which licence, what its file must hash to, what it
expects and returns, and what was measured. The package carries cards in ``mien/weights``; a user's
own folder may add more and is looked at first.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args

from pydantic import SkipValidation, TypeAdapter, ValidationError, with_config
from pydantic_core import ErrorDetails

from mien.errors import CardInvalid, InvalidOption, UnknownModel, WeightsCorrupt, WeightsMissing
from mien.models.contracts import (
    AgeContract,
    ContentContract,
    Contract,
    DetectorContract,
    EmbedderContract,
    MeshContract,
    OcclusionContract,
    SwapperContract,
    WatermarkContract,
)

Role = Literal[
    "detector", "mesh", "embedder", "swapper", "occlusion", "age", "content", "watermark"
]
ROLES: tuple[Role, ...] = get_args(Role)

CONTRACTS: Mapping[Role, type[Contract]] = MappingProxyType(
    {
        "detector": DetectorContract,
        "mesh": MeshContract,
        "embedder": EmbedderContract,
        "swapper": SwapperContract,
        "occlusion": OcclusionContract,
        "age": AgeContract,
        "content": ContentContract,
        "watermark": WatermarkContract,
    }
)
SHIPPED = Path(__file__).parent.parent / "weights"


@with_config(extra="forbid")
@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One network: what a user must know before running it."""

    name: str
    role: Role
    summary: str
    file: Path
    """The weights, an ONNX file; it need not be present."""

    size: int
    """Bytes of the file."""

    package: str = ""
    """Package that carries the file; empty if it lies beside the card."""

    sha256: str
    licence: str
    """SPDX identifier, or the terms in words."""

    commercial: bool
    """Whether commercial use is allowed by the licence and by the training data's terms."""

    origin: str
    notice: Path | None = None
    """Licence or notice text that travels with the file."""

    contract: SkipValidation[Contract]
    """What the network expects and returns; which kind depends on ``role``."""

    measured: Mapping[str, Any] = field(default_factory=dict)
    """What was found out about it, in words and numbers."""

    @property
    def present(self) -> bool:
        """Whether the weights file is there (its content is checked by ``read``)."""
        return self.file.is_file()

    def read(self) -> bytes:
        """Return the content of the weights file, checked against the card.

        Raises WeightsMissing, and WeightsCorrupt when size or sha256 differ: nothing else in mien
        opens weights, so a damaged file is never run.
        """
        return read_weights(self.name, self.file, self.size, self.sha256)


def read_weights(name: str, file: Path, size: int, sha256: str) -> bytes:
    """Return the content of ``file``, the weights of ``name``, if it is what it should be.

    A file whose name ends in .xz is unpacked; size and sha256 are those of what was packed. Raises
    WeightsMissing, and WeightsCorrupt when they differ.
    """
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        raise WeightsMissing(
            f"The weights of {name!r} are missing: no file at {file}. "
            "Reinstall mien, or put the file there.",
            model=name,
        ) from None
    except OSError as error:
        raise WeightsMissing(
            f"The weights of {name!r} at {file} cannot be read: {error.strerror}.",
            model=name,
        ) from error
    if file.suffix == ".xz":
        with suppress(lzma.LZMAError):  # what is damaged is told by its digest
            content = lzma.decompress(content)
    found = hashlib.sha256(content).hexdigest()
    if found != sha256 or len(content) != size:
        raise WeightsCorrupt(
            f"{file} is damaged or is another file: {len(content)} bytes with sha256 "
            f"{found[:16]}…, expected {size} bytes with {sha256[:16]}…. "
            "It was not run. Replace it by the original.",
            model=name,
        )
    return content


class Catalogue:
    """All known networks by name.

    ``folder`` holds the user's own cards; one with a shipped network's name takes its place.
    Raises InvalidOption when the folder is not there, CardInvalid for a faulty card.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        folder = Path(folder) if folder else None
        if folder is not None and not folder.is_dir():
            raise InvalidOption("models", str(folder), "a folder that is there")
        self._cards: dict[str, Card] = {}
        for place in (SHIPPED, folder):
            if place is not None:
                for path in sorted(place.glob("*.toml")):
                    card = read_card(path)
                    self._cards[card.name] = card

    def __iter__(self) -> Iterator[Card]:
        return iter(sorted(self._cards.values(), key=lambda c: (ROLES.index(c.role), c.name)))

    def __len__(self) -> int:
        return len(self._cards)

    def card(self, name: str, role: Role | None = None) -> Card:
        """Return the card called ``name``; raises UnknownModel if it is not of ``role``."""
        card = self._cards.get(name)
        if card is None or (role is not None and card.role != role):
            known = (c.name for c in self if role is None or c.role == role)
            raise UnknownModel(name, role, known)
        return card


def read_card(path: Path) -> Card:
    """Return the card in the TOML file ``path``; raises CardInvalid, which names the fault."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        return _card(table, path.parent)
    except ValidationError as error:
        fault = "; ".join(map(_describe, error.errors()))
    except (OSError, ValueError, TypeError) as error:
        fault = str(error)
    raise CardInvalid(f"The model card {path} is not valid: {fault}.", model=path.stem)


def _describe(fault: ErrorDetails) -> str:
    where, found = ".".join(map(str, fault["loc"])), fault["input"]
    shown = "" if isinstance(found, dict) else f", not {found!r}"
    return f"{where}: {fault['msg']}{shown}"


def _card(table: dict[str, Any], folder: Path) -> Card:
    kind = CONTRACTS.get(table.get("role"))  # type: ignore[arg-type]
    if kind is None:
        raise ValueError(f"role {table.get('role')!r} is unknown; allowed: {', '.join(ROLES)}")
    contract = _checked(kind, table.pop("contract", {}))
    card: Card = _checked(Card, table | {"contract": None})
    return replace(
        card,
        contract=contract,
        file=_carrier(card.package, folder) / card.file,
        notice=folder / card.notice if card.notice else None,
    )


def _carrier(package: str, folder: Path) -> Path:
    """Return the folder of ``package``, which is not run; if it is not there, one that is not."""
    if not package:
        return folder
    found = find_spec(package)
    if found is None or found.origin is None:
        return folder / package
    return Path(found.origin).parent


def _checked(kind: Any, table: Any) -> Any:
    """Build a dataclass of a TOML table; every value must have the type of its field."""
    return TypeAdapter(kind).validate_json(json.dumps(table), strict=True)
