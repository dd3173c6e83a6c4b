"""Similarities in plain numbers against those of tensors."""

from __future__ import annotations

from math import isfinite

import pytest
import torch

from mien.geometry import apply, compose, fit_similarity, invert, scales, template
from mien.geometry.plain import Similarity, cut_row, stacked
from mien.geometry.spans import cut_table

PLACES = template("arcface_128").at(128)


@pytest.fixture
def faces():
    random = torch.Generator().manual_seed(5)
    return 200 * torch.rand(7, 5, 2, generator=random) + 1000 * torch.rand(
        7, 1, 2, generator=random
    )


def fitted(faces):
    return [Similarity.fit(points, PLACES.tolist()) for points in faces.tolist()]


def test_a_fit_is_that_of_tensors(faces):
    found = stacked(fitted(faces))
    assert (found.dtype, found.shape) == (torch.float32, (7, 2, 3))
    torch.testing.assert_close(found, fit_similarity(faces, PLACES), rtol=1e-6, atol=1e-6)
    assert stacked([]).shape == (0, 2, 3)


def test_points_that_coincide_are_shifted():
    found = Similarity.fit([(4.0, 5.0)] * 5, PLACES.tolist())
    assert found[:2] == (1.0, 0.0)
    torch.testing.assert_close(
        stacked([found])[0], fit_similarity(torch.tensor([4.0, 5.0]).expand(5, 2), PLACES)
    )
    flat = Similarity.fit(PLACES.tolist(), [(4.0, 5.0)] * 5)
    assert flat.scale < 1e-30
    assert all(abs(value) < float("inf") for value in flat.inverse()[:2])


def test_the_algebra_is_that_of_tensors(faces):
    plain, matrices = fitted(faces), fit_similarity(faces, PLACES).double()
    places = torch.tensor([one(PLACES.tolist()) for one in plain], dtype=torch.float64)
    torch.testing.assert_close(places, apply(matrices, PLACES.double()), rtol=1e-6, atol=1e-4)
    back = stacked(one.inverse() for one in plain)
    torch.testing.assert_close(back, invert(matrices).float(), rtol=1e-5, atol=1e-3)
    twice = stacked(one.after(other) for one, other in zip(plain, plain[::-1], strict=True))
    expected = compose(matrices, matrices.flip(0)).float()
    torch.testing.assert_close(twice, expected, rtol=1e-5, atol=1e-4)
    assert [one.scale for one in plain] == pytest.approx(scales(matrices).tolist(), rel=1e-6)


@pytest.mark.parametrize("size", [16, 192, 512])
def test_what_a_kernel_is_told_of_a_crop_is_that_of_tensors(faces, size):
    places = template("arcface_128").at(size)
    turn = torch.tensor([[0.6, -0.8], [0.8, 0.6]])
    # within the frame, over its edges, far out of it, turned, mirrored in size
    points = torch.cat([faces, faces @ turn.T, faces - 900, faces / 40, faces * 9])
    matrices = fit_similarity(points, places)
    wanted = cut_table(matrices, size, 480, 640)
    found = torch.tensor([cut_row(matrix, size, 480, 640).numbers for matrix in matrices.tolist()])
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=2e-3)
    nowhere = cut_row([[0.0, 0.0, 8.0], [0.0, 0.0, 8.0]], size, 480, 640)
    assert all(map(isfinite, nowhere.numbers))
