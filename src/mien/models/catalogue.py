"""The catalogue of networks: one card (a TOML file) beside each weights file.

A card says where the network comes from, under which licence, what its file must hash to, what it
expects and returns, and what was measured. The package carries cards in ``mien/weights``; a user's
own folder may add more and is looked at first.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeVar, get_args

from mien.errors import CardInvalid, UnknownModel, WeightsCorrupt, WeightsMissing
from mien.models.contracts import (
    Contract,
    DetectorContract,
    EmbedderContract,
    MeshContract,
    PixelFormat,
    SwapperContract,
)

Role = Literal["detector", "mesh", "embedder", "swapper"]
ROLES: tuple[Role, ...] = get_args(Role)

CONTRACTS: Mapping[str, type[Contract]] = MappingProxyType(
    {
        "detector": DetectorContract,
        "mesh": MeshContract,
        "embedder": EmbedderContract,
        "swapper": SwapperContract,
    }
)
SHIPPED = Path(__file__).parent.parent / "weights"

T = TypeVar("T")


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

    sha256: str
    licence: str
    """SPDX identifier, or the terms in words."""

    commercial: bool
    """Whether commercial use is allowed by the licence and by the training data's terms."""

    origin: str
    notice: Path | None
    """Licence or notice text that travels with the file."""

    contract: Contract
    measured: Mapping[str, Any]

    @property
    def present(self) -> bool:
        """Whether the weights file is there (its content is checked by ``read``)."""
        return self.file.is_file()

    def read(self) -> bytes:
        """Return the content of the weights file, checked against the card.

        Raises WeightsMissing, and WeightsCorrupt when size or sha256 differ: nothing else in mien
        opens weights, so a damaged file is never run.
        """
        try:
            content = self.file.read_bytes()
        except FileNotFoundError:
            raise WeightsMissing(
                f"The weights of {self.name!r} are missing: no file at {self.file}. "
                "Reinstall mien, or put the file there.",
                model=self.name,
            ) from None
        except OSError as error:
            raise WeightsMissing(
                f"The weights of {self.name!r} at {self.file} cannot be read: {error.strerror}.",
                model=self.name,
            ) from error
        found = hashlib.sha256(content).hexdigest()
        if found != self.sha256:
            raise WeightsCorrupt(
                f"{self.file} is damaged or is another file: {len(content)} bytes with sha256 "
                f"{found[:16]}…, expected {self.size} bytes with {self.sha256[:16]}…. "
                "It was not run. Replace it by the original.",
                model=self.name,
            )
        return content


class Catalogue:
    """All known networks by name.

    ``folder`` holds the user's own cards; one with a shipped network's name takes its place.
    """

    def __init__(self, folder: Path | None = None) -> None:
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
        role = table["role"]
        if role not in CONTRACTS:
            raise ValueError(f"role {role!r} is unknown; allowed: {', '.join(CONTRACTS)}")
        table["contract"] = _contract(CONTRACTS[role], table["contract"])
        table["file"] = path.parent / table["file"]
        notice = table.get("notice")
        table["notice"] = path.parent / notice if notice else None
        table["measured"] = MappingProxyType(table.get("measured", {}))
        return _build(Card, table)
    except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
        fault = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise CardInvalid(
            f"The model card {path} is not valid: {fault}.", model=path.stem
        ) from None


def _contract(kind: type[Contract], table: dict[str, Any]) -> Contract:
    table = {key: _frozen(value) for key, value in table.items() if key != "pixels"} | {
        "pixels": _build(PixelFormat, {k: _frozen(v) for k, v in table["pixels"].items()})
    }
    return _build(kind, table)


def _build(kind: type[T], table: dict[str, Any]) -> T:
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    if unknown := sorted(set(table) - known):
        raise ValueError(f"unknown keys {', '.join(unknown)}")
    return kind(**table)


def _frozen(value: Any) -> Any:
    """Turn TOML's lists into tuples, at every depth."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
