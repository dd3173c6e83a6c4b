"""The PyTorch runner: the same numbers as ONNX Runtime, half precision that is tried first."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch
from conftest import CONSENT
from torch import Tensor

from mien import Catalogue, Swapper
from mien.engines import OnnxEngine, Port, TorchEngine, open_engine, settled
from mien.engines import pytorch as runner
from mien.errors import EngineError, EngineUnavailable, InvalidOption, ModelError
from mien.nets.graph import Graph, Operator
from mien.stages.trial import RoleTrial, psnr

NETWORKS = [card.name for card in Catalogue() if card.role not in ("age", "content", "watermark")]
"""Those that swap: what refuses or finds marks runs in ONNX Runtime, whatever the provider."""
HALF = [torch.float16, torch.bfloat16]


def engine(name, precision="float32", **options):
    card = Catalogue().card(name)
    trial = RoleTrial(card.contract)
    return TorchEngine(
        name, card.read, provider="torch-cpu", precision=precision, trial=trial, **options
    )


@pytest.fixture(scope="module")
def seen(load, portraits):
    """What networks were given when portraits were swapped, by the network's name."""
    taken: dict[str, list[dict[str, Tensor]]] = {}
    call = OnnxEngine.__call__

    def recorded(self, inputs):
        taken.setdefault(self.model, []).append({k: v.clone() for k, v in inputs.items()})
        return call(self, inputs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OnnxEngine, "__call__", recorded)
        for options in ({}, {"model": "mien-lite", "detector": "retinaface"}):
            swapper = Swapper(**options)
            who = swapper.identity(load("dev"), consent=CONSENT)
            for name in ("ada", "ben", "femi"):
                swapper.swap(load(name), who)
                swapper.identity(load(name), consent=CONSENT)
    return taken


def batches(given: list[dict[str, Tensor]]):
    """Return a batch of one and a batch of three, of what a network was given."""
    shapes = [{k: v.shape[1:] for k, v in inputs.items()} for inputs in given]
    alike = [inputs for inputs, shape in zip(given, shapes, strict=True) if shape == shapes[-1]]
    joined = {k: torch.cat([inputs[k] for inputs in alike[-3:]])[-3:] for k in alike[0]}
    assert len(next(iter(joined.values()))) == 3
    return {k: v[:1] for k, v in joined.items()}, joined


def noise(inputs: dict[str, Tensor]):
    draw = torch.Generator().manual_seed(3)
    return {k: torch.rand(v.shape, generator=draw) * v.max() for k, v in inputs.items()}


# Parity with ONNX Runtime


@pytest.mark.parametrize("name", NETWORKS)
def test_faces_and_noise_come_out_as_in_onnx_runtime(name, seen):
    ours, theirs = engine(name), OnnxEngine(name, Catalogue().card(name).read)
    one, three = batches(seen[name])
    assert [p.name for p in ours.inputs] == [p.name for p in theirs.inputs]
    for inputs in (one, three, noise(one), noise(three)):
        made, wanted = ours(inputs), theirs(inputs)
        assert list(made) == list(wanted)
        for output, value in wanted.items():
            assert (made[output].shape, made[output].dtype) == (value.shape, torch.float32)
            # a single number has no range, and scores of noise have next to none
            span = max(1.0, float(value.max() - value.min()))
            assert float((made[output] - value).abs().max()) < 2e-4 * span


def test_a_swap_is_the_same_within_a_code(swapper, load):
    other = Swapper(provider="torch-cpu")
    assert set(other.providers.values()) == {"torch-cpu"}
    who = [which.identity(load("dev"), consent=CONSENT) for which in (swapper, other)]
    for name in ("ada", "ben", "femi"):
        here, there = (
            which.swap(load(name), one) for which, one in zip((swapper, other), who, strict=True)
        )
        assert len(here.faces) == len(there.faces) == 1
        assert not np.array_equal(there.pixels, load(name))
        assert int(np.abs(here.pixels.astype(int) - there.pixels.astype(int)).max()) <= 1


# Precision


@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", NETWORKS)
def test_half_precision_passes_its_trial_and_keeps_faces(name, precision, seen):
    lower, exact = engine(name, precision), engine(name)
    assert (lower.precision, lower.fell_back) == (precision, ())
    kinds = {value.dtype for value in lower.module.buffers()}
    assert getattr(torch, precision) in kinds
    inputs, _ = batches(seen[name])
    made, wanted = lower(inputs), exact(inputs)
    assert all(value.dtype == torch.float32 for value in made.values())
    if "mien" in name:
        assert psnr(wanted[lower.outputs[0].name], made[lower.outputs[0].name]) > 40


class Refusing:
    """A trial that only some of the lower precisions pass: those after the first ``count``."""

    exact_ends = False

    def __init__(self, count):
        self.count = count

    def inputs(self, shapes):
        return {name: torch.ones(2, *sizes[1:]) for name, sizes in shapes.items()}

    def fault(self, exact, made):
        assert set(exact) == set(made)
        self.count -= 1
        return "too coarse" if self.count >= 0 else None


@pytest.mark.parametrize(
    ("asked", "refused", "used"),
    [("float16", 1, "bfloat16"), ("float16", 2, "float32"), ("bfloat16", 1, "float32")],
)
def test_what_fails_its_trial_runs_in_the_next_precision_and_says_so(asked, refused, used, caplog):
    card = Catalogue().card("mien-occlusion")
    with caplog.at_level(logging.WARNING):
        made = TorchEngine(
            card.name, card.read, provider="torch-cpu", precision=asked, trial=Refusing(refused)
        )
    assert made.precision == used
    assert [fault.split(": ") for fault in made.fell_back] == [
        [tried, "too coarse"] for tried in runner.BETTER[asked][:refused]
    ]
    (record,) = caplog.records
    assert record.getMessage().startswith(f"mien-occlusion runs in {used}. {asked}: too coarse")


def test_what_overflows_in_float16_runs_in_bfloat16(tmp_path):
    steps = [Operator("Conv", ["x", "w"], ["y"], {})]
    tensors = {"w": torch.full((1, 1, 1, 1), 6e4)}
    Graph(steps, tensors, ["x"], ["y"], {"x": (None, 1, 2, 2)}).save(tmp_path / "net.pt")
    read = (tmp_path / "net.pt").read_bytes

    class Doubled(Refusing):
        def inputs(self, shapes):
            return {"x": torch.full((1, 1, 2, 2), 2.0)}

    made = TorchEngine("net", read, provider="torch-cpu", precision="float16", trial=Doubled(0))
    assert made.precision == "bfloat16"
    assert made.fell_back == ("float16: values that are not finite",)


def test_the_trial_sees_a_face_and_refuses_what_is_wrong():
    for card in map(Catalogue().card, NETWORKS):
        trial, exact = RoleTrial(card.contract), engine(card.name)
        given = trial.inputs({port.name: port.shape for port in exact.inputs})
        again = trial.inputs({port.name: port.shape for port in exact.inputs})
        assert all(torch.equal(given[k], again[k]) for k in given)
        wanted = exact(given)
        assert trial.fault(wanted, wanted) is None
        draw = torch.Generator().manual_seed(0)
        spoilt = {
            k: v + torch.randn(v.shape, generator=draw) * (0.2 * v.abs().mean() + 0.2)
            for k, v in wanted.items()
        }
        assert trial.fault(wanted, spoilt)


def test_a_cpu_computes_in_float32_unless_told():
    card = Catalogue().card("mien-occlusion")
    made = TorchEngine(card.name, card.read, provider="torch-cpu", trial=RoleTrial(card.contract))
    assert (made.precision, made.fell_back, made.provider) == ("float32", (), "torch-cpu")
    with pytest.raises(InvalidOption, match="bfloat16"):
        TorchEngine(card.name, card.read, provider="torch-cpu", precision="int8")


# The module


@pytest.mark.parametrize("name", NETWORKS)
def test_the_module_never_reads_a_value_of_its_tensors(name, seen):
    made = engine(name, "bfloat16")
    inputs, _ = batches(seen[name])
    given = [inputs[port.name] for port in made.inputs]
    with torch.no_grad():
        plain = made.module(*given)
    assert all(torch.equal(a, b) for a, b in zip(plain, made(inputs).values(), strict=True))
    # on this device tensors have shapes and no values: to read one is an error
    shapes = made.module.to("meta")(*(value.to("meta") for value in given))
    assert [value.shape for value in shapes] == [value.shape for value in plain]
    assert not list(made.module.parameters())


def test_the_safe_mode_of_a_cpu_is_onnx_runtime():
    safe = engine("mien-occlusion", "bfloat16", threads=1).safer()
    assert isinstance(safe, OnnxEngine)
    assert (safe.model, safe.provider) == ("mien-occlusion", "cpu")


# Faults


def test_inputs_are_checked():
    made = engine("mien-lite")
    assert made.inputs == (Port("target", (None, 3, 160, 160)), Port("source", (None, 128)))
    right = {"target": torch.zeros(1, 3, 160, 160), "source": torch.ones(1, 128)}
    for wrong, said in (
        ({"target": torch.zeros(1, 3, 128, 128)}, "takes 'target' of shape"),
        ({"source": torch.ones(128)}, "takes 'source' of shape"),
        ({"source": torch.ones(2, 128)}, "could not be run on 'torch-cpu'"),
    ):
        with pytest.raises(EngineError, match=said):
            made({"target": torch.zeros(3, 3, 160, 160), "source": right["source"]} | wrong)
    with pytest.raises(EngineError, match="lacks its input 'source'"):
        made({"target": right["target"]})


def test_what_is_no_network_is_an_error_that_names_it():
    with pytest.raises(EngineError, match=r"'net' could not be opened by PyTorch") as caught:
        TorchEngine("net", lambda: b"\x08\x08nothing", provider="torch-cpu")
    assert caught.value.model == "net"

    def damaged():
        raise ModelError("damaged", model="net")

    with pytest.raises(ModelError, match="damaged"):
        TorchEngine("net", damaged, provider="torch-cpu")


# The provider


@pytest.mark.parametrize("name", ["torch", "torch-tpu", "torch-cpu:1", "torch-cuda:x", "gpu"])
def test_an_unknown_provider_is_refused_with_the_known_ones(name):
    with pytest.raises(InvalidOption) as caught:
        open_engine("net", lambda: pytest.fail("the weights were read"), provider=name)
    assert caught.value.option == "provider"
    assert "torch-cuda" in str(caught.value)
    assert "torch-cpu" in str(caught.value)


def test_a_gpu_that_is_not_there_is_refused_or_the_cpu_steps_in(monkeypatch, caplog):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    card = Catalogue().card("mien-occlusion")
    for name in ("torch-cuda", "torch-cuda:1"):
        with pytest.raises(EngineUnavailable) as caught:
            open_engine(card.name, card.read, provider=name)
        assert (caught.value.provider, caught.value.model) == (name, card.name)
    made = open_engine(card.name, card.read, provider="torch-cuda", allow_fallback=True)
    assert isinstance(made, OnnxEngine)
    assert made.provider == "cpu"
    assert "as allowed" in caplog.text


@pytest.fixture
def gpus(monkeypatch):
    """Let PyTorch see GPUs with this much free memory each."""

    def with_free(*free):
        monkeypatch.setattr(torch.version, "cuda", "13.0")
        monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(free))
        monkeypatch.setattr(torch.cuda, "device_count", lambda: len(free))
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda gpu: (free[gpu], 80))

    return with_free


def test_the_gpu_with_the_most_free_memory_is_taken_unless_one_is_named(gpus):
    gpus(10, 70, 40)
    assert settled("torch-cuda") == "torch-cuda:1"
    assert settled("torch-cuda:2") == "torch-cuda:2"
    assert (settled("torch-cpu"), settled("cuda"), settled("nonsense")) == (
        "torch-cpu",
        "cuda",
        "nonsense",
    )
    with pytest.raises(EngineUnavailable, match="counts 3, from 0"):
        TorchEngine("net", lambda: pytest.fail("the weights were read"), provider="torch-cuda:3")
    gpus(10)
    assert settled("torch-cuda") == "torch-cuda:0"
    gpus()
    assert settled("torch-cuda") == "torch-cuda"
