"""Templates: the authors' points, and what a change of size does to them."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import torch

from mien.errors import InvalidOption
from mien.geometry import TEMPLATES, Template, template

# As published: InsightFace's arcface_dst; the frontal pose (src3) of its older alignment; the
# five points with which facexlib and GFPGAN align faces to FFHQ at 512 pixels.
PUBLISHED = {
    "arcface_112_v2": (
        112,
        [
            [38.2946, 51.6963],
            [73.5318, 51.5014],
            [56.0252, 71.7366],
            [41.5493, 92.3655],
            [70.7299, 92.2041],
        ],
    ),
    "arcface_112_v1": (
        112,
        [[39.730, 51.138], [72.270, 51.138], [56.000, 68.493], [42.463, 87.010], [69.537, 87.010]],
    ),
    "ffhq_512": (
        512,
        [
            [192.98138, 239.94708],
            [318.90277, 240.1936],
            [256.63416, 314.01935],
            [201.26117, 371.41043],
            [313.08905, 371.15118],
        ],
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_points_are_the_published_ones(name):
    size, points = PUBLISHED[name]
    found = template(name)
    assert (found.name, found.size) == (name, size)
    np.testing.assert_allclose(found.at(size).numpy(), points, atol=1e-4)


def test_arcface_128_is_arcface_112_with_eight_columns_on_the_left():
    # InsightFace's own rule for 128: the factor stays 1 and x moves by 8.
    moved = [(x + 8, y) for x, y in template("arcface_112_v2").points]
    np.testing.assert_allclose(template("arcface_128").points, moved, atol=1e-9)
    assert template("arcface_128").size == 128


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("size", [32, 112, 128, 256, 1000])
def test_scaling_keeps_the_edges_of_the_picture(name, size):
    found = template(name)
    points = found.at(size)
    assert points.dtype == torch.float32
    assert points.shape == (5, 2)
    # how far each point lies from the left and upper edge (-0.5), as a share of the side
    share = (np.array(found.points) + 0.5) / found.size
    np.testing.assert_allclose((points.numpy() + 0.5) / size, share, atol=1e-6)


def test_edges_stay_where_edges_are():
    corners = Template("corners", 64, ((-0.5, -0.5), (63.5, -0.5), (31.5, 31.5), (0, 0), (63, 63)))
    expected = [[-0.5, -0.5], [15.5, -0.5], [7.5, 7.5], [-0.375, -0.375], [15.375, 15.375]]
    np.testing.assert_allclose(corners.at(16).numpy(), expected, atol=1e-6)


def test_scaled_points_lie_where_a_shrunken_picture_has_them():
    large, small = 512, 128
    found = template("ffhq_512")
    y, x = np.mgrid[:large, :large]
    for (px, py), expected in zip(found.points, found.at(small).tolist(), strict=True):
        blob = np.exp(-((x - px) ** 2 + (y - py) ** 2) / (2 * 12.0**2))
        shrunken = cv2.resize(blob, (small, small), interpolation=cv2.INTER_AREA)
        columns, rows = np.arange(small), np.arange(small)
        total = shrunken.sum()
        centroid = [(shrunken.sum(0) @ columns) / total, (shrunken.sum(1) @ rows) / total]
        np.testing.assert_allclose(centroid, expected, atol=2e-3)


@pytest.mark.parametrize("name", TEMPLATES)
def test_faces_are_upright(name):
    left, right, nose, mouth_left, mouth_right = template(name).points
    assert left[0] < nose[0] < right[0]
    assert mouth_left[0] < nose[0] < mouth_right[0]
    assert max(left[1], right[1]) < nose[1] < min(mouth_left[1], mouth_right[1])
    assert all(0 < v < template(name).size for point in template(name).points for v in point)


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(InvalidOption) as caught:
        template("arcface_113")
    assert caught.value.option == "template"
    assert caught.value.value == "arcface_113"
    assert "arcface_113" in str(caught.value)
    for name in TEMPLATES:
        assert name in str(caught.value)


def test_templates_cannot_be_changed():
    with pytest.raises(TypeError):
        TEMPLATES["mine"] = template("ffhq_512")
    with pytest.raises(AttributeError):
        template("ffhq_512").size = 256
