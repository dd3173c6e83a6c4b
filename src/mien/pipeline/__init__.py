"""The stages, composed: finding faces, knowing people, swapping a frame."""

from mien.pipeline.cache import EmbeddingCache
from mien.pipeline.casting import Cast, assign, in_order
from mien.pipeline.finder import FaceFinder
from mien.pipeline.frame import Pipeline
from mien.pipeline.identify import Identifier
from mien.pipeline.patch import Blend
from mien.pipeline.stopwatch import Stopwatch

__all__ = [
    "Blend",
    "Cast",
    "EmbeddingCache",
    "FaceFinder",
    "Identifier",
    "Pipeline",
    "Stopwatch",
    "assign",
    "in_order",
]
