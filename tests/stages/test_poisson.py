"""Poisson blending against OpenCV's seamlessClone and solutions known in closed form."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import gaussian_filter

from mien.stages.poisson import poisson_blend, solve

steady = settings(derandomize=True, deadline=None, max_examples=30)

CODE = 1 / 255


def texture(height, width, sigma, seed):
    """Return smooth random codes, uint8 (height, width, 3), far enough from 0 and 255."""
    rough = np.random.default_rng(seed).random((height, width, 3))
    smooth = gaussian_filter(rough, (sigma, sigma, 0))
    smooth = (smooth - smooth.min()) / (smooth.max() - smooth.min())
    return (70 + 110 * smooth).astype(np.uint8)


def planes(codes):
    return torch.from_numpy(np.ascontiguousarray(codes)).permute(2, 0, 1)[None].float() / 255


def random_planes(shape, seed):
    return torch.from_numpy(np.random.default_rng(seed).random(shape, np.float32))


def ellipse(height, width):
    mask = np.zeros((height, width), np.uint8)
    centre, axes = (width // 2 + 3, height // 2 - 2), (width // 3, height // 3)
    return cv2.ellipse(mask, centre, axes, 20, 0, 360, 255, -1)


def polygon(height, width):
    mask = np.zeros((height, width), np.uint8)
    corners = np.array([[0.2, 0.15], [0.8, 0.3], [0.7, 0.85], [0.35, 0.75]]) * [width, height]
    return cv2.fillPoly(mask, [corners.round().astype(np.int32)], 255)


@pytest.mark.parametrize("size", [(90, 110), (128, 128), (71, 60)])
@pytest.mark.parametrize("shape", [ellipse, polygon])
def test_blend_equals_opencv(shape, size):
    source, target = texture(*size, 4, seed=1), texture(*size, 6, seed=2)
    mask = shape(*size)
    x, y, w, h = cv2.boundingRect(mask)
    # OpenCV writes into the mask it is given, so it gets a copy
    clone = cv2.seamlessClone(
        source, target, mask.copy(), (x + w // 2, y + h // 2), cv2.NORMAL_CLONE
    )
    assert np.abs(clone.astype(int) - target).max() > 20
    # what it solves: the bounding box of the mask, with the mask eroded by 3 x 3 three times
    inner = cv2.erode(mask, np.ones((3, 3), np.uint8), iterations=3)
    box = np.s_[y : y + h, x : x + w]
    opacity = torch.from_numpy(inner[box] / 255).float()[None]
    found = poisson_blend(planes(source[box]), planes(target[box]), opacity).clamp(0, 1)
    # OpenCV cuts its result down to whole codes: ours lies 0 to 1 code above, and rounding
    above = found[0].permute(1, 2, 0).numpy() * 255 - clone[box]
    assert above.min() > -0.01
    assert above.max() < 1.01


@pytest.mark.parametrize("size", [(3, 3), (3, 8), (12, 7), (33, 64)])
def test_target_onto_itself_is_the_target(size):
    target = random_planes((2, 3, *size), 0)
    mask = random_planes((2, *size), 1)
    torch.testing.assert_close(poisson_blend(target, target, mask), target, atol=2e-5, rtol=0)


def test_a_constant_is_forgotten():
    # only gradients are taken from the patch
    target = random_planes((1, 3, 20, 26), 0)
    offset = torch.tensor([0.3, -0.2, 0.05]).view(1, 3, 1, 1)
    mask = torch.ones(1, 20, 26)
    torch.testing.assert_close(
        poisson_blend(target + offset, target, mask), target, atol=2e-5, rtol=0
    )


@pytest.mark.parametrize("size", [(3, 9), (16, 16), (9, 40)])
def test_a_flat_patch_becomes_the_ramp_between_the_borders(size):
    # no gradients inside: the harmonic function whose border is a ramp is that ramp
    height, width = size
    ramp = torch.linspace(0.1, 0.9, width).expand(1, 1, height, width)
    target = ramp.clone()
    target[..., 1:-1, 1:-1] = random_planes((1, 1, height - 2, width - 2), 0)
    flat = torch.full_like(target, 0.7)
    result = poisson_blend(flat, target, torch.ones(1, height, width))
    torch.testing.assert_close(result, ramp, atol=1e-5, rtol=0)
    upright = poisson_blend(flat.mT, target.mT, torch.ones(1, width, height))
    torch.testing.assert_close(upright, ramp.mT, atol=1e-5, rtol=0)


def test_a_parabola_meets_the_border():
    # the patch has second difference 2 c in x; with the border of c x^2 + a x + b that is the
    # solution, whatever the target had inside and whatever ramp was added to the patch
    x = torch.arange(24.0)
    c, a, b = 0.001, -0.01, 0.4
    expected = (c * x**2 + a * x + b).expand(1, 1, 15, 24)
    target = expected.clone()
    target[..., 1:-1, 1:-1] = 0.5
    patch = (c * x**2 + 0.02 * x - 0.1).expand(1, 1, 15, 24)
    result = poisson_blend(patch, target, torch.ones(1, 15, 24))
    torch.testing.assert_close(result, expected, atol=1e-5, rtol=0)


def test_without_a_mask_the_target_stays():
    patch, target = random_planes((2, 3, 18, 21), 0), random_planes((2, 3, 18, 21), 1)
    result = poisson_blend(patch, target, torch.zeros(2, 18, 21))
    torch.testing.assert_close(result, target, atol=2e-5, rtol=0)


@steady
@given(st.integers(3, 30), st.integers(3, 30), st.integers(0, 100))
def test_soft_masks_give_numbers_and_keep_the_border(height, width, seed):
    shape = (2, 3, height, width)
    patch, target = random_planes(shape, seed), random_planes(shape, seed + 1)
    before = patch.clone(), target.clone()
    mask = random_planes((2, height, width), seed + 2)
    result = poisson_blend(patch, target, mask)
    assert result.shape == shape
    assert bool(torch.isfinite(result).all())
    border = torch.ones(height, width, dtype=torch.bool)
    border[1:-1, 1:-1] = False
    assert torch.equal(result[..., border], target[..., border])
    assert torch.equal(patch, before[0])
    assert torch.equal(target, before[1])


def test_gradients_are_mixed_in_proportion():
    # the equation is linear in the gradients: a quarter of the opacity is a quarter of the way
    patch, target = random_planes((1, 3, 18, 21), 0), random_planes((1, 3, 18, 21), 1)
    full = poisson_blend(patch, target, torch.ones(1, 18, 21))
    quarter = poisson_blend(patch, target, torch.full((1, 18, 21), 0.25))
    torch.testing.assert_close(quarter, target + (full - target) / 4, atol=2e-5, rtol=0)


def test_the_patchs_gradients_are_kept_under_the_mask():
    patch, target = random_planes((1, 1, 20, 24), 0), random_planes((1, 1, 20, 24), 1)
    result = poisson_blend(patch, target, torch.ones(1, 20, 24))
    inner = np.s_[1:-1, 1:-1]
    torch.testing.assert_close(
        laplacian(result[0, 0])[inner], laplacian(patch[0, 0])[inner], atol=1e-4, rtol=0
    )


def laplacian(u):
    """Return the five-point Laplacian inside of (H, W), pixel by pixel; 0 on the border."""
    result = torch.zeros_like(u)
    for i in range(1, u.shape[0] - 1):
        for j in range(1, u.shape[1] - 1):
            around = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]
            result[i, j] = around - 4 * u[i, j]
    return result


@pytest.mark.parametrize(("dtype", "near"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
@pytest.mark.parametrize("size", [(3, 3), (3, 7), (11, 4), (20, 25)])
def test_solve_inverts_the_laplacian(size, dtype, near):
    wanted = torch.from_numpy(np.random.default_rng(4).random(size)).to(dtype)
    inner = np.s_[1:-1, 1:-1]
    border = wanted.clone()
    border[inner] = torch.nan  # only the outermost pixels may be read
    found = solve(laplacian(wanted)[inner], border)
    assert found.dtype == dtype
    torch.testing.assert_close(found, wanted[inner], atol=near, rtol=0)


def test_solve_is_batched():
    wanted = random_planes((2, 3, 6, 9), 5)
    inner = np.s_[..., 1:-1, 1:-1]
    known = torch.stack([laplacian(u) for u in wanted.flatten(0, 1)]).unflatten(0, (2, 3))
    before = known.clone()
    torch.testing.assert_close(solve(known[inner], wanted), wanted[inner], atol=1e-5, rtol=0)
    assert torch.equal(known, before)
