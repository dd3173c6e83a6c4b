"""Whether kernels run is tried once for each GPU, and told where they do not."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch

from mien.kernels import fused, fusing, running


@pytest.fixture
def tried(monkeypatch):
    """Stand in for a machine with Triton, and return on which GPUs it was tried."""
    tried = []
    monkeypatch.setattr(running, "_INSTALLED", True)
    monkeypatch.setattr(running, "_runs", {})
    monkeypatch.setattr(torch, "empty", lambda *shape, device: device)
    module = SimpleNamespace(store_one=tried.append)
    monkeypatch.setitem(sys.modules, "mien.kernels.trying", module)
    return tried


def on(number):
    """Return what looks like a tensor in half precision on a GPU."""
    device = torch.device("cuda", number)
    return SimpleNamespace(is_cuda=True, device=device, dtype=torch.float16, requires_grad=False)


def test_each_gpu_is_tried_once(tried):
    assert [running.usable(on(number)) for number in (0, 1, 0, 1)] == [True] * 4
    assert tried == [torch.device("cuda", 0), torch.device("cuda", 1)]
    assert not running.usable(torch.zeros(1))


def test_one_on_which_nothing_runs_is_told_once(tried, monkeypatch, caplog):
    def fail(out):
        tried.append(out)
        raise RuntimeError("Failed to find C compiler")

    monkeypatch.setattr(sys.modules["mien.kernels.trying"], "store_one", fail)
    assert not running.usable(on(0))
    assert not running.usable_in_networks(on(0))
    assert len(tried) == len(caplog.records) == 1
    assert "longer on cuda:0" in caplog.text
    assert "gcc" in caplog.text
    assert "Failed to find C compiler" in caplog.text


def test_the_compiler_only_looks(tried, monkeypatch):
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert not running.usable(on(0))
    assert not tried
    running._runs[0] = True
    assert running.usable(on(0))


def test_layers_are_for_half_precision_without_gradients(tried):
    one = on(0)
    assert running.usable_in_networks(one)
    for name, value in (("dtype", torch.float32), ("requires_grad", True), ("is_cuda", False)):
        assert not running.usable_in_networks(SimpleNamespace(**{**vars(one), name: value}))


def test_without_triton_nothing_is_tried(tried, monkeypatch):
    monkeypatch.setattr(running, "_INSTALLED", False)
    assert not running.usable(on(0))
    assert not tried


def test_nothing_is_compiled_where_kernels_do_not_run(monkeypatch):
    monkeypatch.setattr(fusing, "usable", lambda like: False)
    monkeypatch.setattr(torch, "compile", None)
    assert fused(torch.neg)(torch.ones(1)).item() == -1
