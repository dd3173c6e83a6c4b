"""Alignment: faces cut out of a frame, upright and in the place a network was taught."""

from __future__ import annotations

from typing import Protocol

from mien.geometry import cut, fit_similarity, template
from mien.types import Crops, Faces, Frame


class Aligned(Protocol):
    """The part of a contract that says how a network wants its faces."""

    @property
    def template(self) -> str:
        """Name of the five-point template."""
        ...

    @property
    def size(self) -> int:
        """Side of the crop in pixels."""
        ...


def align(frame: Frame, faces: Faces, contract: Aligned) -> Crops:
    """Return crops of ``faces``, true to their roll, as the contract's network wants them.

    Their pixels lie where the frame's do, their matrices where the faces do.
    """
    to = template(contract.template).at(contract.size).to(faces.points.device)
    matrices = fit_similarity(faces.points, to)
    return Crops(cut(frame.view, matrices, contract.size), matrices, contract.template)
