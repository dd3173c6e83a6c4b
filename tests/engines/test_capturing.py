"""Captures are one at a time, on a stream of their own, and leave nothing if they go wrong."""

from __future__ import annotations

import gc
import logging
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
    """Stand in for CUDA, and return what it is told. A capture that is "spoiled" has no end."""
    said, underway = [], []
    stream = SimpleNamespace(wait_stream=lambda other: None)
    streams = SimpleNamespace(capture=stream)

    @contextmanager
    def graph(made, *, pool="little", stream, capture_error_mode):
        assert stream is streams.capture
        assert capture_error_mode == "thread_local"
        assert busy()
        said.append(f"begin {pool}")
        underway.append(pool)
        try:
            yield
        finally:
            if said[-1] == "spoiled":
                raise RuntimeError("capture invalidated")
            underway.remove(pool)
            said.append("end")

    def end_allocation(index, pool):
        if pool not in underway:
            raise RuntimeError("not currently recording")
        underway.remove(pool)
        said.append(f"no more in {pool}")

    monkeypatch.setattr(capturing, "streams_of", lambda device: streams)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "CUDAGraph", SimpleNamespace)
    monkeypatch.setattr(torch.cuda, "graph", graph)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: "new")
    monkeypatch.setattr(capturing, "_spoiled", set())
    cuda = {
        "clearCublasWorkspaces": lambda: said.append("clear"),
        "endAllocateToPool": end_allocation,
        "releasePool": lambda index, pool: said.append(f"release {pool}"),
        "sleep": lambda cycles: said.append("kernel"),
    }
    for name, stand_in in cuda.items():
        monkeypatch.setattr(torch._C, f"_cuda_{name}", stand_in, raising=False)
    return said


LITTLE = ["kernel", "begin little", "kernel", "end"]
"""A capture after which PyTorch has random numbers again."""


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
        if "begin new" in said:
            raise ValueError("of its own")

    with pytest.raises(ValueError, match="of its own"):
        captured(run, HERE)
    assert said == ["clear", "begin new", "end", *LITTLE, "clear"]
    assert torch.backends.cudnn.benchmark == before
    assert not busy()


def spoil(said):
    """Return what spoils a capture."""
    return lambda: said.append("spoiled" if said.count("run") == WARM else "run")


def test_a_capture_that_cuda_ends_is_ended_for_pytorch_too(said):
    with pytest.raises(RuntimeError, match="invalidated"):
        captured(spoil(said), HERE, pool="pool")
    spoiled = ["clear", "begin pool", "spoiled", "no more in pool", "release pool"]
    assert said == ["run"] * WARM + spoiled + LITTLE + ["clear"]
    assert not busy()
    del said[:]
    # PyTorch would not begin another in that pool
    captured(lambda: None, HERE, pool="pool")
    captured(lambda: None, HERE, pool="other")
    assert [each for each in said if "begin" in each] == ["begin new", "begin other"]


@pytest.mark.parametrize("broken", ["_cuda_releasePool", "_cuda_sleep"])
def test_what_else_goes_wrong_hides_no_error(said, broken, monkeypatch, caplog):
    def fail(*_):
        raise RuntimeError("and another")

    monkeypatch.setattr(torch._C, broken, fail, raising=False)
    with (
        caplog.at_level(logging.DEBUG, capturing.__name__),
        pytest.raises(RuntimeError, match="invalidated"),
    ):
        captured(spoil(said), HERE)
    assert [record.levelname for record in caplog.records] == ["DEBUG"]
    assert "and another" in caplog.text
    assert said[-1] == "clear"
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
    assert said == (["run"] * WARM + ["clear", "begin new", "run", "end", "clear"]) * 4


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


@pytest.mark.parametrize("before", [True, False])
def test_no_garbage_is_collected_amid_a_capture(said, before):
    found = []

    def run():
        found.append(gc.isenabled())
        if len(found) == WARM + 2:
            raise ValueError("of its own")

    was = gc.isenabled()
    (gc.enable if before else gc.disable)()
    try:
        captured(run, HERE)
        assert found == [before] * WARM + [False]
        assert gc.isenabled() == before
        del found[:], said[:]
        found.append(None)
        with pytest.raises(ValueError, match="of its own"):
            captured(run, HERE)
        assert found[-1] is False
        assert gc.isenabled() == before
    finally:
        (gc.enable if was else gc.disable)()
