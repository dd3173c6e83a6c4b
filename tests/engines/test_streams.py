"""Streams that are kept apart are made once, and handed to nobody else."""

from __future__ import annotations

from collections import Counter
from itertools import count
from threading import Thread

import pytest
import torch

from mien.engines import streams
from mien.engines.streams import WORKERS, streams_of

POOL = 32


@pytest.fixture
def pools(monkeypatch):
    """Stand in for PyTorch's streams: 32 of each priority, handed out in turn."""
    made = {0: count(), streams.HIGH: count()}

    class Stream:
        def __init__(self, device, priority=0):
            self.device = device
            self.cuda_stream = 1000 * (priority + 2) + next(made[priority]) % POOL

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(streams, "_made", {})
    return made


def handles(kept):
    return {stream.cuda_stream for stream in (kept.capture, kept.side, *kept.work)}


def test_fresh_streams_are_none_of_the_kept(pools):
    kept = streams_of(torch.device("cuda", 0))
    assert len(handles(kept)) == 2 + WORKERS
    fresh = [kept.fresh().cuda_stream for _ in range(3 * POOL)]
    assert not handles(kept) & set(fresh)
    assert len(set(fresh)) == POOL - WORKERS


def test_each_device_has_streams_of_its_own(pools):
    first, second = (streams_of(torch.device("cuda", number)) for number in range(2))
    assert first is streams_of(torch.device("cuda", 0))
    assert first.capture.device != second.capture.device


def test_threads_get_the_same_streams_in_turn(pools):
    taken = []

    def clip():
        kept = streams_of(torch.device("cuda", 0))
        taken.extend((kept, kept.next_work()) for _ in range(10))

    threads = [Thread(target=clip) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(kept) for kept, _ in taken}) == 1
    assert set(Counter(work.cuda_stream for _, work in taken).values()) == {40 // WORKERS}
