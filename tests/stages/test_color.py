"""Colour matching against Ottosson's published values and NumPy's moments; tables by SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.interpolate import RegularGridInterpolator
from scipy.ndimage import gaussian_filter

from mien.stages.color import (
    GRAIN,
    STRETCH,
    from_oklab,
    match_color,
    through_table,
    to_oklab,
)

steady = settings(derandomize=True, deadline=None, max_examples=40)

SIZE = 64

# sRGB -> Oklab by Björn Ottosson's reference code, as CSS Color 4 also lists them
KNOWN = {
    "white": ((1, 1, 1), (1.0, 0.0, 0.0)),
    "black": ((0, 0, 0), (0.0, 0.0, 0.0)),
    "red": ((1, 0, 0), (0.6279553, 0.2248631, 0.1258463)),
    "green": ((0, 1, 0), (0.8664396, -0.2338874, 0.1794985)),
    "blue": ((0, 0, 1), (0.4520137, -0.0324570, -0.3115281)),
    # linear light of code 0.5 is ((0.5 + 0.055) / 1.055) ** 2.4 = 0.2140411, its cube root 0.59818
    "gray": ((0.5, 0.5, 0.5), (0.5981808, 0.0, 0.0)),
    # in the straight part of sRGB's curve: cube root of 0.02 / 12.92
    "dark": ((0.02, 0.02, 0.02), (0.1156782, 0.0, 0.0)),
}


def picture(colour):
    return torch.tensor(colour, dtype=torch.float32).view(1, 3, 1, 1)


def lab(rgb):
    """Return Oklab (3, ...) of sRGB (3, ...) in double precision, written out anew."""
    rgb = np.asarray(rgb, dtype=np.float64)
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    r, g, b = linear
    long = np.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b)
    middle = np.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b)
    short = np.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b)
    return np.stack(
        [
            0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short,
            1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short,
            0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short,
        ]
    )


def scene(seed, *, contrast=0.12, size=SIZE):
    """Return a picture (1, 3, size, size) of smooth colours far from black and white."""
    rng = np.random.default_rng(seed)
    smooth = gaussian_filter(rng.random((3, size, size)), (0, 6, 6))
    smooth = (smooth - smooth.mean(axis=(1, 2), keepdims=True)) / smooth.std()
    middle = rng.uniform(0.4, 0.6, (3, 1, 1))
    return torch.from_numpy((middle + contrast / 2 * smooth).astype(np.float32))[None]


def moved(pixels, linear, shift):
    """Return ``pixels`` with a linear map and a shift applied about their mean in Oklab."""
    planes = to_oklab(pixels)
    mean = planes.mean(dim=(2, 3), keepdim=True)
    matrix = torch.tensor(linear, dtype=torch.float32)
    turned = torch.einsum("ij,kjhw->kihw", matrix, planes - mean)
    result = from_oklab(turned + mean + torch.tensor(shift).view(1, 3, 1, 1))
    assert float(result.min()) > 0
    assert float(result.max()) < 1
    return result


def even(size=SIZE):
    return torch.ones(1, size, size)


def soft(size=SIZE):
    y, x = np.mgrid[:size, :size]
    depth = size / 2 - np.hypot(x - size / 2, y - size / 2)
    return torch.from_numpy((depth / 10).clip(0, 1).astype(np.float32))[None]


def moments(pixels, weights):
    """Return mean and covariance in Oklab over blocks of GRAIN pixels, each as its weight."""
    values, weights = lab(pixels[0].numpy()), weights[0].double().numpy()
    rows, columns = (n // GRAIN for n in weights.shape)
    means, sums = [], []
    for i in range(rows):
        for j in range(columns):
            block = np.s_[i * GRAIN : (i + 1) * GRAIN, j * GRAIN : (j + 1) * GRAIN]
            total = weights[block].sum()
            if total > 0:
                means.append((values[(slice(None), *block)] * weights[block]).sum((1, 2)) / total)
                sums.append(total)
    means = np.array(means)
    return np.average(means, axis=0, weights=sums), np.cov(means.T, aweights=sums, bias=True)


# ---------------------------------------------------------------- the space


@pytest.mark.parametrize("name", KNOWN)
def test_oklab_of_known_colours(name):
    rgb, expected = KNOWN[name]
    np.testing.assert_allclose(to_oklab(picture(rgb)).flatten().numpy(), expected, atol=2e-5)
    np.testing.assert_allclose(from_oklab(picture(expected)).flatten().numpy(), rgb, atol=2e-4)


@steady
@given(arrays(np.float32, (1, 3, 4, 5), elements=st.floats(0, 1, width=32)))
def test_oklab_goes_there_and_back(pixels):
    pixels = torch.from_numpy(pixels)
    planes = to_oklab(pixels)
    np.testing.assert_allclose(planes[0].numpy(), lab(pixels[0].numpy()), atol=2e-5)
    # the steepest place is black: a cone response of 1e-6 changes L by 1e-2
    torch.testing.assert_close(from_oklab(planes), pixels, atol=5e-4, rtol=0)


def test_gray_has_no_colour():
    ramp = torch.linspace(0, 1, 101).expand(1, 3, 1, 101)
    planes = to_oklab(ramp)
    assert float(planes[:, 1:].abs().max()) < 1e-4
    assert (planes[0, 0, 0].diff() > 0).all()


# ---------------------------------------------------------------- matching


@pytest.mark.parametrize("weights", [even(), soft()], ids=["even", "soft"])
@pytest.mark.parametrize("seed", range(4))
def test_the_mean_becomes_the_targets(seed, weights):
    pixels, target = scene(seed), scene(seed + 100)
    result = match_color(pixels, target, weights)
    assert float(result.min()) > 0  # nothing was clamped
    assert float(result.max()) < 1
    before, _ = moments(pixels, weights)
    found, _ = moments(result, weights)
    wanted, _ = moments(target, weights)
    assert np.abs(before - wanted).max() > 0.01
    np.testing.assert_allclose(found, wanted, atol=2e-4)


WITHIN = [
    [[1.15, 0, 0], [0, 0.85, 0], [0, 0, 1.05]],
    [[1.0, 0.08, -0.05], [0.08, 0.95, 0.06], [-0.05, 0.06, 1.1]],
]


@pytest.mark.parametrize("linear", WITHIN)
@pytest.mark.parametrize("weights", [even(), soft()], ids=["even", "soft"])
def test_the_covariance_becomes_the_targets_within_the_limits(weights, linear):
    stretches = np.linalg.eigvalsh(linear)
    assert 1 / STRETCH < stretches.min() < stretches.max() < STRETCH
    pixels = scene(3)
    target = moved(pixels, linear, (0.05, 0.01, -0.02))
    result = match_color(pixels, target, weights)
    found_mean, found = moments(result, weights)
    wanted_mean, wanted = moments(target, weights)
    np.testing.assert_allclose(found_mean, wanted_mean, atol=2e-4)
    # the floor of the variances, 1e-5, is the difference that is allowed
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    _, before = moments(pixels, weights)
    assert np.abs(before - wanted).max() > 5e-5


@pytest.mark.parametrize("linear", WITHIN)
def test_the_map_is_the_one_that_moves_colours_least(linear):
    # A symmetric positive definite map is its own Monge-Kantorovich map: a target made with one
    # is met pixel by pixel, which a map that only got the covariance right would miss.
    pixels = scene(5)
    target = moved(pixels, linear, (-0.04, 0.02, 0.01))
    result = match_color(pixels, target, even())
    assert float((pixels - target).abs().max()) > 0.05
    torch.testing.assert_close(result, target, atol=0.01, rtol=0)
    assert float((result - target).abs().mean()) < 0.002


def test_a_face_in_a_gray_picture_turns_gray():
    pixels = scene(8, contrast=0.05)
    gray = pixels.mean(dim=1, keepdim=True).expand(-1, 3, -1, -1)
    before, after = (lab(p[0].numpy())[1:] for p in (pixels, match_color(pixels, gray, even())))
    assert np.abs(before).max() > 0.05
    assert np.abs(after).max() < 0.01


@pytest.mark.parametrize(("factor", "limit"), [(2.0, STRETCH)])
def test_no_colour_is_stretched_beyond_the_limit(factor, limit):
    pixels = scene(8, contrast=0.05)
    target = moved(pixels, np.eye(3) * factor, (0.0, 0.0, 0.0))
    result = match_color(pixels, target, even())
    before, after = lab(pixels[0].numpy()), lab(result[0].numpy())
    centre = before.mean(axis=(1, 2), keepdims=True)
    expected = (before - centre) * limit
    drift = after - after.mean(axis=(1, 2), keepdims=True) - expected
    assert np.abs(drift).max() < 2e-3


@pytest.mark.parametrize("weights", [even(), soft()], ids=["even", "soft"])
def test_equal_pictures_stay_as_they_are(weights):
    pixels = scene(11)
    torch.testing.assert_close(match_color(pixels, pixels, weights), pixels, atol=1e-3, rtol=0)


def test_grain_does_not_count():
    # the target's fine noise must not be made up for by stretching the face's shading
    pixels = scene(12)
    noise = torch.from_numpy(np.random.default_rng(0).normal(0, 0.08, (1, 1, SIZE, SIZE))).float()
    # no block of GRAIN pixels changes its mean
    blocks = noise.unfold(2, GRAIN, GRAIN).unfold(3, GRAIN, GRAIN)
    blocks -= blocks.mean(dim=(4, 5), keepdim=True)
    grainy = from_oklab(to_oklab(pixels) + torch.cat([noise, noise * 0, noise * 0], dim=1))
    assert float(grainy.min()) > 0
    assert float(grainy.max()) < 1
    assert float((grainy - pixels).std()) > 0.05
    result = match_color(pixels, grainy, even())
    torch.testing.assert_close(result, pixels, atol=2e-3, rtol=0)


def test_faces_without_weight_come_back_bit_for_bit():
    pixels = torch.cat([scene(1), scene(2)])
    target = torch.cat([scene(3), scene(4)])
    weights = torch.cat([even() * 0, even()])
    result = match_color(pixels, target, weights)
    assert torch.equal(result[0], pixels[0])
    torch.testing.assert_close(result[1], match_color(pixels[1:], target[1:], weights[1:])[0])
    assert not torch.equal(result[1], pixels[1])


def test_pixels_without_weight_have_no_say():
    pixels, target = scene(1), scene(2)
    weights = even()
    weights[:, :, SIZE // 2 :] = 0
    plain = match_color(pixels, target, weights)
    other, other_target = pixels.clone(), target.clone()
    other[..., SIZE // 2 :] = 0.9
    other_target[..., SIZE // 2 :] = 0.1
    found = match_color(other, other_target, weights)
    half = SIZE // 2
    torch.testing.assert_close(found[..., :half], plain[..., :half], atol=1e-4, rtol=0)


def test_flat_pictures_take_the_targets_colour():
    flat = picture((0.3, 0.5, 0.6)).expand(1, 3, SIZE, SIZE)
    wanted = picture((0.7, 0.5, 0.4)).expand(1, 3, SIZE, SIZE)
    torch.testing.assert_close(match_color(flat, wanted, soft()), wanted, atol=1e-3, rtol=0)


@pytest.mark.parametrize("flat", ["pixels", "target"])
def test_one_flat_picture_gives_numbers(flat):
    plain = picture((0.3, 0.5, 0.6)).expand(1, 3, SIZE, SIZE)
    pair = (plain, scene(0)) if flat == "pixels" else (scene(0), plain)
    result = match_color(*pair, even())
    assert bool(torch.isfinite(result).all())
    found, _ = moments(result, even())
    wanted, _ = moments(pair[1], even())
    np.testing.assert_allclose(found, wanted, atol=1e-3)


def extremes(seed):
    """Return pictures (6, 3, SIZE, SIZE): black, white, red, bits, two halves, noise."""
    rng = np.random.default_rng(seed)
    shape = (3, SIZE, SIZE)
    red = np.zeros(shape)
    red[0] = 1
    halves = np.zeros(shape)
    halves[..., SIZE // 2 :] = 1
    bits = rng.integers(0, 2, shape)
    pictures = [np.zeros(shape), np.ones(shape), red, bits, halves, rng.random(shape)]
    return torch.from_numpy(np.stack(pictures).astype(np.float32))


@pytest.mark.parametrize("weights", ["even", "soft", "one pixel"])
def test_extremes_stay_in_range(weights):
    pixels, target = extremes(0), extremes(1)
    # each with each
    pixels, target = pixels.repeat_interleave(6, dim=0), target.repeat(6, 1, 1, 1)
    spot = torch.zeros(1, SIZE, SIZE)
    spot[0, 20, 20] = 1e-3
    counted = {"even": even(), "soft": soft(), "one pixel": spot}[weights].expand(36, -1, -1)
    result = match_color(pixels, target, counted)
    assert bool(torch.isfinite(result).all())
    assert float(result.min()) >= 0
    assert float(result.max()) <= 1


@pytest.mark.parametrize("shape", [(24, 16), (37, 50)])
def test_sides_need_not_be_whole_blocks(shape):
    pixels, target = (scene(seed)[..., : shape[0], : shape[1]] for seed in (1, 2))
    weights = torch.ones(1, *shape)
    result = match_color(pixels, target, weights)
    assert result.shape == pixels.shape
    np.testing.assert_allclose(moments(result, weights)[0], moments(target, weights)[0], atol=5e-4)


def test_a_single_block_takes_the_targets_mean():
    pixels, target = (scene(seed)[..., :GRAIN, :GRAIN] for seed in (1, 2))
    result = match_color(pixels, target, torch.ones(1, GRAIN, GRAIN))
    found, wanted = (lab(p[0].numpy()).mean(axis=(1, 2)) for p in (result, target))
    np.testing.assert_allclose(found, wanted, atol=5e-4)


# Tables


def steps(n):
    """Return the table (3, n, n, n) that leaves colours as they are."""
    line = torch.linspace(0, 1, n)
    return torch.stack(torch.meshgrid(line, line, line, indexing="ij"))


def colours(seed, count=2, height=5, width=7):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.random((count, 3, height, width), np.float32))


@pytest.mark.parametrize("n", [2, 5, 52])
def test_a_table_of_its_own_steps_changes_nothing(n):
    pixels = colours(1)
    torch.testing.assert_close(through_table(pixels, steps(n)), pixels, atol=2e-6, rtol=0)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_at_its_steps_a_table_says_what_it_holds(channels):
    # axes in the order red, green, blue, and the ends of the range are steps too
    n = 6
    table = torch.from_numpy(np.random.default_rng(2).random((channels, n, n, n), np.float32))
    places = [(0, 0, 0), (5, 5, 5), (5, 0, 0), (0, 5, 0), (0, 0, 5), (1, 2, 4), (4, 2, 1)]
    pixels = torch.tensor(places, dtype=torch.float32).view(-1, 3, 1, 1) / (n - 1)
    found = through_table(pixels, table)
    assert found.shape == (len(places), channels, 1, 1)
    for place, values in zip(places, found[..., 0, 0], strict=True):
        torch.testing.assert_close(values, table[(slice(None), *place)], atol=2e-6, rtol=0)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_between_its_steps_a_table_is_trilinear(channels):
    n = 5
    table = np.random.default_rng(3).random((channels, n, n, n), np.float32)
    pixels = colours(4, count=3)
    line = np.linspace(0, 1, n)
    expected = RegularGridInterpolator([line] * 3, table.transpose(1, 2, 3, 0))(
        pixels.permute(0, 2, 3, 1).numpy()
    )
    found = through_table(pixels, torch.from_numpy(table)).permute(0, 2, 3, 1).numpy()
    np.testing.assert_allclose(found, expected, atol=5e-6)


def test_no_crops_go_through_a_table():
    assert through_table(torch.zeros(0, 3, 8, 8), steps(4)[:1]).shape == (0, 1, 8, 8)
