"""Decoders of detectors against loops over cells and numbers, and tiles that cover."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mien.models import DetectorContract
from mien.models.contracts import PixelFormat
from mien.stages.heads import HEADS, tiles

steady = settings(derandomize=True, deadline=None, max_examples=200)

STRIDES = (8, 16, 32)
SIZES = [(64, 96), (96, 32), (128, 128)]


def contract(head, **more):
    return DetectorContract(
        input="input",
        pixels=PixelFormat(high=255.0, order="BGR"),
        head=head,
        multiple=32,
        strides=STRIDES,
        smallest=20,
        **more,
    )


YUNET = contract("yunet")
RETINAFACE = contract(
    "retinaface", anchors=((16.0, 32.0), (64.0, 128.0), (256.0, 512.0)), variances=(0.1, 0.2)
)


def random_yunet(height, width, batch, seed):
    """Return outputs of YuNet's shapes; scores reach a little beyond [0, 1]."""
    rng = np.random.default_rng(seed)
    outputs = {}
    for stride in STRIDES:
        cells = (height // stride) * (width // stride)
        outputs[f"bbox_{stride}"] = rng.normal(0, 1, (batch, cells, 4))
        outputs[f"kps_{stride}"] = rng.normal(0, 2, (batch, cells, 10))
        outputs[f"cls_{stride}"] = rng.uniform(-0.05, 1.05, (batch, cells, 1))
        outputs[f"obj_{stride}"] = rng.uniform(-0.05, 1.05, (batch, cells, 1))
    return outputs


def loop_yunet(outputs, height, width, sample):
    """Decode as OpenCV's FaceDetectorYN does: cell by cell, centre and sides, then corners."""
    boxes, points, scores = [], [], []
    for stride in STRIDES:
        columns = width // stride
        for row in range(height // stride):
            for column in range(columns):
                i = row * columns + column
                dx, dy, dw, dh = outputs[f"bbox_{stride}"][sample, i]
                x, y = (column + dx) * stride, (row + dy) * stride
                w, h = math.exp(dw) * stride, math.exp(dh) * stride
                boxes.append([x - w / 2, y - h / 2, x + w / 2, y + h / 2])
                five = outputs[f"kps_{stride}"][sample, i]
                points.append(
                    [
                        [(five[2 * k] + column) * stride, (five[2 * k + 1] + row) * stride]
                        for k in range(5)
                    ]
                )
                cls = min(max(outputs[f"cls_{stride}"][sample, i, 0], 0), 1)
                obj = min(max(outputs[f"obj_{stride}"][sample, i, 0], 0), 1)
                scores.append(math.sqrt(cls * obj))
    return np.array(boxes), np.array(points), np.array(scores)


def random_retinaface(height, width, batch, seed):
    rng = np.random.default_rng(seed)
    priors = sum(
        math.ceil(height / stride) * math.ceil(width / stride) * len(sides)
        for stride, sides in zip(STRIDES, RETINAFACE.anchors, strict=True)
    )
    face = rng.random((batch, priors, 1))
    return {
        "loc": rng.normal(0, 2, (batch, priors, 4)),
        "landmarks": rng.normal(0, 3, (batch, priors, 10)),
        "conf": np.concatenate([1 - face, face], axis=2),
    }


def loop_retinaface(outputs, height, width, sample):
    """Decode in shares of the picture, as the PyTorch RetinaFace does, then scale to pixels."""
    boxes, points, scores = [], [], []
    i = 0
    for stride, sides in zip(STRIDES, RETINAFACE.anchors, strict=True):
        for row in range(math.ceil(height / stride)):
            for column in range(math.ceil(width / stride)):
                for side in sides:
                    cx, cy = (column + 0.5) * stride / width, (row + 0.5) * stride / height
                    sx, sy = side / width, side / height
                    dx, dy, dw, dh = outputs["loc"][sample, i]
                    x, y = cx + dx * 0.1 * sx, cy + dy * 0.1 * sy
                    w, h = sx * math.exp(dw * 0.2), sy * math.exp(dh * 0.2)
                    boxes.append(
                        [
                            (x - w / 2) * width,
                            (y - h / 2) * height,
                            (x + w / 2) * width,
                            (y + h / 2) * height,
                        ]
                    )
                    five = outputs["landmarks"][sample, i]
                    points.append(
                        [
                            [
                                (cx + five[2 * k] * 0.1 * sx) * width,
                                (cy + five[2 * k + 1] * 0.1 * sy) * height,
                            ]
                            for k in range(5)
                        ]
                    )
                    scores.append(outputs["conf"][sample, i, 1])
                    i += 1
    assert i == outputs["loc"].shape[1]
    return np.array(boxes), np.array(points), np.array(scores)


CASES = {
    "yunet": (YUNET, random_yunet, loop_yunet),
    "retinaface": (RETINAFACE, random_retinaface, loop_retinaface),
}


def test_every_head_is_tested():
    assert set(CASES) == set(HEADS)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", CASES)
def test_decoder_equals_a_loop(name, size):
    described, make, loop = CASES[name]
    outputs = make(*size, batch=1, seed=size[1])
    tensors = {key: torch.from_numpy(value).float() for key, value in outputs.items()}
    every = loop(outputs, *size, 0)
    for least in (0.0, 0.5, 0.9):
        found = HEADS[name](tensors, described, *size, least)
        enough = every[2] >= least
        assert enough.any()
        for ours, theirs in zip(found, every, strict=True):
            assert ours.shape == theirs[enough].shape
            assert ours.dtype == torch.float32
            np.testing.assert_allclose(ours.numpy(), theirs[enough], rtol=1e-4, atol=2e-3)


def test_retinaface_counts_begun_cells():
    # 40 is no multiple of 16 or 32: the maps have ceil(40 / stride) cells
    outputs = random_retinaface(40, 72, batch=1, seed=0)
    tensors = {key: torch.from_numpy(value).float() for key, value in outputs.items()}
    boxes, points, scores = HEADS["retinaface"](tensors, RETINAFACE, 40, 72, 0.0)
    expected = loop_retinaface(outputs, 40, 72, 0)
    np.testing.assert_allclose(boxes.numpy(), expected[0], rtol=1e-4, atol=2e-3)
    np.testing.assert_allclose(points.numpy(), expected[1], rtol=1e-4, atol=2e-3)
    np.testing.assert_allclose(scores.numpy(), expected[2], atol=1e-6)


def test_a_yunet_cell_by_hand():
    # the cell in column 2, row 1 of the stride-16 map of a 64 x 96 input: (2 + 0.25) * 16 = 36,
    # (1 + 0.5) * 16 = 24; e ** ln 2 cells = 32 pixels wide, e ** 0 = 16 pixels high
    outputs = {
        key: torch.from_numpy(np.zeros_like(value)).float()
        for key, value in random_yunet(64, 96, batch=1, seed=0).items()
    }
    cell = 1 * (96 // 16) + 2
    outputs["bbox_16"][0, cell] = torch.tensor([0.25, 0.5, math.log(2), 0])
    outputs["kps_16"][0, cell, 4:6] = torch.tensor([0.5, -0.25])
    outputs["cls_16"][0, cell], outputs["obj_16"][0, cell] = 0.81, 1.0
    boxes, points, scores = HEADS["yunet"](outputs, YUNET, 64, 96, 0.5)
    torch.testing.assert_close(boxes, torch.tensor([[20.0, 16.0, 52.0, 32.0]]))
    torch.testing.assert_close(points[0, 2], torch.tensor([40.0, 12.0]))
    assert scores.tolist() == [pytest.approx(0.9)]


# ---------------------------------------------------------------- tiles


@steady
@given(st.integers(1, 400), st.integers(1, 400), st.integers(20, 150), st.integers(0, 19))
def test_tiles_cover_the_picture_and_stay_inside(height, width, side, overlap):
    found = tiles(height, width, side, overlap)
    covered = np.zeros((height, width), bool)
    for top, left, bottom, right in found:
        assert 0 <= top < bottom <= height
        assert 0 <= left < right <= width
        assert bottom - top <= side
        assert right - left <= side
        covered[top:bottom, left:right] = True
    assert covered.all()
    assert len(set(found)) == len(found)
    # all of one size, so no tile is a sliver
    assert len({(bottom - top, right - left) for top, left, bottom, right in found}) == 1


@steady
@given(st.integers(1, 2000), st.integers(20, 300), st.data())
def test_whatever_is_no_larger_than_the_overlap_lies_whole_in_a_tile(length, side, data):
    overlap = data.draw(st.integers(0, side - 1))
    spans = [(left, right) for _, left, _, right in tiles(1, length, side, overlap)]
    for (_, end), (start, _) in pairwise(spans):
        assert end - start >= overlap
    begin = data.draw(st.integers(0, max(0, length - overlap)))
    face = (begin, min(length, begin + overlap))
    assert any(left <= face[0] and face[1] <= right for left, right in spans)
    # and no more tiles than it takes
    least = 1 if length <= side else math.ceil((length - overlap) / (side - overlap))
    assert len(spans) == least


def test_a_small_picture_is_one_tile():
    assert tiles(480, 640, 1536, 160) == [(0, 0, 480, 640)]
    assert tiles(1536, 1536, 1536, 160) == [(0, 0, 1536, 1536)]


def test_tiles_by_hand():
    # 1537 columns need a second tile; each is as large as it takes to share 160 of them
    assert tiles(100, 1537, 1536, 160) == [(0, 0, 100, 849), (0, 688, 100, 1537)]
