"""Running networks: one protocol, several runners."""

from mien.engines.choose import AUTO, FASTEST_FIRST, choose
from mien.engines.guard import numbers_fault, run_finite, run_guarded
from mien.engines.onnx import PROVIDERS, OnnxEngine
from mien.engines.protocol import Engine, Port

__all__ = [
    "AUTO",
    "FASTEST_FIRST",
    "PROVIDERS",
    "Engine",
    "OnnxEngine",
    "Port",
    "choose",
    "numbers_fault",
    "run_finite",
    "run_guarded",
]
