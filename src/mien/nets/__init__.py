"""Networks as PyTorch modules: swapper, discriminators, occlusion, and frozen nets from ONNX."""

from mien.nets.discriminator import Discriminator
from mien.nets.frozen import FrozenNet, Graph
from mien.nets.occlusion import OCCLUSION_128, OcclusionNet, OcclusionShape
from mien.nets.swapper import LITE, MIEN_256, Swapper, SwapperShape

__all__ = [
    "LITE",
    "MIEN_256",
    "OCCLUSION_128",
    "Discriminator",
    "FrozenNet",
    "Graph",
    "OcclusionNet",
    "OcclusionShape",
    "Swapper",
    "SwapperShape",
]
