"""Pixel formats: what a network is given, and what its pictures mean."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mien.models import PixelFormat

SHADES = torch.from_numpy(np.random.default_rng(1).integers(0, 256, (2, 3, 4, 5), np.uint8))


def numbers(low, high):
    return st.floats(low, high, width=32)


def triples(low, high):
    return st.tuples(*[numbers(low, high)] * 3)


formats = st.builds(
    lambda low, span, **rest: PixelFormat(low=low, high=low + span, **rest),
    low=numbers(-128, 128),
    span=numbers(1, 255),
    mean=triples(-128, 128),
    std=triples(0.125, 128),
    order=st.sampled_from(["RGB", "BGR"]),
    layout=st.sampled_from(["NCHW", "NHWC"]),
)
examples = settings(max_examples=80, deadline=None, derandomize=True, database=None)


def formula(form, shares):
    """Return what the docstrings promise for RGB shares (N, 3, H, W) in [0, 1], in float64."""
    mean, std = (np.reshape(v, (3, 1, 1)) for v in (form.mean, form.std))
    values = (shares * (form.high - form.low) + form.low - mean) / std
    if form.order == "BGR":
        values = values[:, [2, 1, 0]]
    return values.transpose(0, 2, 3, 1) if form.layout == "NHWC" else values


@examples
@given(formats)
def test_encoding_follows_the_formula(form):
    wanted = formula(form, SHADES.numpy() / 255)
    values = form.encode(SHADES)
    assert values.dtype == torch.float32
    assert values.is_contiguous()
    np.testing.assert_allclose(values.numpy(), wanted, rtol=1e-4, atol=1e-3)


@examples
@given(formats)
def test_decoding_undoes_encoding(form):
    shares = SHADES / 255
    back = form.decode(form.encode(shares))
    assert back.shape == shares.shape
    torch.testing.assert_close(back, shares, rtol=0, atol=5e-4)


@examples
@given(formats)
def test_bytes_and_shares_of_the_same_picture_are_encoded_alike(form):
    torch.testing.assert_close(form.encode(SHADES), form.encode(SHADES / 255), rtol=1e-4, atol=1e-3)


@examples
@given(formats)
def test_the_picture_that_is_encoded_stays_as_it_is(form):
    for pixels in (SHADES.clone(), SHADES / 255):
        before = pixels.clone()
        form.encode(pixels)
        assert torch.equal(pixels, before)


def pixel(red, green, blue):
    return torch.tensor([red, green, blue], dtype=torch.uint8).view(1, 3, 1, 1)


def test_bytes_in_blue_green_red():
    form = PixelFormat(high=255.0, order="BGR")
    assert form.encode(pixel(10, 20, 30)).flatten().tolist() == [30, 20, 10]
    assert form.encode(pixel(10, 20, 30)).shape == (1, 3, 1, 1)


def test_channels_last():
    form = PixelFormat(high=255.0, layout="NHWC")
    row = torch.cat([pixel(1, 2, 3), pixel(4, 5, 6)], dim=3)
    assert form.encode(row).tolist() == [[[[1, 2, 3], [4, 5, 6]]]]
    assert torch.equal(form.decode(form.encode(row)) * 255, row.float())


@pytest.mark.parametrize(
    "form",
    [
        PixelFormat(high=255.0, mean=(127.5,) * 3, std=(128.0,) * 3),
        PixelFormat(low=-127.5 / 128, high=127.5 / 128),
    ],
    ids=["as mean and std", "as a range"],
)
def test_less_127_5_over_128(form):
    values = form.encode(pixel(0, 127, 255)).flatten().tolist()
    assert values == pytest.approx([-0.99609375, -0.00390625, 0.99609375], abs=1e-6)


def test_imagenet():
    form = PixelFormat(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
    black, white = (form.encode(pixel(v, v, v)).flatten().tolist() for v in (0, 255))
    assert black == pytest.approx([-2.117904, -2.035714, -1.804444], abs=1e-5)
    assert white == pytest.approx([2.248908, 2.428571, 2.640000], abs=1e-5)


def test_mean_and_std_belong_to_red_green_and_blue_in_any_order():
    form = PixelFormat(high=255.0, mean=(1, 2, 3), std=(1, 2, 4), order="BGR")
    assert form.encode(pixel(11, 22, 43)).flatten().tolist() == [10, 10, 10]
    assert form.encode(pixel(11, 22, 3)).flatten().tolist() == [0, 10, 10]


def test_decoding_does_not_clamp():
    form = PixelFormat(low=-1.0)
    assert form.decode(torch.tensor([-3.0, 0.0, 3.0]).view(1, 3, 1, 1)).flatten().tolist() == [
        -1,
        0.5,
        2,
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"order": "GBR"},
        {"order": "rgb"},
        {"layout": "CHW"},
        {"low": 1.0, "high": 1.0},
        {"low": 2.0, "high": 1.0},
        {"high": math.nan},
        {"high": math.inf},
        {"mean": (0.5, 0.5)},
        {"mean": (0.5,) * 4},
        {"mean": (0.5, 0.5, math.nan)},
        {"std": (1.0, 1.0)},
        {"std": (1.0,) * 4},
        {"std": ()},
        {"std": (1.0, 0.0, 1.0)},
        {"std": (1.0, 1.0, -1.0)},
        {"std": (1.0, math.nan, 1.0)},
    ],
    ids=str,
)
def test_what_makes_no_pixel_format_is_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        PixelFormat(**options)
