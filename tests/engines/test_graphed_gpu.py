"""Networks as CUDA graphs on a real GPU: what comes out, from which thread, and what is left."""

from __future__ import annotations

import gc
import logging
from threading import Barrier, Thread

import pytest
import torch

from mien import Catalogue
from mien.engines import TorchEngine, graphed
from mien.engines.graphed import SEEN, Graphed

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here"),
]

NAME = "mien-256"
CARD = Catalogue().card(NAME)


@pytest.fixture
def engine():
    return TorchEngine(NAME, CARD.read, provider="torch-cuda:0")


def rows(size, seed=0):
    draw = torch.Generator().manual_seed(100 * seed + size)
    source = torch.nn.functional.normalize(torch.randn(size, 128, generator=draw))
    return {"target": torch.rand(size, 3, 256, 256, generator=draw), "source": source}


def on_gpu(inputs):
    return {name: value.cuda() for name, value in inputs.items()}


@torch.no_grad()
def eager(engine, inputs):
    given = [inputs[port.name].cuda() for port in engine.inputs]
    return engine.module(*given)[0]


def alike(made, wanted):
    """Hold outputs to those of other kernels: TensorFloat-32 has ten bits of mantissa."""
    torch.testing.assert_close(made, wanted.to(made.device), atol=2e-2, rtol=2e-2)


def graphs(engine):
    assert isinstance(engine._fast, Graphed)
    return engine._fast._graphs


@pytest.mark.parametrize("inference", [False, True])
def test_graphs_do_what_the_steps_do(engine, inference):
    with torch.inference_mode(inference):
        kept = []
        for seed in range(SEEN + 3):
            for size in (1, 2, 5):
                inputs = rows(size, seed)
                given = inputs if seed % 2 else on_gpu(inputs)
                made = engine(given)["output"]
                assert made.device == given["target"].device
                kept.append((made, eager(engine, inputs)))
        assert len(graphs(engine)) == 3
        for made, wanted in kept:  # nobody wrote into what was the caller's
            alike(made, wanted)
    alike(engine(rows(2))["output"], eager(engine, rows(2)))


def test_threads_on_streams_of_their_own(engine):
    wanted = {(size, seed): eager(engine, rows(size, seed)) for size in (1, 3) for seed in (0, 1)}
    ready, wrong = Barrier(2), []

    def work(seed):
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                inputs = {size: on_gpu(rows(size, seed)) for size in (1, 3)}
                ready.wait()
                for turn in range(60):
                    size = 1 + 2 * (turn // 3 % 2)
                    made = engine(inputs[size])["output"]
                    alike(made, wanted[size, seed])
        except BaseException as error:  # noqa: BLE001 told by the test's thread
            wrong.append(error)

    threads = [Thread(target=work, args=(seed,)) for seed in (0, 1)]
    torch.cuda.synchronize()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(graphs(engine)) == 2


def test_inputs_that_are_still_being_made_are_waited_for(engine):
    inputs = on_gpu(rows(4))
    wanted = eager(engine, inputs)
    for _ in range(SEEN):
        engine(inputs)
    assert len(graphs(engine)) == 1
    heavy = torch.randn(4096, 4096, device="cuda")
    for stream in (torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            late = torch.zeros_like(inputs["target"])
            for _ in range(20):
                heavy = (heavy @ heavy).clamp(-1, 1)
            late += inputs["target"] + 0 * heavy.sum()
            made = engine({"target": late, "source": inputs["source"]})["output"]
            alike(made, wanted)


def allocated():
    gc.collect()
    torch.cuda.synchronize()
    return torch.cuda.memory_allocated(), torch.cuda.memory_reserved()


def test_nothing_grows(engine):
    inputs = [on_gpu(rows(size)) for size in (1, 2, 4)]
    for turn in range(30):
        engine(inputs[turn % 3])
    before = allocated()
    for turn in range(200):
        engine(inputs[turn % 3])
    assert allocated() == before


def test_what_is_given_up_is_given_back(engine):
    for _ in range(SEEN):
        engine(on_gpu(rows(4)))
    held = allocated()[0]
    assert graphs(engine)
    assert graphed.release_all(engine.device)
    assert not graphs(engine)
    assert allocated()[0] < held
    alike(engine(rows(4))["output"], eager(engine, rows(4)))


@pytest.mark.parametrize("amid", [False, True])
def test_where_a_capture_fails_it_goes_on(engine, amid, monkeypatch, caplog):
    """Fail before the capture, as when memory runs out, or amid it, by what no graph can hold."""
    forward, tried = engine.module.forward, []

    def waits(*inputs):
        if torch.cuda.is_current_stream_capturing():
            tried.append(1)
            torch.cuda.synchronize()
        return forward(*inputs)

    def full(*arguments):
        tried.append(1)
        raise torch.OutOfMemoryError("CUDA out of memory")

    if amid:
        monkeypatch.setattr(engine.module, "forward", waits)
    else:
        monkeypatch.setattr(engine._fast, "_capture", full)
    with caplog.at_level(logging.WARNING):
        made = [engine(rows(2))["output"] for _ in range(SEEN + 5)]
    assert tried == [1]
    assert torch.cuda.current_stream() == torch.cuda.default_stream()  # not the capture's
    assert not graphs(engine)
    assert sum("step by step" in record.getMessage() for record in caplog.records) == 1
    monkeypatch.undo()
    for each in made:
        alike(each, eager(engine, rows(2)))


def test_a_budget_holds_for_graphs_too(engine, caplog):
    inputs = on_gpu(rows(8))
    wanted = eager(engine, inputs)
    for _ in range(SEEN - 1):
        engine(inputs)
    gc.collect()
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    # as much as a batch needs beside what is held, and not that much again
    torch.cuda.reset_peak_memory_stats(0)
    held = torch.cuda.memory_reserved(0)
    engine_needs = _needs(engine, inputs)
    torch.cuda.empty_cache()
    try:
        torch.cuda.set_per_process_memory_fraction((held + 1.2 * engine_needs) / total, 0)
        for _ in range(4 * SEEN):
            alike(engine(inputs)["output"], wanted)
        assert torch.cuda.max_memory_reserved(0) <= held + 1.2 * engine_needs
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, 0)


def _needs(engine, inputs):
    """Return how many bytes of the GPU a batch takes, step by step."""
    before = torch.cuda.memory_reserved(0)
    eager(engine, inputs)
    return torch.cuda.max_memory_reserved(0) - before
