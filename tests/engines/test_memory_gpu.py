"""The memory of a real GPU: none is lost, and none left is no end."""

from __future__ import annotations

import gc
from contextlib import suppress

import pytest
import torch

from mien import Catalogue
from mien.engines import OnnxEngine, Peak, TorchEngine, limit_memory, run_finite
from mien.engines.capturing import captured
from mien.engines.graphed import release_all
from mien.errors import InvalidOption, OutOfMemory

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here"),
]

HERE = torch.device("cuda:0")
NAME = "mien-lite"
BATCHES = 300
LITTLE = 96 << 20
MANY = 512
"""Rows whose pictures alone, 157 MB, are more than LITTLE."""

SETTLED = 20
"""Batches after which cuDNN and cuBLAS have what they keep."""


def allocated():
    """Return the bytes of all tensors on the GPU that somebody can still reach."""
    gc.collect()
    torch.cuda.synchronize(0)
    return torch.cuda.memory_allocated(0)


def rows(size):
    draw = torch.Generator().manual_seed(size)
    source = torch.nn.functional.normalize(torch.randn(size, 128, generator=draw))
    return {"target": torch.rand(size, 3, 160, 160, generator=draw), "source": source}


@pytest.fixture
def engine():
    return TorchEngine(NAME, Catalogue().card(NAME).read, provider="torch-cuda:0")


@pytest.fixture
def keep_to():
    """Let this process take no more than so many bytes beside what it holds, until the end."""
    release_all(HERE)  # of other engines: they would give back their memory when it runs out
    torch._C._cuda_clearCublasWorkspaces()
    gc.collect()
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    filled = []

    def limit(beside):
        taken = torch.cuda.memory_reserved(0) + beside
        torch.cuda.set_per_process_memory_fraction(taken / total, 0)

    def keep(beside):
        limit(0)
        # what PyTorch has left over already is not to be had either; it keeps blocks of more than
        # a megabyte apart from small ones
        for size in (8 << 20, 2 << 20, (1 << 20) + 512, 1 << 16, 512):
            with suppress(torch.OutOfMemoryError):
                while True:
                    filled.append(torch.empty(size, dtype=torch.uint8, device=HERE))
        limit(beside)

    yield keep
    torch.cuda.set_per_process_memory_fraction(1.0, 0)
    filled.clear()
    torch.cuda.empty_cache()


@pytest.mark.parametrize("on_gpu", [True, False])
def test_batches_of_changing_sizes_leave_nothing_behind(engine, on_gpu):
    settled = 0
    for number in range(BATCHES):
        inputs = rows(1 + number * 7 % 16)
        outputs = engine({k: v.cuda() if on_gpu else v for k, v in inputs.items()})
        assert len(outputs["output"]) == len(inputs["target"])
        del inputs, outputs
        if number + 1 == SETTLED:
            settled = allocated()
    assert allocated() == settled > 0


def test_a_batch_that_does_not_fit_is_run_in_parts(engine, keep_to, caplog):
    inputs = rows(MANY)
    engine(rows(1))
    wanted = engine(inputs)["output"]
    torch.cuda.empty_cache()
    # not a share of what it took: cuDNN does with less where there is less
    keep_to(LITTLE)
    before = allocated()
    made = engine(inputs)["output"]
    # TensorFloat-32 has ten bits of mantissa, and other sizes have other kernels
    torch.testing.assert_close(made, wanted, atol=2e-2, rtol=2e-2)
    assert f"has no memory for {MANY} rows at once" in caplog.text
    told = len(caplog.records)
    engine(inputs)
    assert len(caplog.records) == told
    assert allocated() == before


def test_where_no_row_fits_the_cpu_steps_in(engine, keep_to):
    inputs = rows(2)
    wanted = OnnxEngine(NAME, Catalogue().card(NAME).read)(inputs)["output"]
    keep_to(0)
    with pytest.raises(OutOfMemory):
        engine(inputs)
    made = run_finite(engine, inputs)["output"]
    torch.testing.assert_close(made, wanted, atol=1e-3, rtol=1e-3)


def test_a_budget_holds_and_the_peak_is_told(keep_to):
    total = torch.cuda.get_device_properties(0).total_memory
    with pytest.raises(InvalidOption, match="at most"):
        limit_memory("torch-cuda:0", f"{total // 10**9 + 1}GB")
    held = torch.cuda.memory_reserved(0)
    keep_to(0)  # so that what follows is undone
    budget = held // 10**6 + 600
    assert limit_memory("torch-cuda:0", f"{budget}MB") == budget * 10**6
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(700 * 10**6, dtype=torch.uint8, device="cuda:0")
    engine = TorchEngine(NAME, Catalogue().card(NAME).read, provider="torch-cuda:0")
    engine(rows(4))
    peak = Peak.of([engine])
    assert peak is not None
    assert peak.device == "cuda:0"
    assert peak.name == torch.cuda.get_device_name(0)
    assert 0 < peak.allocated <= peak.reserved


def active():
    """Return the bytes that PyTorch cannot give to others, freed or not."""
    torch.cuda.synchronize(0)
    torch.empty(1, device=HERE)  # whoever asks for memory has it look at what is done
    return torch.cuda.memory_stats(0)["active_bytes.all.current"]


def test_a_capture_that_is_spoiled_leaves_nothing():
    value = torch.ones(3, device=HERE)

    def spoil():
        made = value + 1
        if torch.cuda.is_current_stream_capturing():
            torch.cuda.synchronize(0)  # which CUDA forbids amid a capture
        return made

    doubles, doubled = captured(lambda: value * 2, HERE)
    with pytest.raises(RuntimeError, match="captur"):
        captured(spoil, HERE, pool=doubles.pool())
    assert torch.rand(3, device=HERE).shape == (3,)
    # what another stream has used is had back once that is done
    before, other = active(), torch.cuda.Stream(HERE)
    large = torch.empty(LITTLE, dtype=torch.uint8, device=HERE)
    large.record_stream(other)
    del large
    assert active() < before + LITTLE
    trebles, trebled = captured(lambda: value * 3, HERE, pool=doubles.pool())
    value.fill_(5)
    for graph, made, wanted in ((doubles, doubled, 10), (trebles, trebled, 15)):
        graph.replay()
        assert made.tolist() == [wanted] * 3
    assert torch.rand(3, device=HERE).shape == (3,)


def test_a_graph_that_is_garbage_ends_no_capture():
    value = torch.ones(3, device=HERE)
    old = [captured(lambda: value * 2, HERE)]

    def littering():
        if torch.cuda.is_current_stream_capturing():
            ring = [old.pop()]
            ring.append(ring)
            del ring
            for _ in range(10):
                [].append([])  # whoever makes lists has garbage collected
        return value + 1

    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        graph, made = captured(littering, HERE)
    finally:
        gc.set_threshold(*before)
    graph.replay()
    assert made.tolist() == [2] * 3
