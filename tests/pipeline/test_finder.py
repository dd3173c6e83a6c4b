"""Finding faces: every roll (T9), every size, close-ups, and none where none is."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import torch
from conftest import face_finder, scene

from mien.pipeline.finder import _moved, _turned_back, looks
from mien.types import Faces


def turned(pixels, degrees):
    """Turn clockwise by ``degrees``; also return the matrix from old to new pixels."""
    side = pixels.shape[0]
    centre = ((side - 1) / 2, (side - 1) / 2)
    matrix = cv2.getRotationMatrix2D(centre, -degrees, 1.0)
    whole = cv2.warpAffine(pixels, matrix, (side, side), borderMode=cv2.BORDER_REPLICATE)
    return torch.from_numpy(whole), torch.tensor(matrix, dtype=torch.float32)


def between(a, b):
    """Degrees between two directions."""
    return abs((a - b + 180) % 360 - 180)


@pytest.mark.parametrize("name", ["ben", "mei"])
@pytest.mark.parametrize("degrees", range(0, 360, 15))
def test_a_face_is_found_at_every_roll(find, load, name, degrees):
    upright = find(torch.from_numpy(load(name)))
    picture, matrix = turned(load(name), degrees)
    faces = find(picture)
    assert len(upright) == len(faces) == 1
    assert between(float(faces.rolls[0]), float(upright.rolls[0]) + degrees) < 2
    expected = _moved(upright, matrix).points
    eyes = float((expected[0, 1] - expected[0, 0]).norm())
    assert float((faces.points - expected).norm(dim=-1).max()) < 0.06 * eyes


@pytest.mark.parametrize("pixels", [20, 24, 40, 90])
@pytest.mark.parametrize("name", ["ada", "ben", "dev", "eva", "femi", "mei"])
def test_small_faces_are_found(find, load, name, pixels):
    box = find(torch.from_numpy(load(name))).boxes[0]
    side = round(640 * pixels / float(box[3] - box[1]))
    frame = torch.full((720, 1280, 3), 127, dtype=torch.uint8)
    frame[400 : 400 + side, 900 : 900 + side] = scene([load(name)], side, 1)
    faces = find(frame)
    assert len(faces) == 1
    middle = (faces.boxes[0, :2] + faces.boxes[0, 2:]) / 2
    expected = (box[:2] + box[2:]) / 2 * side / 640 + torch.tensor([900.0, 400.0])
    assert float((middle - expected).abs().max()) < 0.15 * pixels


@pytest.mark.parametrize("share", [0.5, 0.8, 1.0, 1.25])
@pytest.mark.parametrize("side", [200, 900])
@pytest.mark.parametrize("name", ["ada", "dev", "femi"])
def test_close_ups_are_found(find, load, name, share, side):
    box = find(torch.from_numpy(load(name))).boxes[0]
    middle = ((box[:2] + box[2:]) / 2).numpy()
    scale = side * share / float(box[3] - box[1])
    matrix = np.array([[scale, 0, 0], [0, scale, 0]])
    matrix[:, 2] = side / 2 - scale * middle
    border = cv2.BORDER_REPLICATE
    close = cv2.warpAffine(
        load(name), matrix, (side, side), flags=cv2.INTER_CUBIC, borderMode=border
    )
    faces = find(torch.from_numpy(close))
    assert len(faces) == 1
    assert float(faces.boxes[0, 3] - faces.boxes[0, 1]) == pytest.approx(side * share, rel=0.08)


@pytest.mark.parametrize("detector", ["yunet", "retinaface"])
def test_several_faces_are_found_largest_first(load, detector):
    frame = torch.full((1400, 1800, 3), 127, dtype=torch.uint8)  # goes through in two tiles
    for name, left, top, side in (
        ("mei", 40, 60, 90),
        ("ben", 300, 300, 800),
        ("eva", 1300, 900, 400),
    ):
        frame[top : top + side, left : left + side] = scene([load(name)], side, 1)
    faces = face_finder(detector=detector)(frame)
    centres = (faces.boxes[:, :2] + faces.boxes[:, 2:]) / 2
    assert [300 < float(x) < 1100 for x, _ in centres] == [True, False, False]
    assert [float(x) < 130 for x, _ in centres] == [False, False, True]
    assert (faces.areas.diff() < 0).all()
    assert faces.mesh.shape == (3, 468, 3)


def test_detectors_agree_on_the_points(load):
    picture = torch.from_numpy(load("ada"))
    one, other = (face_finder(detector=name)(picture) for name in ("yunet", "retinaface"))
    eyes = float((one.points[0, 1] - one.points[0, 0]).norm())
    assert float((one.points - other.points).abs().max()) < 0.03 * eyes


def test_the_largest_alone_is_the_first_of_all(find, load):
    frame = torch.full((720, 1280, 3), 127, dtype=torch.uint8)
    frame[100:500, 100:500] = scene([load("ben")], 400, 1)
    frame[200:320, 900:1020] = scene([load("mei")], 120, 1)
    everyone, largest = find(frame), find(frame, largest_only=True)
    assert len(everyone) == 2
    torch.testing.assert_close(largest.boxes[0], everyone.boxes[0])


def test_nothing_is_found_where_nothing_is(find):
    random = np.random.default_rng(0)
    noise = random.integers(0, 256, (60, 80, 3), dtype=np.uint8)
    for picture in (
        np.zeros((64, 48, 3), np.uint8),
        cv2.resize(noise, (640, 480)),
        noise[:1],
        noise[:, :1],
    ):
        faces = find(torch.from_numpy(np.ascontiguousarray(picture)))
        assert len(faces) == 0
        assert faces.points.shape == (0, 5, 2)


def test_a_picture_is_searched_at_its_own_size_last():
    assert looks(100, 1.0) == [100]
    assert looks(320, 1.0) == [320]
    assert looks(1280, 1.0) == [320, 1280]
    assert looks(4000, 1.0) == [320, 1280, 4000]
    # a detector that needs faces of 32 pixels sees those of 20 in a larger picture
    assert looks(1000, 1.6) == [320, 1280, 1600]


@pytest.mark.parametrize("quarter", [1, 2, 3])
def test_turning_back_undoes_turning(quarter):
    picture = torch.arange(5 * 7).reshape(5, 7)
    whole = torch.rot90(picture, quarter)
    y, x = (whole == picture[1, 4]).nonzero()[0].tolist()
    point = torch.tensor([[[float(x), float(y)]] * 5])
    faces = Faces(torch.zeros(1, 4), point, torch.ones(1), torch.zeros(1, dtype=torch.int64))
    back = _moved(faces, _turned_back(quarter, 5, 7))
    assert back.points[0, 0].tolist() == [4, 1]
