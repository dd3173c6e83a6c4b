"""Separable convolutions in one kernel give what two convolutions give."""

from __future__ import annotations

import os

import pytest
import torch

from mien import kernels
from mien.kernels import running
from mien.nets.separable import SEPARABLE

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported
pytestmark = pytest.mark.skipif(not kernels.installed(), reason="Triton is not installed here")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TOLERANCE = {"atol": 4e-3, "rtol": 4e-3}
"""Float16 has ten bits of mantissa, and what is between the convolutions is not rounded here."""


def some(*shape, seed=0):
    """Return numbers that float16 has, in float32."""
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=draw).half().float().to(DEVICE)


def both(made, inputs, attributes, monkeypatch, dtypes):
    """Return what one kernel gives for ``inputs`` in ``dtypes``, and the twin in float32."""
    rule = SEPARABLE[made]
    wanted = rule(inputs, attributes)
    monkeypatch.setattr(running, "usable", lambda like: True)
    low = [each.to(dtype) for each, dtype in zip(inputs, dtypes, strict=True)]
    found = rule(low, attributes)
    return found, wanted


@pytest.mark.parametrize(("into", "of", "size", "stride", "pooled", "batch"), [
    (16, 16, (9, 7), 1, False, 2), (16, 32, (12, 10), 2, False, 1), (32, 32, (5, 6), 1, False, 1),
    (128, 128, (3, 3), 1, False, 3), (64, 128, (6, 6), 2, True, 2), (64, 64, (7, 9), 2, True, 1),
    (32, 64, (24, 20), 1, False, 1),
])  # fmt: skip
def test_depthwise_then_across(into, of, size, stride, pooled, batch, monkeypatch):
    after = [side // stride for side in size]
    inputs = [
        some(batch, into, *size), some(9, into, seed=1) / 3, some(into, seed=2),
        some(of, into, 1, 1, seed=3) / into**0.5, some(of, seed=4),
        some(batch, of, *after, seed=5), some(1, of, 1, 1, seed=6),
    ]  # fmt: skip
    how = {"stride": stride, "before": 2 - stride, "after": 1, "pooled": pooled}
    if pooled:
        inputs[5] = inputs[0]
    found, wanted = both("DepthPoint", inputs, how, monkeypatch, [torch.float16] * 7)
    assert found.dtype == torch.float16
    torch.testing.assert_close(found.float(), wanted, **TOLERANCE)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(("into", "of", "size", "relu"), [
    (16, 16, (11, 8), True), (64, 16, (6, 5), False), (32, 64, (7, 7), True),
    (16, 32, (45, 40), True),
])  # fmt: skip
def test_across_then_depthwise(into, of, size, relu, exact, monkeypatch):
    inputs = [
        some(2, into, *size), some(of, into, 1, 1, seed=1) / into**0.5, some(of, seed=2),
        some(9, of, seed=3) / 3, some(of, seed=4),
    ]  # fmt: skip
    kind = torch.float32 if exact else torch.float16
    dtypes = [torch.float16, *[kind] * 4]
    found, wanted = both("PointDepth", inputs, {"relu": relu}, monkeypatch, dtypes)
    assert found.dtype == kind
    torch.testing.assert_close(found.float(), wanted, **TOLERANCE)
    assert (float(found.min()) >= 0) == relu


def test_other_numbers_of_channels_are_two_convolutions(monkeypatch):
    monkeypatch.setattr("mien.kernels.separable.point_depth", None)
    inputs = [some(1, 24, 4, 4), some(16, 24, 1, 1), some(16), some(9, 16), some(16)]
    found, wanted = both("PointDepth", inputs, {"relu": True}, monkeypatch, [torch.float16] * 5)
    torch.testing.assert_close(found.float(), wanted, atol=0.1, rtol=0.02)


@pytest.mark.parametrize(("batch", "channels", "of", "taken"), [
    (8, 16, 16, True), (14_563, 16, 16, True), (14_564, 16, 16, False), (8_000, 16, 32, False),
    (1, 16, 24, False), (1, 512, 16, False),
])  # fmt: skip
def test_the_kernels_count_in_32_bits(batch, channels, of, taken):
    from mien.kernels.separable import takes

    point = torch.empty(of, channels, 1, 1, device="meta")
    assert takes(torch.empty(batch, channels, 96, 96, device="meta"), point) == taken


def test_what_needs_gradients_is_two_convolutions(monkeypatch):
    x = some(1, 16, 4, 4).half().requires_grad_()
    monkeypatch.setattr(running, "usable", lambda like: True)
    others = [some(16, 16, 1, 1), some(16), some(9, 16), some(16)]
    SEPARABLE["PointDepth"]([x, *(each.half() for each in others)], {"relu": True}).sum().backward()
    assert x.grad is not None
