"""Frames that are made at once share the cores."""

from __future__ import annotations

import pytest
import torch

from mien.video import cores, share_cores


@pytest.mark.parametrize(
    ("there", "before", "after"), [(1, 1, 1), (2, 2, 1), (5, 5, 2), (16, 16, 8), (16, 3, 3)]
)
def test_threads_of_pytorch_are_no_more_than_a_share(monkeypatch, there, before, after):
    found = []
    monkeypatch.setattr(cores, "usable_cores", lambda: there)
    monkeypatch.setattr(torch, "get_num_threads", lambda: before)
    monkeypatch.setattr(torch, "set_num_threads", found.append)
    share_cores()
    assert found == [after]
