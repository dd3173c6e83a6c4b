"""Similarity transforms against scikit-image, NumPy and their own algebra."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from skimage.transform import SimilarityTransform

from mien.geometry import (
    TEMPLATES,
    apply,
    compose,
    fit_similarity,
    invert,
    scales,
    template,
    zoom_about_centre,
)

steady = settings(derandomize=True, deadline=None, max_examples=60)

coordinates = st.floats(-500, 500, width=32)
angles = st.floats(-180, 180)
factors = st.floats(-2.5, 2.5).map(lambda exponent: 2.0**exponent)
shifts = st.tuples(coordinates, coordinates)


def point_sets(number):
    return arrays(np.float32, (number, 2), elements=coordinates)


def similarity(angle, factor, shift):
    """Return the matrix, float32 (2, 3), from NumPy's own trigonometry."""
    c, s = factor * np.cos(np.deg2rad(angle)), factor * np.sin(np.deg2rad(angle))
    return torch.tensor([[c, -s, shift[0]], [s, c, shift[1]]], dtype=torch.float32)


matrices = st.builds(similarity, angles, factors, shifts)


def spread(points):
    return np.linalg.norm(points - points.mean(0), axis=1).max()


def reference(source, target):
    return SimilarityTransform.from_estimate(
        source.astype(np.float64), target.astype(np.float64)
    ).params[:2]


def assert_same(found, expected, reach=500.0):
    """Compare matrices by what they do to points up to ``reach`` away, relative to the result."""
    expected = np.asarray(expected, dtype=np.float64)
    size = 1 + np.abs(expected[..., :2]).max() * reach + np.abs(expected[..., 2]).max()
    found = np.asarray(found, dtype=np.float64)
    assert np.abs(found[..., :2] - expected[..., :2]).max() * reach < 5e-6 * size
    assert np.abs(found[..., 2] - expected[..., 2]).max() < 5e-6 * size


@steady
@given(st.integers(2, 9).flatmap(lambda n: st.tuples(point_sets(n), point_sets(n))))
def test_fit_equals_scikit_image(pair):
    source, target = pair
    assume(spread(source) > 1)
    assume(spread(target) > 1)
    found = fit_similarity(torch.from_numpy(source), torch.from_numpy(target))
    assert found.dtype == torch.float32
    assert_same(found, reference(source, target))


@pytest.mark.parametrize("noise", [0.0, 0.5, 5.0, 50.0])
def test_batch_of_noisy_faces_equals_scikit_image(noise):
    rng = np.random.default_rng(7)
    to = template("arcface_112_v2").at(112).numpy()
    faces = torch.stack(
        [
            similarity(rng.uniform(-180, 180), rng.uniform(0.3, 5), rng.uniform(0, 500, 2))
            for _ in range(16)
        ]
    )
    source = apply(faces, torch.from_numpy(to)).numpy()
    source = source + rng.normal(scale=noise, size=source.shape).astype(np.float32)
    found = fit_similarity(torch.from_numpy(source), torch.from_numpy(to))
    assert found.shape == (16, 2, 3)
    for row, points in zip(found, source, strict=True):
        assert_same(row, reference(points, to))


@steady
@given(matrices, st.sampled_from(sorted(TEMPLATES)))
def test_fit_recovers_an_exact_similarity(matrix, name):
    source = template(name).at(128)
    assert_same(fit_similarity(source, apply(matrix, source)), matrix, reach=128)


@steady
@given(matrices)
def test_fit_never_mirrors(matrix):
    source = template("arcface_112_v2").at(112)
    mirrored = source * torch.tensor([-1.0, 1.0])
    target = apply(matrix, mirrored)
    found = fit_similarity(source, target)
    assert float(torch.linalg.det(found[:, :2])) > 0
    # turn and scale only: the columns are equally long and at right angles
    (a, b), (c, d) = found[:, :2].tolist()
    assert (a, b) == (d, -c)
    assert_same(found, reference(source.numpy(), target.numpy()))


@steady
@given(shifts, point_sets(5))
def test_coincident_points_give_a_shift(place, target):
    source = torch.tensor(place, dtype=torch.float32).expand(5, 2)
    found = fit_similarity(source, torch.from_numpy(target))
    torch.testing.assert_close(found[:, :2], torch.eye(2), atol=1e-5, rtol=0)
    expected = target.astype(np.float64).mean(0) - place
    np.testing.assert_allclose(found[:, 2].numpy(), expected, atol=1e-3)


def test_coincident_points_do_not_disturb_the_rest_of_a_batch():
    to = template("arcface_112_v2").at(112)
    source = torch.stack([to * 2 + 5, torch.full((5, 2), 8.0)])
    found = fit_similarity(source, to)
    assert_same(found[0], [[0.5, 0, -2.5], [0, 0.5, -2.5]], reach=112)
    torch.testing.assert_close(found[1, :, :2], torch.eye(2))


def test_either_side_is_broadcast():
    rng = np.random.default_rng(3)
    many = torch.from_numpy(rng.uniform(0, 100, (4, 5, 2)).astype(np.float32))
    one = template("arcface_128").at(128)
    forth, back = fit_similarity(many, one), fit_similarity(one, many)
    assert forth.shape == back.shape == (4, 2, 3)
    for i in range(4):
        assert torch.equal(forth[i], fit_similarity(many[i], one))
        assert torch.equal(back[i], fit_similarity(one, many[i]))
    assert fit_similarity(one, one).shape == (2, 3)


@steady
@given(matrices, point_sets(4))
def test_apply_is_the_matrix_product(matrix, points):
    homogeneous = np.c_[points.astype(np.float64), np.ones(4)]
    expected = homogeneous @ matrix.double().numpy().T
    found = apply(matrix, torch.from_numpy(points))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=2e-3)


@steady
@given(matrices)
def test_inverse_equals_numpy(matrix):
    square = np.vstack([matrix.double().numpy(), [0, 0, 1]])
    assert_same(invert(matrix), np.linalg.inv(square)[:2])


def test_inverse_of_an_affine_that_is_no_similarity():
    matrix = torch.tensor([[2.0, 1.0, 3.0], [0.5, -4.0, 7.0]])
    square = np.vstack([matrix.numpy(), [0, 0, 1]])
    np.testing.assert_allclose(invert(matrix).numpy(), np.linalg.inv(square)[:2], atol=1e-6)


@steady
@given(matrices)
def test_a_transform_and_its_inverse_cancel(matrix):
    identity = np.eye(3)[:2]
    for both in (compose(invert(matrix), matrix), compose(matrix, invert(matrix))):
        np.testing.assert_allclose(both[:, :2].numpy(), identity[:, :2], atol=1e-5)
        np.testing.assert_allclose(both[:, 2].numpy(), identity[:, 2], atol=2e-2)


@steady
@given(matrices, matrices, point_sets(3))
def test_compose_applies_first_then_second(second, first, points):
    points = torch.from_numpy(points)
    one_by_one = apply(second, apply(first, points))
    at_once = apply(compose(second, first), points)
    size = 1 + 500 * float(scales(first) * scales(second)) + 500 * float(scales(second)) + 500
    assert float((one_by_one - at_once).abs().max()) < 5e-6 * size


def test_algebra_is_batched():
    many = torch.stack([similarity(a, f, (a, 2 * a)) for a, f in [(10, 2), (-50, 0.5), (170, 1)]])
    points = torch.tensor([[1.0, 2.0], [30.0, -4.0]])
    for i in range(3):
        torch.testing.assert_close(invert(many)[i], invert(many[i]))
        torch.testing.assert_close(compose(many, many)[i], compose(many[i], many[i]))
        torch.testing.assert_close(apply(many, points)[i], apply(many[i], points))
        torch.testing.assert_close(scales(many)[i], scales(many[i]))


@steady
@given(angles, factors, shifts)
def test_scale_is_the_factor(angle, factor, shift):
    assert float(scales(similarity(angle, factor, shift))) == pytest.approx(factor, rel=1e-5)


@steady
@given(point_sets(3), st.integers(1, 512), factors, factors)
def test_zooming_keeps_the_centre_and_draws_together(points, size, factor, other):
    points = torch.from_numpy(points)
    centre = torch.full((1, 2), (size - 1) / 2)
    torch.testing.assert_close(zoom_about_centre(centre, size, factor), centre)
    zoomed = zoom_about_centre(points, size, factor)
    torch.testing.assert_close((zoomed - centre) * factor, points - centre, atol=2e-3, rtol=1e-4)
    twice = zoom_about_centre(zoomed, size, other)
    at_once = zoom_about_centre(points, size, factor * other)
    torch.testing.assert_close(twice, at_once, atol=2e-2, rtol=1e-4)


def test_what_the_compiler_is_given_is_the_same(monkeypatch):
    draw = torch.Generator().manual_seed(0)
    first, second = (torch.randn(4, 2, 3, generator=draw) for _ in range(2))
    points = torch.randn(4, 9, 2, generator=draw)
    wanted = apply(first, points), apply(first, points[0]), compose(second, first)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    found = apply(first, points), apply(first, points[0]), compose(second, first)
    for mine, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, theirs)
