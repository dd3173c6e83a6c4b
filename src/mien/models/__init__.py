"""The catalogue: names to networks, their files, contracts and licences."""

from mien.models.catalogue import CONTRACTS, ROLES, Card, Catalogue, Role, read_weights
from mien.models.contracts import (
    AgeContract,
    ContentContract,
    Contract,
    DetectorContract,
    EmbedderContract,
    MeshContract,
    OcclusionContract,
    PixelFormat,
    SwapperContract,
    WatermarkContract,
)

__all__ = [
    "CONTRACTS",
    "ROLES",
    "AgeContract",
    "Card",
    "Catalogue",
    "ContentContract",
    "Contract",
    "DetectorContract",
    "EmbedderContract",
    "MeshContract",
    "OcclusionContract",
    "PixelFormat",
    "Role",
    "SwapperContract",
    "WatermarkContract",
    "read_weights",
]
