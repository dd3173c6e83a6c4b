"""Frames that are made at once share the cores."""

from __future__ import annotations

import pytest
import torch

from mien.video import cores, share_cores


@pytest.mark.parametrize(
    ("home", "there", "before", "after"),
    [("cpu", 1, 1, 1), ("cpu", 2, 2, 1), ("cpu", 5, 5, 2), ("cpu", 16, 16, 8), ("cpu", 16, 3, 3),
     ("cuda:1", 16, 16, 1)],
)  # fmt: skip
def test_threads_of_pytorch_are_no_more_than_a_share(monkeypatch, home, there, before, after):
    found = []
    monkeypatch.setattr(cores, "usable_cores", lambda: there)
    monkeypatch.setattr(torch, "get_num_threads", lambda: before)
    monkeypatch.setattr(torch, "set_num_threads", found.append)
    share_cores(torch.device(home))
    assert found == [after]
