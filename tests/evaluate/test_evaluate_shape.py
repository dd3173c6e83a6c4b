"""Pose, expression and gaze: of meshes whose differences are known."""

from __future__ import annotations

import math

import pytest
import torch

from mien.evaluate import shape
from mien.evaluate.topology import (
    COARSE,
    EXPRESSION,
    EYES,
    FIVE,
    LEFT_EYE_OUTPUT,
    LEFT_IRIS,
    LIPS_OUTPUT,
    OUTER_CORNERS,
    POINTS,
    RIGHT_EYE_OUTPUT,
    RIGHT_IRIS,
    RIGID,
)


@pytest.fixture
def mesh():
    """Return a cloud of points, and in it two eyes of 40 pixels that look ahead, 100 apart."""
    points = torch.randn(1, POINTS, 3, generator=torch.Generator().manual_seed(0)) * 40 + 200
    for (left, right, upper, lower, iris), x in zip(EYES, (150.0, 210.0), strict=True):
        for number, place in (
            (left, (x, 180, 0)),
            (right, (x + 40, 180, 0)),
            (upper, (x + 20, 174, 0)),
            (lower, (x + 20, 186, 0)),
            (iris, (x + 20, 180, 0)),
        ):
            points[0, number] = torch.tensor(place)
    return points


def turned(points, degrees, axis):
    a = math.radians(degrees)
    c, s = math.cos(a), math.sin(a)
    matrix = {
        "pitch": [[1, 0, 0], [0, c, -s], [0, s, c]],
        "yaw": [[c, 0, s], [0, 1, 0], [-s, 0, c]],
        "roll": [[c, -s, 0], [s, c, 0], [0, 0, 1]],
    }[axis]
    middle = points.mean(dim=1, keepdim=True)
    return (points - middle) @ torch.tensor(matrix).T + middle


def test_the_points_are_where_the_outputs_put_them():
    for output, count in ((LIPS_OUTPUT, 80), (LEFT_EYE_OUTPUT, 71), (RIGHT_EYE_OUTPUT, 71)):
        assert len(output) == len(set(output)) == count
        assert max(output) < COARSE
    assert set(LEFT_EYE_OUTPUT) & set(RIGHT_EYE_OUTPUT) == set()
    assert (*LEFT_IRIS, *RIGHT_IRIS) == tuple(range(COARSE, POINTS))
    assert len(RIGID) == 33
    assert min(RIGID.values()) > 0
    refined = {*LIPS_OUTPUT, *LEFT_EYE_OUTPUT, *RIGHT_EYE_OUTPUT}
    assert {point for part in EXPRESSION.values() for point in part} <= refined
    assert {point for group in FIVE for point in group} >= set(OUTER_CORNERS)


@pytest.mark.parametrize("axis", ["yaw", "pitch", "roll"])
@pytest.mark.parametrize("degrees", [-30, 3, 75])
def test_a_turned_mesh_is_turned_by_that_much(mesh, axis, degrees):
    moved = turned(mesh, degrees, axis) * 1.7 + torch.tensor([10.0, -20, 5])
    assert float(shape.turn_error(moved, mesh)) == pytest.approx(abs(degrees), abs=0.01)
    rotation, scale = shape.fit_rotation(moved, mesh)
    assert float(scale) == pytest.approx(1 / 1.7, abs=1e-4)
    assert float(torch.linalg.det(rotation)) == pytest.approx(1, abs=1e-9)


def test_a_mirrored_mesh_is_not_unmirrored(mesh):
    mirrored = mesh * torch.tensor([-1.0, 1, 1])
    rotation, _ = shape.fit_rotation(mirrored, mesh)
    assert float(torch.linalg.det(rotation)) == pytest.approx(1, abs=1e-9)


def test_the_pose_error_is_a_distance_on_the_circle():
    pose = torch.tensor([[3.0, 4, 0], [0, 0, 179], [0, 0, 0]])
    wanted = torch.tensor([[0.0, 0, 0], [0, 0, -179], [0, 0, 0]])
    assert shape.pose_error(pose, wanted).tolist() == pytest.approx([5, 2, 0])


@pytest.mark.parametrize("part", EXPRESSION)
def test_a_part_that_moves_is_measured_whatever_the_pose(mesh, part):
    moved = mesh.clone()
    loose = [i for i in EXPRESSION[part] if i not in RIGID]
    moved[:, loose, 1] += 10  # the outer corners are 100 apart: 10 %
    share = 10 * len(loose) / len(EXPRESSION[part])
    for other in (moved, turned(moved, 25, "yaw") * 0.5 - 30):
        found = shape.expression_error(other, mesh)
        assert float(found[part]) == pytest.approx(share, abs=0.02)
        for still in set(EXPRESSION) - {part}:
            assert float(found[still]) == pytest.approx(0, abs=0.02)
        assert float(found["all"]) == pytest.approx(share / 3, abs=0.02)


def test_an_iris_that_moves_is_measured_by_the_width_of_the_eye(mesh):
    moved = mesh.clone()
    for *_, iris in EYES:
        moved[0, iris] += torch.tensor([3.0, 4, 0])  # 5 of 40 pixels
    assert float(shape.gaze_error(moved, mesh)) == pytest.approx(12.5, abs=1e-3)
    bigger = turned(moved, 30, "roll") * 2
    assert float(shape.gaze_error(bigger, mesh)) == pytest.approx(12.5, abs=1e-3)
    moved[0, EYES[0][-1]] = mesh[0, EYES[0][-1]]
    assert float(shape.gaze_error(moved, mesh)) == pytest.approx(6.25, abs=1e-3)


def test_a_closed_eye_shows_no_gaze(mesh):
    shut = mesh.clone()
    upper, lower = EYES[0][2:4]
    shut[0, upper] = shut[0, lower]
    other = mesh.clone()
    other[0, EYES[1][-1], 0] += 4
    other[0, EYES[0][-1], 0] += 20
    assert float(shape.gaze_error(other, shut)) == pytest.approx(10, abs=1e-3)
    upper, lower = EYES[1][2:4]
    shut[0, upper] = shut[0, lower]
    assert math.isnan(float(shape.gaze_error(other, shut)))


def test_a_mesh_does_not_differ_from_itself(mesh):
    assert float(shape.turn_error(mesh, mesh)) == pytest.approx(0, abs=1e-4)
    assert float(shape.gaze_error(mesh, mesh)) == 0
    for value in shape.expression_error(mesh, mesh).values():
        assert float(value) == pytest.approx(0, abs=1e-6)
