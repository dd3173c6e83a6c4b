"""Running networks: one protocol, several runners."""

from mien.engines.guard import numbers_fault, run_finite, run_guarded
from mien.engines.onnx import PROVIDERS, OnnxEngine
from mien.engines.protocol import Engine, Port

__all__ = [
    "PROVIDERS",
    "Engine",
    "OnnxEngine",
    "Port",
    "numbers_fault",
    "run_finite",
    "run_guarded",
]
