"""The budget of a GPU's memory, and what is told of it."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch

from mien import Catalogue, Swapper
from mien.budget import Budget
from mien.engines import OnnxEngine, Peak, TorchEngine, choose, limit_memory
from mien.engines.choose import Wanted, shared
from mien.engines.options import Setup, provider_options
from mien.errors import EngineUnavailable, InvalidOption

HAS = 8_000_000_000


@pytest.fixture
def gpus(monkeypatch):
    """Let PyTorch see two GPUs of 8 GB, and record the shares of them that it may take."""
    shares = {}
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda gpu: (gpu, HAS))
    monkeypatch.setattr(
        *(torch.cuda, "get_device_properties"),
        lambda device: SimpleNamespace(total_memory=HAS, name="Some GPU"),
    )
    monkeypatch.setattr(
        *(torch.cuda, "set_per_process_memory_fraction"),
        lambda share, device: shares.update({str(device): share}),
    )
    shared.cache_clear()
    yield shares
    shared.cache_clear()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("4GB", 4e9), ("0.5GB", 5e8), ("800MB", 8e8), ("50%", 4e9), ("100%", HAS), ("8GB", HAS)],
)
def test_a_budget_is_read(text, wanted):
    assert Budget.read(text).of(HAS) == wanted


@pytest.mark.parametrize("text", ["", "4", "GB", "4TB", "-1GB", "0MB", "0%", "101%", "4 GB", 4])
def test_nonsense_is_refused(text):
    with pytest.raises(InvalidOption, match="such as 4GB, 800MB or 50%") as caught:
        Budget.read(text)
    assert (caught.value.option, caught.value.value) == ("gpu_memory", text)


def test_pytorch_is_kept_to_its_share_of_the_gpu_that_is_meant(gpus):
    assert limit_memory("torch-cuda:0", None) is None
    assert gpus == {}
    assert limit_memory("torch-cuda:0", "2GB") == 2e9
    assert limit_memory("auto", "50%") == 4e9  # the GPU that has more free memory
    assert gpus == {"cuda:0": 0.25, "cuda:1": 0.5}
    with pytest.raises(InvalidOption, match=r"at most the 8\.0GB that the GPU has"):
        limit_memory("torch-cuda:0", "9GB")
    assert limit_memory("torch-cuda:2", "50%") is None  # that it is not there is told later
    assert gpus == {"cuda:0": 0.25, "cuda:1": 0.5}


def test_onnx_runtime_is_told_the_bytes(gpus):
    assert limit_memory("cuda:1", "25%") == 2e9
    assert gpus == {}
    assert provider_options("cuda", Setup(memory=2_000_000_000))["gpu_mem_limit"] == "2000000000"
    assert "gpu_mem_limit" not in provider_options("cuda", Setup())
    seen = []
    read = Catalogue().card("yunet").read
    runners = {"cuda": lambda *given: seen.append(given) or OnnxEngine("yunet", read)}
    choose("yunet", read, provider="cuda", memory=5, runners=runners)
    assert seen == [("yunet", read, Wanted(memory=5))]


@pytest.mark.parametrize("provider", ["cpu", "torch-cpu", "tensorrt", "coreml", "openvino:0"])
def test_a_provider_that_cannot_be_limited_is_refused(provider):
    with pytest.raises(InvalidOption, match="torch-cuda, cuda or auto"):
        limit_memory(provider, "4GB")
    if provider == "cpu":
        with pytest.raises(InvalidOption, match="gpu_memory='4GB'"):
            Swapper(gpu_memory="4GB")


def test_without_a_gpu_that_is_what_is_said(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(EngineUnavailable):
        Swapper(provider="torch-cuda", gpu_memory="4GB")
    assert limit_memory("cuda", "4GB") == limit_memory("auto", "4GB") == 4e9
    with pytest.raises(InvalidOption, match="a size such as 4GB"):
        limit_memory("cuda", "50%")


def test_auto_passes_over_what_keeps_to_no_limit(monkeypatch, caplog):
    caplog.set_level("INFO")
    read = Catalogue().card("yunet").read
    runners = {
        "directml": lambda *_: pytest.fail("it keeps to no limit"),
        "cpu": lambda *_: OnnxEngine("yunet", read),
    }
    monkeypatch.setattr(sys.modules["mien.engines.choose"], "_absent", lambda name: None)
    made = choose("yunet", read, provider="auto", memory=5, runners=runners)
    assert made.provider == "cpu"
    assert "directml: it keeps to no limit of memory" in caplog.text


def test_the_peak_is_told_where_pytorch_has_a_gpu(gpus, monkeypatch):
    read = Catalogue().card("mien-occlusion").read
    engine = TorchEngine("mien-occlusion", read, provider="torch-cpu")
    assert Peak.of([engine, OnnxEngine("mien-occlusion", read)]) is None
    engine.device = torch.device("cuda", 1)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 3 + device.index)
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda device: 7 + device.index)
    peak = Peak.of([engine])
    assert peak is not None
    assert peak.report() == {
        "device": "cuda:1",
        "name": "Some GPU",
        "peak_bytes": {"allocated": 4, "reserved": 8},
    }
