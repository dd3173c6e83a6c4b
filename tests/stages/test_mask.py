"""Masks against SciPy's convex hulls."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.spatial import ConvexHull

from mien.geometry import template
from mien.stages.mask import (
    DIRECTIONS,
    FEATHER,
    border_depth,
    face_mask,
    hull_depth,
    smooth_step,
)

SIZE = 128


def oval(across=40.0, down=52.0, points=36, centre=(63.5, 63.5), turn=0.0):
    """Return an outline like the face mesh's, which has 36 points, float32 (points, 2)."""
    angle = torch.arange(points) * (2 * math.pi / points) + 0.05
    x, y = across * angle.cos(), down * angle.sin()
    c, s = math.cos(turn), math.sin(turn)
    return torch.stack([centre[0] + c * x - s * y, centre[1] + s * x + c * y], dim=-1)


def cloud(seed, points=60, spread=22.0):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.normal(63.5, spread, (points, 2)).astype(np.float32))


def turned_square(half=45.0):
    """A square whose sides lie midway between two of the directions: the hardest case."""
    angle = math.pi / DIRECTIONS
    c, s = math.cos(angle), math.sin(angle)
    corners = torch.tensor([[-half, -half], [half, -half], [half, half], [-half, half]])
    return corners @ torch.tensor([[c, s], [-s, c]]) + 63.5


SHAPES = {
    "an oval": oval(),
    "a turned oval": oval(30, 50, turn=0.7, centre=(60.2, 66.8)),
    "five points": template("arcface_128").at(SIZE),
    "a turned square": turned_square(),
    "a cloud": cloud(0),
}


def exact_depth(points, size):
    """Return the signed distance to the hull from SciPy's facets and, outside, its edges."""
    hull = ConvexHull(points.double().numpy())
    y, x = np.mgrid[:size, :size]
    places = np.stack([x, y], axis=-1).reshape(-1, 2).astype(np.float64)
    inside = -(places @ hull.equations[:, :2].T + hull.equations[:, 2]).max(axis=1)
    a, b = hull.points[hull.simplices[:, 0]], hull.points[hull.simplices[:, 1]]
    along = b - a
    share = ((places[:, None] - a) * along).sum(-1) / (along**2).sum(-1)
    nearest = a + share.clip(0, 1)[..., None] * along
    distance = np.linalg.norm(places[:, None] - nearest, axis=-1).min(axis=1)
    return np.where(inside >= 0, inside, -distance).reshape(size, size)


def excess(points):
    """Return by how much half-planes in DIRECTIONS directions may overstate this hull.

    Between two directions the line that is used leans by at most half a step against the true
    edge, about one of the edge's ends; for a corner, the two lines meet that much further out.
    """
    hull = ConvexHull(points.double().numpy())
    a, b = hull.points[hull.simplices[:, 0]], hull.points[hull.simplices[:, 1]]
    longest = np.linalg.norm(b - a, axis=1).max()
    step = 2 * math.pi / DIRECTIONS
    return longest / 2 * math.tan(step / 2)


@pytest.mark.parametrize("name", SHAPES)
def test_depth_is_the_distance_to_the_hull(name):
    points = SHAPES[name]
    exact = exact_depth(points, SIZE)
    found = hull_depth(points[None], SIZE)[0].numpy()
    off = found - exact
    assert off[exact >= 0].min() > -1e-3
    assert off[exact >= 0].max() < excess(points) + 1e-3
    # far outside, a point is seen from at most half a step beside the nearest direction
    far = -exact[exact < 0]
    slack = excess(points) + far * (1 - math.cos(math.pi / DIRECTIONS))
    assert off[exact < 0].min() > -1e-3
    assert (off[exact < 0] - slack).max() < 1e-3


def test_rows_are_made_in_bands_of_any_height(monkeypatch):
    points = torch.stack([cloud(0), cloud(1)])
    at_once = hull_depth(points, SIZE - 3)
    for rows in (1, 7, SIZE):
        monkeypatch.setattr("mien.stages.mask.BAND", rows)
        assert hull_depth(points, SIZE - 3).equal(at_once)


def test_a_circle_is_overstated_by_an_eighth_of_a_percent():
    # 1 / cos(pi / 64) - 1 = 0.0012, in the corners of the 64-sided figure
    circle = oval(50, 50, points=720)
    found = hull_depth(circle[None], SIZE)[0].numpy()
    y, x = np.mgrid[:SIZE, :SIZE]
    exact = 50 - np.hypot(x - 63.5, y - 63.5)
    off = (found - exact)[np.abs(exact) < 3]
    assert off.min() > -0.002
    assert 0.04 < off.max() < 0.0012 * 53 + 0.002


@pytest.mark.parametrize("seed", range(3))
def test_order_and_inner_points_do_not_matter(seed):
    points = cloud(seed)
    depth = hull_depth(points[None], SIZE)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(points)))
    assert torch.equal(hull_depth(points[order][None], SIZE), depth)
    middle = points.mean(dim=0, keepdim=True)
    more = torch.cat([points, points, (points + middle) / 2])
    assert torch.equal(hull_depth(more[None], SIZE), depth)
    assert torch.equal(face_mask(points[order][None], SIZE), face_mask(points[None], SIZE))


def test_faces_do_not_see_one_another():
    outlines = torch.stack([oval(), oval(20, 30, turn=1.0), oval(300, 300)])
    masks = face_mask(outlines, SIZE)
    assert masks.shape == (3, SIZE, SIZE)
    assert masks.dtype == torch.float32
    for mask, outline in zip(masks, outlines, strict=True):
        torch.testing.assert_close(mask, face_mask(outline[None], SIZE)[0])
    assert face_mask(torch.zeros(0, 36, 2), SIZE).shape == (0, SIZE, SIZE)


@pytest.mark.parametrize("name", ["an oval", "a turned oval"])
def test_mask_is_nothing_outside_of_a_hull_shaped_like_a_face(name):
    # less than half a code: nothing that an 8-bit picture could show
    points = SHAPES[name]
    mask = face_mask(points[None], SIZE)[0].numpy()
    assert mask[exact_depth(points, SIZE) <= 0].max() < 0.5 / 255


@pytest.mark.parametrize("feather", [0.02, FEATHER, 0.2])
@pytest.mark.parametrize("name", SHAPES)
def test_mask_is_one_deep_inside(name, feather):
    points = SHAPES[name]
    y, x = np.mgrid[:SIZE, :SIZE]
    edge = np.minimum.reduce([x, y, SIZE - 1 - x, SIZE - 1 - y])
    deep = np.minimum(exact_depth(points, SIZE), edge) >= feather * SIZE + 1e-3
    if feather < 0.2:
        assert deep.any()
    mask = face_mask(points[None], SIZE, feather=feather)[0].numpy()
    assert (mask[deep] == 1).all()
    assert mask.min() >= 0
    assert mask.max() <= 1


@pytest.mark.parametrize("size", [64, 128, 200])
def test_a_face_larger_than_the_crop_fades_at_its_border(size):
    mask = face_mask(oval(900, 900, centre=(size / 2, size / 2))[None], size)[0]
    border = torch.cat([mask[0], mask[-1], mask[:, 0], mask[:, -1]])
    assert not bool(border.any())
    # the depth of column 5 in the middle row is 5 pixels
    share = 5 / (FEATHER * size)
    expected = share**2 * (3 - 2 * share) if share < 1 else 1.0
    assert float(mask[size // 2, 5]) == pytest.approx(expected, abs=1e-5)
    assert float(mask[size // 2, size // 2]) == 1


@pytest.mark.parametrize("feather", [0.05, 0.1, 0.25])
def test_feather_is_the_width_of_the_edge_by_the_side(feather):
    # in a straight edge at x = 20 (a direction of its own) half the rise is at half the width
    box = torch.tensor([[20.0, -500], [500, -500], [500, 500], [20, 500]])
    row = face_mask(box[None], SIZE, feather=feather)[0, SIZE // 2].numpy()
    width = feather * SIZE
    columns = np.arange(20, 60)
    share = ((columns - 20) / width).clip(0, 1)
    np.testing.assert_allclose(row[20:60], share**2 * (3 - 2 * share), atol=1e-4)
    assert row[:21].max() < 1e-6
    assert (np.diff(row[:60]) >= 0).all()


def test_the_edge_takes_the_same_share_at_every_size():
    small = face_mask(oval()[None], SIZE)[0]
    # the same face in a crop of twice the side: pixel centres keep their meaning
    large = face_mask(((oval() + 0.5) * 2 - 0.5)[None], 2 * SIZE)[0]
    halved = large.unflatten(0, (SIZE, 2)).unflatten(2, (SIZE, 2)).mean(dim=(1, 3))
    inner = slice(8, -8)
    torch.testing.assert_close(small[inner, inner], halved[inner, inner], atol=0.01, rtol=0)


def test_border_depth_counts_from_the_outermost_pixels():
    expected = [
        [0, 0, 0, 0, 0],
        [0, 1, 1, 1, 0],
        [0, 1, 2, 1, 0],
        [0, 1, 1, 1, 0],
        [0, 0, 0, 0, 0],
    ]
    assert border_depth(5, torch.device("cpu")).tolist() == expected


def test_smooth_step_is_the_cubic_with_flat_ends():
    x = torch.tensor([-1.0, 0, 0.25, 0.5, 0.75, 1, 2])
    # 3 x^2 - 2 x^3: 3 / 16 - 2 / 64 = 5 / 32 at a quarter
    expected = torch.tensor([0, 0, 5 / 32, 0.5, 27 / 32, 1, 1])
    torch.testing.assert_close(smooth_step(x), expected)
    flat = torch.tensor([1e-3, 1 - 1e-3])
    torch.testing.assert_close(smooth_step(flat), torch.tensor([0.0, 1.0]), atol=4e-6, rtol=0)
