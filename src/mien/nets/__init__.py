"""Networks as PyTorch modules: the swapper, its discriminators, and frozen nets read from ONNX."""

from mien.nets.discriminator import Discriminator
from mien.nets.frozen import FrozenNet, Graph
from mien.nets.swapper import LITE, MIEN_256, Swapper, SwapperShape

__all__ = ["LITE", "MIEN_256", "Discriminator", "FrozenNet", "Graph", "Swapper", "SwapperShape"]
