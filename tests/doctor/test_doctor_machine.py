"""The machine: what is asked of the system, and that nothing asked can fail."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from mien.doctor import machine
from mien.doctor.machine import Gpu


def test_the_machine_is_looked_at():
    found = machine.look_at_machine()
    assert found.packages["torch"] == torch.__version__
    assert set(found.disk) == {"working folder", "temporary files"}
    assert found.processor
    assert found.cores
    assert found.runtimes == ("onnxruntime",)


def test_the_lines_of_nvidia_smi_are_read():
    listed = "NVIDIA H200, 143771, 570.86.15\nGrid, A100X, 1024, 535.1\nGB10, [N/A], 580.1\n\n"
    assert machine.parse_nvidia_smi(listed) == (
        Gpu("NVIDIA H200", "NVIDIA", 143771 * 2**20, "570.86.15"),
        Gpu("Grid, A100X", "NVIDIA", 2**30, "535.1"),
        Gpu("GB10", "NVIDIA", None, "580.1"),
    )
    assert machine.parse_nvidia_smi("No devices were found") == ()


def test_without_the_driver_s_list_pytorch_is_asked(monkeypatch):
    monkeypatch.setattr(machine, "output_of", lambda *command: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda i: f"card {i}")
    monkeypatch.setattr(torch.version, "hip", None)
    assert machine.gpus() == (Gpu("card 0", "NVIDIA"), Gpu("card 1", "NVIDIA"))
    monkeypatch.setattr(torch.version, "hip", "6.2")
    assert [gpu.maker for gpu in machine.gpus()] == ["AMD", "AMD"]


@pytest.mark.parametrize("error", [RuntimeError, AssertionError, OSError])
def test_a_pytorch_that_fails_sees_no_gpu(monkeypatch, error):
    def fail():
        raise error("no CUDA-capable device")

    monkeypatch.setattr(machine, "output_of", lambda *command: None)
    monkeypatch.setattr(torch.cuda, "is_available", fail)
    assert machine.gpus() == ()


def test_programs_that_are_absent_fail_or_hang_say_nothing(monkeypatch):
    assert machine.output_of(sys.executable, "-c", "print('it works')").strip() == "it works"
    assert machine.output_of("a-program-that-nobody-has") is None
    assert machine.output_of(sys.executable, "-c", "print('it fails'); exit(9)") is None
    monkeypatch.setattr(machine, "PATIENCE", 0.2)
    assert machine.output_of(sys.executable, "-c", "import time; time.sleep(60)") is None


def test_the_processor_is_named(tmp_path):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Ryzen 9: the second\nmodel name\t: other\n")
    if sys.platform != "darwin":
        assert machine.processor(cpuinfo) == "Ryzen 9: the second"
    cpuinfo.write_text("Features\t: fp asimd\n")
    assert machine.processor(cpuinfo)
    assert machine.processor(tmp_path / "nowhere")


def test_a_folder_that_cannot_be_looked_at_is_left_out(tmp_path):
    free = machine.free_disk({"here": tmp_path, "gone": tmp_path / "gone" / Path("gone")})
    assert list(free) == ["here"]
    assert free["here"] > 0
