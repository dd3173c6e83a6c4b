"""Statistics of channels by one kernel are those of PyTorch."""

from __future__ import annotations

import os

import pytest
import torch

from mien import kernels
from mien.kernels import running
from mien.nets.operators import OPERATORS

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported
pytestmark = pytest.mark.skipif(not kernels.installed(), reason="Triton is not installed here")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def pictures(*shape):
    """Return pictures in float16 whose channels lie far from 0, and one that is nearly flat."""
    draw = torch.Generator().manual_seed(0)
    made = torch.randn(shape, generator=draw) + torch.arange(shape[1])[:, None, None] / 4
    made[:, 3] = 7 + made[:, 3].sign() / 256
    return made.half().to(DEVICE).contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("shape", [(2, 32, 5, 7), (1, 16, 40, 33), (3, 48, 16, 16)])
def test_means_and_variances(shape):
    from mien.kernels.instance import moments

    x = pictures(*shape)
    mean, variance = moments(x)
    wanted = torch.var_mean(x.double(), dim=(2, 3), keepdim=True, correction=0)
    torch.testing.assert_close(variance.double(), wanted[0], atol=1e-8, rtol=1e-4)
    torch.testing.assert_close(mean.double(), wanted[1], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("channels", [32, 24])
def test_what_is_modulated_by_them(channels, monkeypatch):
    """24 channels are no whole number of programs, and modulated without the kernel."""
    x = pictures(2, channels, 9, 8)
    gain, bias = (pictures(2, channels, 1, 1) * scale for scale in (0.1, 0.2))
    wanted = OPERATORS["Modulation"]([x.float(), gain.float(), bias.float()], {})
    monkeypatch.setattr(running, "usable", lambda like: True)
    found = OPERATORS["Modulation"]([x, gain, bias], {})
    assert found.dtype == torch.float16
    rough = torch.arange(channels) != 3  # there float16 has no digits for the mean
    torch.testing.assert_close(found.float()[:, rough], wanted[:, rough], atol=2e-2, rtol=4e-3)
