"""Kernels in Triton. Each has an eager twin elsewhere: its test, and the way on a CPU."""

from __future__ import annotations

from mien.kernels.fusing import fused
from mien.kernels.running import installed, usable, usable_in_networks

__all__ = ["fused", "installed", "usable", "usable_in_networks"]
