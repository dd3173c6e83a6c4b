"""Made-up facts about a machine."""

from __future__ import annotations

from mien.doctor.cameras import Cameras
from mien.doctor.machine import Gpu, Machine
from mien.doctor.networks import Network, PassedOver

H200 = Gpu("NVIDIA H200", "NVIDIA", 143_771 << 20, "570.86")
NO_CAMERA = Cameras((), "No camera is seen.")
NO_CUDA = PassedOver("cuda", "It was built without it.", "pip install another")


def machine(
    *, gpus=(), disk=50 * 10**9, builds=("onnxruntime",), processor="Test 9000 processor"
) -> Machine:
    return Machine(
        system="Linux-6.1-x86_64",
        python="3.12.1 (CPython)",
        processor=processor,
        cores=12,
        memory=34 * 10**9,
        gpus=gpus,
        disk={"working folder": disk},
        packages=dict.fromkeys(builds, "1.27.3") | {"torch": "2.12.0", "av": None},
    )


def network(name="yunet", provider="cpu", passed_over=(NO_CUDA,), **others) -> Network:
    return Network(name, "detector", "right", provider, tuple(passed_over), **others)
