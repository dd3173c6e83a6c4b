"""Detection: suppression against brute force, and coordinates on their way back."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from conftest import StandIn
from hypothesis import given, settings
from hypothesis import strategies as st

from mien.errors import BadOutput
from mien.geometry import intersection_over_union
from mien.models import DetectorContract
from mien.models.contracts import PixelFormat
from mien.stages import detect
from mien.stages.detect import Detector, suppress

steady = settings(derandomize=True, deadline=None, max_examples=60)

STRIDES = (8, 16, 32)
CONTRACT = DetectorContract(
    input="input",
    pixels=PixelFormat(high=255.0, order="BGR"),
    head="yunet",
    multiple=32,
    strides=STRIDES,
    smallest=20,
)

# ---------------------------------------------------------------- overlap and suppression

spans = st.tuples(st.integers(0, 12), st.integers(0, 12)).map(sorted)
whole_boxes = st.tuples(spans, spans).map(lambda s: (s[0][0], s[1][0], s[0][1], s[1][1]))


def area_shared(a, b):
    """Return the overlap of boxes with whole corners by counting unit squares."""
    one, other = (
        {(x, y) for x in range(box[0], box[2]) for y in range(box[1], box[3])} for box in (a, b)
    )
    return len(one & other) / len(one | other) if one | other else 0.0


@steady
@given(st.lists(whole_boxes, min_size=1, max_size=6), st.lists(whole_boxes, max_size=6))
def test_overlap_equals_counted_squares(a, b):
    found = intersection_over_union(
        torch.tensor(a, dtype=torch.float32), torch.tensor(b, dtype=torch.float32).reshape(-1, 4)
    )
    expected = np.array([[area_shared(x, y) for y in b] for x in a]).reshape(len(a), len(b))
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)


def brute_suppress(boxes, scores, overlap):
    left = sorted(range(len(boxes)), key=lambda i: (-scores[i], i))
    kept = []
    while left:
        best = left.pop(0)
        kept.append(best)
        left = [i for i in left if area_shared(boxes[best], boxes[i]) <= overlap]
    return kept


@steady
@given(
    st.lists(st.tuples(whole_boxes, st.integers(0, 5)), max_size=12),
    st.sampled_from([0.0, 0.3, 0.41, 0.7, 1.0]),
)
def test_suppression_equals_brute_force(boxes_and_scores, overlap):
    boxes = [box for box, _ in boxes_and_scores]
    scores = [score / 8 for _, score in boxes_and_scores]  # eighths are exact, and ties happen
    found = suppress(
        torch.tensor(boxes, dtype=torch.float32).reshape(-1, 4), torch.tensor(scores), overlap
    )
    assert found.tolist() == brute_suppress(boxes, scores, overlap)


def test_a_suppressed_box_suppresses_nobody():
    # 0 overlaps 1 and 1 overlaps 2, but 0 and 2 are apart: 1 goes, 2 stays
    boxes = torch.tensor([[0.0, 0, 10, 10], [4, 0, 14, 10], [8, 0, 18, 10]])
    assert suppress(boxes, torch.tensor([0.9, 0.8, 0.7]), 0.4).tolist() == [0, 2]
    assert suppress(boxes, torch.tensor([0.7, 0.9, 0.8]), 0.4).tolist() == [1]


# ---------------------------------------------------------------- a network that finds blobs

GROUND = 40
FACE = 24.0
"""Side, in the network's pixels, of the box the stand-in reports."""

POINTS = torch.tensor([[-6.0, -4], [6, -4], [0, 1], [-5, 7], [5, 7]])


def blob_finder(seen=None):
    """Return a YuNet that reports a face wherever there is a bright blob, to the sub-pixel.

    It looks at blue, its first channel, so a channel order other than BGR finds nothing.
    """

    def run(inputs):
        values = inputs["input"]
        assert values.shape[0] == 1
        assert values.shape[2] % 32 == 0
        assert values.shape[3] % 32 == 0
        if seen is not None:
            seen.append(values.clone())
        height, width = values.shape[2:]
        outputs = {}
        for stride in STRIDES:
            cells = (height // stride) * (width // stride)
            for name, size in (("bbox", 4), ("kps", 10), ("cls", 1), ("obj", 1)):
                outputs[f"{name}_{stride}"] = torch.zeros(1, cells, size)
        light = (values[0, 0].double() - GROUND - 8).clamp_min(0)
        for window in windows(light):
            report(outputs, light, window)
        return outputs

    return StandIn(run)


def windows(light):
    """Return the (top, left, bottom, right) around each blob, brightest first."""
    light = light.clone()
    found = []
    while float(light.max()) > 30 and len(found) < 8:
        y, x = divmod(int(light.argmax()), light.shape[1])
        box = (max(0, y - 20), max(0, x - 20), y + 21, x + 21)
        found.append(box)
        light[box[0] : box[2], box[1] : box[3]] = 0
    return found


def report(outputs, light, window):
    top, left, bottom, right = window
    mass = light[top:bottom, left:right]
    total = float(mass.sum())
    y = top + float(mass.sum(1) @ torch.arange(len(mass)).double()) / total
    x = left + float(mass.sum(0) @ torch.arange(mass.shape[1]).double()) / total
    # YuNet counts from the edge of the picture, half a pixel before the first centre
    x, y = x + 0.5, y + 0.5
    columns = light.shape[1] // 8
    column, row = int(x // 8), int(y // 8)
    i = row * columns + column
    size = math.log(FACE / 8)
    outputs["bbox_8"][0, i] = torch.tensor([x / 8 - column, y / 8 - row, size, size])
    five = (POINTS + torch.tensor([x, y])) / 8 - torch.tensor([float(column), float(row)])
    outputs["kps_8"][0, i] = five.flatten()
    outputs["cls_8"][0, i] = 1.0
    # the more of the blob is seen, the surer
    outputs["obj_8"][0, i] = min(1.0, 0.3 + total / 60000)


def picture(height, width, *centres, sigma=4.0):
    """Return a dark frame with a blue blob at each centre."""
    y, x = np.mgrid[:height, :width]
    pixels = np.full((height, width, 3), GROUND, np.uint8)
    light = sum(np.exp(-((x - cx) ** 2 + (y - cy) ** 2) / (2 * sigma**2)) for cx, cy in centres)
    pixels[..., 2] = (GROUND + 200 * np.asarray(light)).clip(0, 255).round()
    return torch.from_numpy(pixels)


def middles(faces):
    return (faces.boxes[:, :2] + faces.boxes[:, 2:]) / 2


def assert_at(faces, centre, scale, atol):
    """Check that the only face lies at ``centre``, in a search that shrank by ``scale``."""
    assert len(faces) == 1
    np.testing.assert_allclose(middles(faces)[0].numpy(), centre, atol=atol)
    expected = np.array(centre) + POINTS.numpy() / np.array(scale)
    np.testing.assert_allclose(faces.points[0].numpy(), expected, atol=atol)
    sides = (faces.boxes[0, 2:] - faces.boxes[0, :2]).numpy()
    np.testing.assert_allclose(sides, FACE / np.array(scale), rtol=1e-4)


@pytest.mark.parametrize("size", [(96, 128), (97, 131), (33, 250)])
def test_a_face_is_found_where_it_is(size):
    seen = []
    centre = (61.3, 17.6)
    detector = Detector(blob_finder(seen), CONTRACT)
    faces = detector(picture(*size, centre), side=max(size), min_score=0.5)
    assert_at(faces, centre, 1, atol=0.05)
    assert faces.ids.tolist() == [-1]
    assert faces.ids.dtype == torch.int64
    assert faces.boxes.dtype == faces.points.dtype == faces.scores.dtype == torch.float32
    # not resized, and padded on the right and below only
    (values,) = seen
    assert values.shape == (1, 3, -(-size[0] // 32) * 32, -(-size[1] // 32) * 32)
    expected = picture(*size, centre).permute(2, 0, 1).flip(0)
    assert torch.equal(values[0, :, : size[0], : size[1]], expected.float())
    assert not bool(values[0, :, size[0] :].any())
    assert not bool(values[0, :, :, size[1] :].any())


@pytest.mark.parametrize("centre", [(40.2, 30.7), (300.0, 211.5), (371.4, 120.9)])
@pytest.mark.parametrize("side", [400, 200, 131, 100])
def test_coordinates_come_back_after_resizing(side, centre):
    height, width = 251, 400
    seen = []
    pixels = picture(height, width, centre, sigma=10)
    faces = Detector(blob_finder(seen), CONTRACT)(pixels, side=side, min_score=0.4)
    rows, columns = round(height * side / width), side
    shape = (1, 3, -(-rows // 32) * 32, -(-columns // 32) * 32)
    assert seen[0].shape == shape
    # a twentieth of a pixel of the searched picture
    assert_at(faces, centre, (columns / width, rows / height), atol=0.06 * width / side)


def test_a_tall_picture_is_measured_by_its_height():
    centre = (50.4, 301.2)
    faces = Detector(blob_finder(), CONTRACT)(
        picture(400, 120, centre, sigma=8), side=200, min_score=0.4
    )
    assert_at(faces, centre, 0.5, atol=0.1)


GRID = [(x, y) for x in (12.3, 61.7, 80.5, 127.9, 181.2) for y in (15.4, 70.8, 96.1)]


@pytest.mark.parametrize("centre", GRID)
def test_coordinates_come_back_after_tiling(centre, monkeypatch):
    monkeypatch.setattr(detect, "TILE", 96)
    seen = []
    contract = DetectorContract(
        input="input",
        pixels=CONTRACT.pixels,
        head="yunet",
        multiple=32,
        strides=STRIDES,
        smallest=5,  # an overlap of 40 pixels: wider than the blob
    )
    pixels = picture(110, 200, centre, sigma=3)
    faces = Detector(blob_finder(seen), contract)(pixels, side=200, min_score=0.3)
    assert len(seen) == 2 * 3
    assert all(values.shape == (1, 3, 96, 96) for values in seen)
    assert_at(faces, centre, 1, atol=0.05)


def test_tiles_of_the_real_size():
    centres = [(40.3, 55.1), (1000.6, 101.4), (1540.2, 30.7), (1655.8, 160.3)]
    seen = []
    faces = Detector(blob_finder(seen), CONTRACT)(
        picture(200, 1700, *centres), side=1700, min_score=0.5
    )
    # two tiles that share 8 x 20 columns: (1700 + 160) / 2 each, padded to a multiple of 32
    assert detect.TILE < 1700
    assert [values.shape[-1] for values in seen] == [960, 960]
    found = sorted(middles(faces).tolist())
    np.testing.assert_allclose(found, centres, atol=0.05)


def test_best_first_and_none_below_the_score():
    # two blobs, one of which is narrower and so scores less
    wide = picture(120, 160, (40.0, 60.0), sigma=6)
    pixels = torch.maximum(wide, picture(120, 160, (120.0, 60.0), sigma=4))
    detector = Detector(blob_finder(), CONTRACT)
    faces = detector(pixels, side=160, min_score=0.3)
    assert [round(x) for x, _ in middles(faces).tolist()] == [40, 120]
    assert float(faces.scores[0]) > float(faces.scores[1])
    between = detector(pixels, side=160, min_score=float(faces.scores.mean()))
    assert [round(x) for x, _ in middles(between).tolist()] == [40]
    at = float(faces.scores[1])
    assert len(detector(pixels, side=160, min_score=at)) == 2


def test_an_empty_picture_has_no_faces():
    faces = Detector(blob_finder(), CONTRACT)(picture(70, 50, (500, 500)), side=64, min_score=0.5)
    assert len(faces) == 0
    assert faces.boxes.shape == (0, 4)
    assert faces.points.shape == (0, 5, 2)


def test_the_picture_is_not_modified():
    pixels = picture(100, 120, (50.0, 50.0))
    before = pixels.clone()
    Detector(blob_finder(), CONTRACT)(pixels, side=64, min_score=0.5)
    Detector(blob_finder(), CONTRACT)(pixels, side=200, min_score=0.5)
    assert torch.equal(pixels, before)


# ---------------------------------------------------------------- broken networks


def broken(name, value):
    """Return what the stand-in does, with one cell of one output spoilt."""

    def run(inputs):
        outputs = blob_finder()(inputs)
        outputs[name][0, 3] = value
        if name.startswith(("bbox", "kps")):
            outputs["cls_8"][0, 3] = outputs["obj_8"][0, 3] = 1.0
        return outputs

    return run


def good(inputs):
    return blob_finder()(inputs)


@pytest.mark.parametrize("name", ["cls_8", "obj_8", "cls_32"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_scores_that_are_not_finite_are_a_bad_output(name, value):
    detector = Detector(StandIn(broken(name, value), model="blobs"), CONTRACT)
    with pytest.raises(BadOutput, match="finite") as caught:
        detector(picture(64, 96, (40.0, 30.0)), side=96, min_score=0.5)
    assert (caught.value.model, caught.value.provider) == ("blobs", "cpu")


@pytest.mark.parametrize("name", ["bbox_8", "kps_8"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_places_that_are_not_finite_are_a_bad_output(name, value):
    detector = Detector(StandIn(broken(name, value)), CONTRACT)
    with pytest.raises(BadOutput, match="finite"):
        detector(picture(64, 96, (40.0, 30.0)), side=96, min_score=0.5)


def test_the_safe_mode_is_tried_before_giving_up():
    # BadOutput says "also in the safe mode": so there must have been one
    engine = StandIn(broken("cls_8", math.nan), safe=good)
    centre = (40.3, 30.2)
    faces = Detector(engine, CONTRACT)(picture(64, 96, centre), side=96, min_score=0.5)
    assert_at(faces, centre, 1, atol=0.05)
