"""Batches that there is no memory for: run in parts, and on the CPU if not even a row fits."""

from __future__ import annotations

import logging
import weakref

import pytest
import torch

from mien import Catalogue
from mien.engines import OnnxEngine, TorchEngine, run_finite, run_guarded
from mien.engines.halving import Halving, no_memory
from mien.errors import EngineError, EngineUnavailable, OutOfMemory

NAME = "mien-lite"


def rows(size):
    draw = torch.Generator().manual_seed(size)
    source = torch.nn.functional.normalize(torch.randn(size, 128, generator=draw))
    return {"target": torch.rand(size, 3, 160, 160, generator=draw), "source": source}


@pytest.fixture
def engine():
    return TorchEngine(NAME, Catalogue().card(NAME).read, provider="torch-cpu")


def cramp(engine, monkeypatch, most):
    """Let ``engine`` have memory for ``most`` rows; return the sizes of the batches it is given."""
    sizes, forward = [], engine.module.forward

    def cramped(*inputs):
        sizes.append(len(inputs[0]))
        if len(inputs[0]) > most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")
        return forward(*inputs)

    monkeypatch.setattr(engine.module, "forward", cramped)
    return sizes


def test_parts_give_what_the_whole_batch_gives(engine, monkeypatch, caplog):
    inputs = rows(7)
    wanted = engine(inputs)
    sizes = cramp(engine, monkeypatch, 2)
    made = engine(inputs)
    assert sizes == [7, 3, 1, 1, 1, 1, 1, 1, 1]
    assert list(made) == list(wanted)
    for name, value in wanted.items():
        assert made[name].shape == value.shape
        torch.testing.assert_close(made[name], value, atol=1e-4, rtol=1e-4)
    said = "mien-lite on torch-cpu has no memory for 7 rows at once; 1 are run at a time"
    assert [record.getMessage()[: len(said)] for record in caplog.records] == [said]


def test_what_fitted_is_remembered_and_told_once(engine, monkeypatch, caplog):
    sizes = cramp(engine, monkeypatch, 2)
    engine(rows(4))
    assert sizes == [4, 2, 2]
    del sizes[:]
    engine(rows(3))
    engine(rows(1))
    assert sizes == [2, 1, 1]
    assert len(caplog.records) == 1


def test_less_memory_than_before_halves_again(engine, monkeypatch, caplog):
    cramp(engine, monkeypatch, 2)
    engine(rows(4))
    sizes = cramp(engine, monkeypatch, 1)
    assert engine(rows(2))["output"].shape == (2, 3, 160, 160)
    assert sizes == [2, 1, 1]
    assert len(caplog.records) == 1


@pytest.mark.parametrize("guarded", [True, False])
def test_a_row_that_does_not_fit_goes_to_the_cpu(engine, monkeypatch, guarded, caplog):
    inputs = rows(2)
    wanted = engine(inputs)["output"]
    cramp(engine, monkeypatch, 0)
    with pytest.raises(OutOfMemory, match="a single row") as caught:
        engine(inputs)
    assert isinstance(caught.value, EngineError)
    assert (caught.value.model, caught.value.provider) == (NAME, "torch-cpu")
    if guarded:
        made, faults = run_guarded(
            engine, inputs, output="output", check=lambda rows: [None] * len(rows)
        )
        assert faults == (None, None)
    else:
        made = run_finite(engine, inputs)["output"]
    torch.testing.assert_close(made, wanted, atol=1e-3, rtol=1e-3)
    assert "Trying the safe mode" in caplog.text
    # opened once, however long the GPU is full
    assert engine.safer() is engine.safer()
    assert isinstance(engine.safer(), OnnxEngine)


def test_other_errors_are_not_tried_again(engine, monkeypatch):
    sizes = []

    def broken(*inputs):
        sizes.append(len(inputs[0]))
        raise RuntimeError("an illegal instruction")

    monkeypatch.setattr(engine.module, "forward", broken)
    with pytest.raises(EngineError, match="illegal") as caught:
        engine(rows(4))
    assert not isinstance(caught.value, OutOfMemory)
    assert sizes == [4]


def test_a_network_that_finds_no_memory_when_it_is_opened_is_unavailable(monkeypatch):
    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(TorchEngine, "_module", full)
    with pytest.raises(EngineUnavailable, match="no memory left"):
        TorchEngine(NAME, Catalogue().card(NAME).read, provider="torch-cpu")


def test_onnx_runtime_s_batches_are_halved_too(monkeypatch, caplog):
    engine = OnnxEngine(NAME, Catalogue().card(NAME).read)
    inputs = rows(4)
    wanted = engine(inputs)["output"]
    sizes, through = [], engine._through_host

    def cramped(inputs):
        sizes.append(len(inputs["target"]))
        if sizes[-1] > 2:
            raise RuntimeError("Failed to allocate memory for requested buffer of size 629145600")
        return through(inputs)

    monkeypatch.setattr(engine, "_through_host", cramped)
    torch.testing.assert_close(engine(inputs)["output"], wanted, atol=1e-4, rtol=1e-4)
    assert sizes == [4, 2, 2]
    assert "mien-lite on cpu has no memory for 4 rows at once; 2 are" in caplog.text


def test_what_is_remembered_is_the_size_of_a_batch_and_not_its_rows():
    halving, sizes = Halving("net", "cpu"), []

    def run(inputs):
        sizes.append(tuple(inputs["x"].shape))
        if inputs["x"].numel() > 40:
            raise RuntimeError("CUDA error: out of memory")
        return {"y": inputs["x"] + 1}

    for shape in ((8, 10), (8, 5), (2, 40), (0, 10)):
        x = torch.rand(shape)
        assert torch.equal(halving(run, {"x": x})["y"], x + 1)
    assert sizes == [(8, 10), (4, 10), (4, 10), (8, 5), (1, 40), (1, 40), (0, 10)]


def test_what_a_failed_batch_has_taken_is_given_back_before_the_next():
    taken = []

    def run(inputs):
        assert all(each() is None for each in taken)
        part = inputs["x"] * 2
        taken.append(weakref.ref(part))
        if len(part) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return {"y": part.sum(dim=1)}

    assert len(Halving("net", "cpu")(run, {"x": torch.rand(4, 2)})["y"]) == 4
    assert len(taken) == 6


def test_inputs_of_which_one_is_for_all_rows_are_not_split():
    def run(inputs):
        raise torch.OutOfMemoryError(f"{len(inputs)} inputs")

    with pytest.raises(OutOfMemory):
        Halving("net", "cpu")(run, {"x": torch.rand(4, 2), "y": torch.rand(1, 2)})


@pytest.mark.parametrize(
    ("said", "is_memory"),
    [
        ("CUDA out of memory. Tried to allocate 2.00 GiB", True),
        ("CUDA failure 2: out of memory ; GPU=0", True),
        ("BFCArena: Failed to allocate memory for requested buffer of size 8", True),
        ("Available memory of 8 is smaller than requested bytes of 64", True),
        ("cuDNN error: CUDNN_STATUS_ALLOC_FAILED", True),
        ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate", True),
        ("CUDA error: an illegal memory access was encountered", False),
        ("GET was unable to find an engine to execute this computation", True),
        ("mat1 and mat2 shapes cannot be multiplied", False),
    ],
)
def test_memory_is_told_from_other_errors(said, is_memory):
    assert no_memory(RuntimeError(said)) is is_memory


def test_nothing_is_said_where_all_fits(engine, caplog):
    with caplog.at_level(logging.WARNING):
        engine(rows(2))
    assert not caplog.records
