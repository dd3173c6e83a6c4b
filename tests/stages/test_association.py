"""Where faces are expected, and how much they share, of faces by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from moving import at, face, several

from mien.geometry import intersection_over_smaller
from mien.stages.association import Track, apart, boxes_of, overlap, shifted
from mien.stages.likeness import Likeness


def test_all_of_a_face_is_moved_but_its_depth():
    two = several(face(100, 100, number=3), face(300, 100, number=8))
    moved = shifted(two, [(5.0, -2.0), (0.0, 0.25)])
    ways = torch.tensor([[5.0, -2.0], [0.0, 0.25]])
    assert torch.equal(moved.boxes, two.boxes + ways.repeat(1, 2))
    assert torch.equal(moved.points, two.points + ways[:, None])
    assert torch.equal(moved.mesh[..., :2], two.mesh[..., :2] + ways[:, None])
    assert torch.equal(moved.mesh[..., 2], two.mesh[..., 2])
    assert moved.ids.tolist() == [3, 8]
    bare = shifted(replace(two, mesh=None), [(5.0, -2.0), (0.0, 0.25)])
    assert bare.mesh is None
    assert shifted(two, [(0.0, 0.0)] * 2) is two


def test_a_track_is_expected_where_its_face_is():
    track = Track(0, Likeness(), face(100, 100), at(1), 30.0, at(1), velocity=(120.0, -40.0))
    (there,) = boxes_of(track.at(at(1.1)))
    assert track.place(at(1.1)) == pytest.approx(there)
    assert there[0] > 50 + 8
    assert track.place(at(1)) == boxes_of(track.face)[0]


@pytest.mark.parametrize("x", [100.0, 140.0, 250.0])
def test_an_overlap_is_that_of_tensors(x):
    one, other = face(100, 100), face(x, 110, 80)
    expected = float(intersection_over_smaller(one.boxes, other.boxes))
    boxes = boxes_of(one)[0], boxes_of(other)[0]
    assert overlap(*boxes) == pytest.approx(expected)
    assert overlap(boxes[0], (5.0, 5.0, 5.0, 5.0)) == 0
    way, growth = apart(*boxes)
    assert way == pytest.approx(((x - 100) ** 2 + 100) ** 0.5 / 90)
    assert growth == pytest.approx(0.22314, abs=1e-4)
