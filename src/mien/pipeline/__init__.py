"""The stages, composed: finding faces, making identities, swapping a frame."""

from mien.pipeline.cache import EmbeddingCache
from mien.pipeline.finder import FaceFinder
from mien.pipeline.frame import Blend, Pipeline, Which
from mien.pipeline.identify import Identifier
from mien.pipeline.stopwatch import Stopwatch

__all__ = ["Blend", "EmbeddingCache", "FaceFinder", "Identifier", "Pipeline", "Stopwatch", "Which"]
