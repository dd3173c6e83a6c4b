"""The stages, composed: finding faces, knowing people, swapping pictures and clips."""

from mien.pipeline.cache import EmbeddingCache
from mien.pipeline.casting import Cast, assign, in_order
from mien.pipeline.clip import MEMORY, ClipPipeline, Made, Seen
from mien.pipeline.finder import FaceFinder
from mien.pipeline.frame import Pipeline
from mien.pipeline.governor import STEPS, Effort, Governor
from mien.pipeline.guarding import Guard
from mien.pipeline.identify import Identifier, rounded
from mien.pipeline.imprint import NONE, Imprint
from mien.pipeline.inquiry import Inquiry
from mien.pipeline.patch import Blend
from mien.pipeline.policy import Action, Policy
from mien.pipeline.stopwatch import Stopwatch
from mien.pipeline.watching import LOOK

__all__ = [
    "LOOK",
    "MEMORY",
    "NONE",
    "STEPS",
    "Action",
    "Blend",
    "Cast",
    "ClipPipeline",
    "Effort",
    "EmbeddingCache",
    "FaceFinder",
    "Governor",
    "Guard",
    "Identifier",
    "Imprint",
    "Inquiry",
    "Made",
    "Pipeline",
    "Policy",
    "Seen",
    "Stopwatch",
    "assign",
    "in_order",
    "rounded",
]
