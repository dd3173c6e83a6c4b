"""Networks: their weights, what runs them, and the reason why nothing faster does."""

from __future__ import annotations

import shutil

import onnxruntime as ort
import pytest
from facts import H200, machine

from mien import Catalogue
from mien.doctor import networks
from mien.doctor.networks import look_at_networks, not_offered
from mien.engines import OnnxEngine
from mien.errors import EngineError, EngineUnavailable

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
TENSORRT, DML = "TensorrtExecutionProvider", "DmlExecutionProvider"
GPU_BUILD = 'pip uninstall -y onnxruntime, then: pip install "onnxruntime-gpu[cuda,cudnn]"'


@pytest.fixture
def cards():
    """Two small networks."""
    return [Catalogue().card(name) for name in ("yunet", "facemesh")]


@pytest.fixture(autouse=True)
def torch_lacks(monkeypatch):
    """Let PyTorch lack this for GPUs."""
    lacks = ["it was built without CUDA."]
    monkeypatch.setattr(networks, "missing", lambda provider: lacks[-1])
    return lacks


@pytest.fixture
def offer(monkeypatch):
    """Let ONNX Runtime claim to have been built with these providers."""

    def offered(*providers):
        monkeypatch.setattr(ort, "get_available_providers", lambda: list(providers))

    return offered


@pytest.fixture
def opened(monkeypatch):
    """Open no session: each provider does what it is told to. Returns the attempts."""
    attempts, faults = [], {}

    def engine(model, read, *, provider, threads, trial):
        attempts.append((model, provider, threads))
        fault = faults.get((model, provider)) or faults.get(provider)
        if fault == "absent":
            reason = "the session runs on the CPU."
            raise EngineUnavailable(model=model, provider=provider, reason=reason)
        if fault:
            raise EngineError(fault, model=model)
        made = OnnxEngine(model, read)
        monkeypatch.setattr(type(made), "provider", property(lambda self: self.claims))
        made.claims = provider
        return made

    monkeypatch.setattr(networks, "open_engine", engine)
    return attempts, faults


# Why not


def test_every_provider_but_the_cpu_s_has_its_reason():
    absent = not_offered([CPU], machine(), system="linux")
    assert list(absent) == ["torch-cuda", "tensorrt", "cuda", "coreml", "openvino", "directml"]
    for provider in ("tensorrt", "cuda"):
        assert absent[provider].why == "No NVIDIA GPU is seen here."
        assert absent[provider].remedy == f"With one, and its driver: {GPU_BUILD}"
    assert absent["torch-cuda"].why == "No NVIDIA GPU is seen here."
    assert "Install PyTorch with CUDA" in absent["torch-cuda"].remedy
    assert absent["coreml"].why == absent["directml"].why == "It does not exist for this system."
    assert absent["coreml"].remedy is absent["directml"].remedy is None
    assert "without it" in absent["openvino"].why
    assert absent["openvino"].remedy.endswith("pip install onnxruntime-openvino")


def test_a_gpu_without_its_build_of_the_runtime_has_the_exact_remedy():
    absent = not_offered([CPU], machine(gpus=(H200,)), system="win32")
    assert absent["cuda"].why == f"ONNX Runtime {ort.__version__} was built without it."
    assert absent["cuda"].remedy == GPU_BUILD
    both = machine(gpus=(H200,), builds=("onnxruntime", "onnxruntime-directml"))
    assert not_offered([CPU], both, system="linux")["cuda"].remedy.startswith(
        "pip uninstall -y onnxruntime onnxruntime-directml, then: "
    )


@pytest.mark.parametrize(
    ("system", "possible"),
    [
        ("darwin", {"coreml"}),
        ("linux", {"torch-cuda", "tensorrt", "cuda", "openvino"}),
        ("win32", {"torch-cuda", "tensorrt", "cuda", "openvino", "directml"}),
    ],
)
def test_nothing_is_recommended_that_the_system_cannot_have(system, possible):
    absent = not_offered([CPU], machine(), system=system)
    assert {name for name, passed in absent.items() if passed.remedy} == possible


def test_what_is_offered_is_tried_but_for_tensorrt():
    absent = not_offered([TENSORRT, CUDA, DML, CPU], machine(gpus=(H200,)), system="win32")
    assert list(absent) == ["torch-cuda", "coreml", "openvino", "tensorrt"]
    assert absent["torch-cuda"].why == "It was built without CUDA."
    assert "not tried" in absent["tensorrt"].why
    assert "--provider tensorrt" in absent["tensorrt"].remedy


# What runs


def test_the_cpu_runs_what_is_shipped(cards, offer):
    offer(CPU)
    found, engines = look_at_networks(cards, machine(), threads=1)
    assert [(n.name, n.weights, n.provider, n.fault) for n in found] == [
        ("yunet", "right", "cpu", None),
        ("facemesh", "right", "cpu", None),
    ]
    assert [p.provider for p in found[0].passed_over] == list(networks.FASTEST_FIRST[:-1])
    assert {name: engine.provider for name, engine in engines.items()} == {
        "yunet": "cpu",
        "facemesh": "cpu",
    }


def test_the_fastest_that_opens_is_taken(cards, offer, opened):
    offer(TENSORRT, CUDA, CPU)
    attempts, _ = opened
    found, _ = look_at_networks(cards, machine(), threads=3)
    assert [n.provider for n in found] == ["cuda", "cuda"]
    assert [p.provider for p in found[0].passed_over] == ["torch-cuda", "tensorrt"]
    assert attempts == [("yunet", "cuda", 3), ("facemesh", "cuda", 3)]


def test_pytorch_on_a_gpu_is_taken_before_all_others(cards, offer, opened, torch_lacks):
    torch_lacks.append(None)
    offer(CUDA, CPU)
    found, _ = look_at_networks(cards, machine(gpus=(H200,)), threads=1)
    assert [(n.provider, n.passed_over) for n in found] == [("torch-cuda", ())] * 2


def test_a_provider_that_is_claimed_and_does_not_load_is_tried_once(cards, offer, opened):
    offer(CUDA, CPU)
    attempts, faults = opened
    faults["cuda"] = "absent"
    found, _ = look_at_networks(cards, machine(gpus=(H200,)), threads=None)
    assert [n.provider for n in found] == ["cpu", "cpu"]
    assert [(model, provider) for model, provider, _ in attempts] == [
        ("yunet", "cuda"),
        ("yunet", "cpu"),
        ("facemesh", "cpu"),
    ]
    for network in found:
        passed = {p.provider: p for p in network.passed_over}["cuda"]
        assert passed.why == "The session runs on the CPU."
        assert "onnxruntime-gpu[cuda,cudnn]" in passed.remedy


def test_a_provider_may_be_unable_to_open_one_network_only(cards, offer, opened):
    offer(CUDA, CPU)
    _, faults = opened
    faults["yunet", "cuda"] = "an operator is missing"
    found, _ = look_at_networks(cards, machine(), threads=None)
    assert [n.provider for n in found] == ["cpu", "cuda"]
    assert "an operator is missing" in [p.why for p in found[0].passed_over]
    assert "an operator is missing" not in [p.why for p in found[1].passed_over]


# What is broken


@pytest.fixture
def folder(tmp_path):
    """The cards of three networks: one file is damaged, one is missing, one is no network."""
    shipped = Catalogue().card("yunet").file
    text = shipped.with_suffix(".toml").read_text(encoding="utf-8")
    for name in ("damaged", "absent"):
        own = text.replace('"yunet"', f'"{name}"').replace(shipped.name, f"{name}.onnx")
        (tmp_path / f"{name}.toml").write_text(own, encoding="utf-8")
    shutil.copy(shipped, tmp_path / "damaged.onnx")
    with (tmp_path / "damaged.onnx").open("r+b") as file:
        file.seek(1000)
        file.write(b"rust")
    return tmp_path


def test_damaged_and_missing_weights_are_told_apart(folder):
    catalogue = Catalogue(folder)
    cards = [catalogue.card(name) for name in ("damaged", "absent", "yunet")]
    found, engines = look_at_networks(cards, machine(), threads=1)
    assert [(n.weights, n.provider) for n in found] == [
        ("damaged", None),
        ("missing", None),
        ("right", "cpu"),
    ]
    assert list(engines) == ["yunet"]
    for network in found[:2]:
        assert f"{network.name}.onnx" in network.fault
        assert str(folder) not in network.fault
        assert cards[0].sha256 in network.remedy


def test_a_network_that_the_cpu_cannot_open_is_at_fault(cards, offer, opened):
    offer(CUDA, CPU)
    _, faults = opened
    faults |= {"cuda": "absent", "cpu": "the graph is of the next century"}
    found, engines = look_at_networks(cards[:1], machine(), threads=None)
    assert (found[0].weights, found[0].provider, engines) == ("right", None, {})
    assert found[0].fault == "the graph is of the next century"
    assert "--upgrade" in found[0].remedy
    assert "cpu" not in [p.provider for p in found[0].passed_over]
