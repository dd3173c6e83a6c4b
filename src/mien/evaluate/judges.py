"""The judges, loaded: who a face is, how the head is turned, where its features are, how old."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from mien.engines import Engine, OnnxEngine
from mien.errors import InvalidOption
from mien.evaluate import topology
from mien.evaluate.ages import AgeJudge
from mien.evaluate.cards import (
    AttentionMeshContract,
    IdentityContract,
    JudgeCard,
    JudgeContract,
    PoseContract,
    bare,
    read_judge_card,
    shipped,
)
from mien.evaluate.pixels import cut_each
from mien.geometry import apply, fit_similarity, invert, scales, template, zoom_about_centre
from mien.models import PixelFormat

ARCFACE = PixelFormat(low=-1.0, high=1.0)
ARCFACE_SIZE = 112
"""A bare ONNX file is taken for an embedder with ArcFace's crop and range of pixels."""

"""The age network sees this many pixels, and so many eye distances to each side of the face's
middle."""


@dataclass(frozen=True, slots=True)
class IdentityJudge:
    """Embeds faces."""

    name: str
    sha256: str
    licence: str
    engine: Engine
    contract: IdentityContract

    def __call__(self, frames: Sequence[Tensor], points: Tensor, mesh: Tensor) -> Tensor:
        """Return embeddings (K, D), not scaled to unit length.

        ``frames`` are K pictures, uint8 (H, W, 3), with one face each: its five points (K, 5, 2)
        and its mesh (K, 478, 3), in pixels.
        """
        contract = self.contract
        if contract.template is not None:
            matrices = fit_similarity(points, template(contract.template).at(contract.size))
        else:
            own = mesh[:, list(contract.mesh), :2]
            matrices = fit_similarity(own, torch.tensor(contract.points))
        pixels = contract.pixels.encode(cut_each(frames, matrices, contract.size))
        return self.engine({contract.input: pixels})[contract.output].flatten(1)


@dataclass(frozen=True, slots=True)
class PoseJudge:
    """Says how heads are turned: the mean of several networks."""

    engines: tuple[Engine, ...]
    contracts: tuple[PoseContract, ...]

    def __call__(self, frames: Sequence[Tensor], boxes: Tensor) -> Tensor:
        """Return yaw, pitch and roll in degrees (K, 3) of faces with ``boxes`` (K, 4) in pixels.

        The crop is upright whatever the face's roll, so that the roll is seen.
        """
        found = []
        crops: dict[tuple[int, float], Tensor] = {}
        for engine, contract in zip(self.engines, self.contracts, strict=True):
            cut_as = contract.size, contract.margin
            if cut_as not in crops:
                crops[cut_as] = cut_each(frames, _upright(boxes, *cut_as), contract.size)
            values = contract.pixels.encode(crops[cut_as])
            found.append(engine({contract.input: values})[contract.output])
        return torch.stack(found).mean(dim=0)


@dataclass(frozen=True, slots=True)
class MeshJudge:
    """Places the 478 points of the face mesh with refined eyes and lips, and the irises."""

    engine: Engine
    contract: AttentionMeshContract

    def __call__(self, frames: Sequence[Tensor], points: Tensor) -> tuple[Tensor, Tensor]:
        """Return meshes (K, 478, 3) in frame pixels and presence logits (K,).

        ``points`` (K, 5, 2) say where the crop is taken; see Faces.points.
        """
        contract = self.contract
        size = contract.size
        place = zoom_about_centre(template(contract.template).at(size), size, contract.zoom)
        matrices = fit_similarity(points, place)
        pixels = contract.pixels.encode(cut_each(frames, matrices, size))
        outputs = self.engine({contract.input: pixels})
        count = len(points)
        mesh = torch.zeros(count, topology.POINTS, 3)
        mesh[:, : topology.COARSE] = outputs[contract.mesh].reshape(count, -1, 3)
        for name, where in (
            (contract.lips, topology.LIPS_OUTPUT),
            (contract.left_eye, topology.LEFT_EYE_OUTPUT),
            (contract.right_eye, topology.RIGHT_EYE_OUTPUT),
            (contract.left_iris, topology.LEFT_IRIS),
            (contract.right_iris, topology.RIGHT_IRIS),
        ):
            mesh[:, list(where), :2] = outputs[name].reshape(count, -1, 2)
        back = invert(matrices)
        flat = apply(back, mesh[..., :2])
        depth = mesh[..., 2:] * scales(back)[:, None, None]
        return torch.cat([flat, depth], dim=-1), outputs[contract.presence].reshape(count)


@dataclass(frozen=True, slots=True)
class Judges:
    """All judges of a run. The first of ``identity`` is the one by which pairs are ranked."""

    identity: tuple[IdentityJudge, ...]
    pose: PoseJudge
    mesh: MeshJudge
    age: AgeJudge | None = None

    @classmethod
    def load(
        cls, extra: Iterable[Path] = (), *, age: Path | None = None, threads: int | None = None
    ) -> Judges:
        """Load the judges in the package, and further judges of identity from files.

        ``extra`` are cards (.toml, role "identity") or bare ONNX files, which are taken for
        embedders in ArcFace's manner: RGB from -1 to 1, 112 pixels, aligned by five points. ``age``
        is the ONNX file of the age network. Raises ModelError, EngineError, InvalidOption.
        """
        identity = [_identity(Path(path), threads) for path in extra]
        identity += [_carded(card, contract, threads) for card, contract in shipped("identity")]
        names = [judge.name for judge in identity]
        if len(set(names)) < len(names):
            raise InvalidOption("judge", ", ".join(names), "judges with different names")
        poses = shipped("pose")
        ((mesh, mesh_contract),) = shipped("mesh")
        return cls(
            tuple(identity),
            PoseJudge(
                tuple(_engine(card, threads) for card, _ in poses),
                tuple(cast("PoseContract", contract) for _, contract in poses),
            ),
            MeshJudge(_engine(mesh, threads), cast("AttentionMeshContract", mesh_contract)),
            None if age is None else AgeJudge.read(age, threads=threads),
        )

    def account(self) -> list[dict[str, Any]]:
        """Return who judges, ready for JSON."""
        return [
            {"name": judge.name, "sha256": judge.sha256, "licence": judge.licence}
            for judge in self.identity
        ] + [
            {"name": card.name, "sha256": card.sha256, "licence": card.licence}
            for card, _ in (*shipped("pose"), *shipped("mesh"))
        ]


def _identity(path: Path, threads: int | None) -> IdentityJudge:
    """Return the judge in a file: a card, or an embedder in ArcFace's manner."""
    if path.suffix.lower() == ".toml":
        card, contract = read_judge_card(path)
        return _carded(card, contract, threads)
    engine, digest = bare(path, "judge", threads)
    shapes = [port.shape[1:] for port in engine.inputs]
    if shapes != [(3, ARCFACE_SIZE, ARCFACE_SIZE)]:
        allowed = f"an embedder of crops (3, {ARCFACE_SIZE}, {ARCFACE_SIZE}), or a card (.toml)"
        raise InvalidOption("judge", str(path), allowed)
    contract = IdentityContract(
        input=engine.inputs[0].name,
        output=engine.outputs[0].name,
        pixels=ARCFACE,
        size=ARCFACE_SIZE,
        template="arcface_112_v2",
    )
    return IdentityJudge(path.stem, digest, "not stated", engine, contract)


def _carded(card: JudgeCard, contract: JudgeContract, threads: int | None) -> IdentityJudge:
    if not isinstance(contract, IdentityContract):
        raise InvalidOption("judge", card.name, "a judge of identity")
    return IdentityJudge(card.name, card.sha256, card.licence, _engine(card, threads), contract)


def _engine(card: JudgeCard, threads: int | None) -> Engine:
    return OnnxEngine(card.name, card.read, threads=threads)


def _upright(boxes: Tensor, size: int, margin: float) -> Tensor:
    """Return the maps (K, 2, 3) from pixels to square crops around ``boxes``, without a turn."""
    middle = (boxes[:, :2] + boxes[:, 2:]) / 2
    side = (boxes[:, 2:] - boxes[:, :2]).amax(dim=1) * margin
    scale = size / side
    linear = scale[:, None, None] * torch.eye(2)
    shift = (size - 1) / 2 - scale[:, None] * middle
    return torch.cat([linear, shift[:, :, None]], dim=2)
