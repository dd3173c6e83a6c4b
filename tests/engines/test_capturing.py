"""Captures are one at a time, on a stream of their own, with memory of their own for products."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from threading import Barrier, Thread
from types import SimpleNamespace

import pytest
import torch

from mien.engines import capturing
from mien.engines.capturing import CAPTURING, WARM, busy, captured

HERE = torch.device("cpu")


@pytest.fixture
def said(monkeypatch):
    """Stand in for CUDA, and return what it is told."""
    said = []
    stream = SimpleNamespace(wait_stream=lambda other: None)
    streams = SimpleNamespace(capture=stream)

    @contextmanager
    def graph(made, *, pool, stream, capture_error_mode):
        assert stream is streams.capture
        assert capture_error_mode == "thread_local"
        said.append(f"begin {pool}")
        yield
        said.append("end")

    monkeypatch.setattr(capturing, "streams_of", lambda device: streams)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "CUDAGraph", SimpleNamespace)
    monkeypatch.setattr(torch.cuda, "graph", graph)
    clear = "_cuda_clearCublasWorkspaces"
    monkeypatch.setattr(torch._C, clear, lambda: said.append("clear"), raising=False)
    return said


def test_a_graph_has_memory_of_its_own_for_products(said):
    before = torch.backends.cudnn.benchmark

    def run():
        said.append("run")
        assert torch.backends.cudnn.benchmark
        return 7

    _, made = captured(run, HERE, pool="pool")
    assert made == 7
    assert said == ["run"] * WARM + ["clear", "begin pool", "run", "end", "clear"]
    assert torch.backends.cudnn.benchmark == before


def test_a_capture_that_fails_leaves_nothing(said):
    before = torch.backends.cudnn.benchmark

    def run():
        if "begin None" in said:
            raise RuntimeError("operation not permitted")

    with pytest.raises(RuntimeError, match="not permitted"):
        captured(run, HERE)
    assert said == ["clear", "begin None", "clear"]
    assert torch.backends.cudnn.benchmark == before
    assert not busy()


def test_threads_capture_one_at_a_time(said):
    ready = Barrier(4)

    def work():
        ready.wait()
        captured(lambda: said.append("run"), HERE)

    threads = [Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == (["run"] * WARM + ["clear", "begin None", "run", "end", "clear"]) * 4


def test_others_are_told_that_one_captures(said):
    told = []

    def run():
        other = Thread(target=lambda: told.append(busy()))
        other.start()
        other.join()
        with CAPTURING:  # whoever runs out of memory amid it may empty the cache
            told.append(busy())

    with CAPTURING:  # as whoever runs step by step: that is no capture
        assert not busy()
    captured(run, HERE)
    assert told == [True, True] * (WARM + 1)
    assert not busy()


def test_without_a_search_convolutions_are_those_of_the_steps(said):
    before, found = torch.backends.cudnn.benchmark, []
    captured(lambda: found.append(torch.backends.cudnn.benchmark), HERE, search=False)
    assert set(found) == {before}
