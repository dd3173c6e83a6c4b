"""Running networks: one protocol, several runners."""

from mien.engines.choose import AUTO, FASTEST_FIRST, choose
from mien.engines.devices import TORCH_PROVIDERS, missing, settled
from mien.engines.graphed import with_room
from mien.engines.guard import numbers_faults, run_finite, run_guarded
from mien.engines.memory import Peak, limit_memory
from mien.engines.onnx import PROVIDERS, OnnxEngine
from mien.engines.opening import open_engine
from mien.engines.protocol import Engine, Port
from mien.engines.pytorch import TorchEngine, Trial, home_of

__all__ = [
    "AUTO",
    "FASTEST_FIRST",
    "PROVIDERS",
    "TORCH_PROVIDERS",
    "Engine",
    "OnnxEngine",
    "Peak",
    "Port",
    "TorchEngine",
    "Trial",
    "choose",
    "home_of",
    "limit_memory",
    "missing",
    "numbers_faults",
    "open_engine",
    "run_finite",
    "run_guarded",
    "settled",
    "with_room",
]
