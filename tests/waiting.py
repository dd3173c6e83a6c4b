"""What a GPU would keep the processor waiting for, noticed without one."""

from __future__ import annotations

from dataclasses import replace

from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes


class Watch(TorchDispatchMode):
    """Notes the operators for which a GPU would keep the processor waiting, or could not replay."""

    WAITS = ("_local_scalar_dense", "nonzero", "masked_select", "lift_fresh", "is_nonzero", "equal")

    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.name().removeprefix("aten::").split(".")[0]
        solved = "linalg_" in name and name != "linalg_vector_norm"
        if name in self.WAITS or solved:
            self.seen.add(name)
        return func(*args, **(kwargs or {}))


def unwatched(part):
    """Return a part whose network is not looked at: here, ONNX Runtime on the processor."""

    def run(inputs):
        with _disable_current_modes():
            return part.network(inputs)

    return replace(part, network=run)
