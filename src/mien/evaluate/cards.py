"""The judges' cards: what each network that measures is, and how it wants its pixels.

They have the form of the catalogue's cards (see :mod:`mien.models.catalogue`) and roles of their
own. Judges only measure: no swap network may have been trained with one of them.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from pydantic import TypeAdapter, ValidationError, with_config

from mien.engines import Engine, OnnxEngine
from mien.errors import CardInvalid, EngineError, InvalidOption
from mien.models import PixelFormat, read_weights

SHIPPED = Path(__file__).parent / "weights"
STRICT = with_config(extra="forbid")


@STRICT
@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityContract:
    """A network that maps a face to numbers by which people are told apart."""

    input: str
    output: str
    pixels: PixelFormat
    size: int
    template: str | None = None
    """Name of the five-point template of its crop; None if it has mesh points of its own."""

    mesh: tuple[int, ...] = ()
    """Mesh points by which its crop is aligned, ..."""

    points: tuple[tuple[float, float], ...] = ()
    """... and where in the crop they belong, in pixels."""

    same_person: float | None = None
    """Greatest Euclidean distance of one person's embeddings, by the authors; None if unknown."""


@STRICT
@dataclass(frozen=True, slots=True, kw_only=True)
class PoseContract:
    """A network that says how a head is turned: yaw, pitch and roll in degrees."""

    input: str
    output: str
    pixels: PixelFormat
    size: int
    margin: float
    """Side of its upright square crop, by the longer side of the box around the face mesh."""


@STRICT
@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionMeshContract:
    """The face mesh with attention: a coarse mesh, and finer parts that replace some points."""

    input: str
    pixels: PixelFormat
    mesh: str
    lips: str
    left_eye: str
    right_eye: str
    left_iris: str
    right_iris: str
    presence: str
    """Output with one logit: positive when the crop shows an upright face."""

    size: int
    template: str
    zoom: float
    """The crop shows this many times the side of the template's crop, around the same centre."""


JudgeContract: TypeAlias = IdentityContract | PoseContract | AttentionMeshContract
JudgeRole = Literal["identity", "pose", "mesh"]

CONTRACTS: Mapping[str, type[JudgeContract]] = MappingProxyType(
    {"identity": IdentityContract, "pose": PoseContract, "mesh": AttentionMeshContract}
)


@STRICT
@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeCard:
    """One judge: what must be known before its numbers are believed."""

    name: str
    role: JudgeRole
    summary: str
    file: Path
    size: int
    """Bytes of the file."""

    sha256: str
    licence: str
    commercial: bool
    origin: str
    contract: dict[str, Any]
    """The fields of the role's contract."""

    notice: Path | None = None
    measured: Mapping[str, Any] = field(default_factory=dict)

    def read(self) -> bytes:
        """Return the content of the weights file; raises WeightsMissing, WeightsCorrupt."""
        return read_weights(self.name, self.file, self.size, self.sha256)


def read_judge_card(path: Path) -> tuple[JudgeCard, JudgeContract]:
    """Return the card in the TOML file ``path`` and its contract; raises CardInvalid."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        card = _checked(JudgeCard, table | {"file": str(path.parent / str(table.get("file")))})
        contract = _checked(CONTRACTS[card.role], card.contract)
    except ValidationError as error:
        first = error.errors()[0]
        fault = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    except (OSError, ValueError) as error:
        fault = str(error)
    else:
        return card, contract
    raise CardInvalid(f"The judge's card {path} is not valid: {fault}.", model=path.stem)


def shipped(role: JudgeRole) -> list[tuple[JudgeCard, JudgeContract]]:
    """Return the cards of ``role`` that come in the package, by name."""
    cards = [read_judge_card(path) for path in sorted(SHIPPED.glob("*.toml"))]
    return sorted((one for one in cards if one[0].role == role), key=lambda one: one[0].name)


def _checked(kind: Any, table: Any) -> Any:
    """Build a dataclass of a TOML table; every value must have the type of its field."""
    return TypeAdapter(kind).validate_json(json.dumps(table), strict=True)


def bare(path: Path, option: str, threads: int | None) -> tuple[Engine, str]:
    """Return the network in an ONNX file without a card, and the file's sha256.

    Raises InvalidOption, which names ``option``.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidOption(option, str(path), f"a file that is there ({error.strerror})") from None
    try:
        engine = OnnxEngine(path.stem, lambda: content, threads=threads)
    except EngineError as error:
        raise InvalidOption(option, str(path), f"an ONNX network ({error})") from error
    return engine, hashlib.sha256(content).hexdigest()
