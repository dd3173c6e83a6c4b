"""Faces chosen and joined."""

from __future__ import annotations

import pytest
import torch

from mien.types import Faces


def faces(count):
    numbers = torch.arange(count)
    mesh = numbers[:, None, None].expand(count, 468, 3).float()
    return Faces(torch.rand(count, 4), torch.rand(count, 5, 2), torch.rand(count), numbers, mesh)


def test_faces_are_chosen_by_number_slice_list_and_tensor():
    four = faces(4)
    for index, rows in [
        (2, [2]), (-1, [3]), (-4, [0]), (slice(1, 3), [1, 2]), ([3, 0, 3], [3, 0, 3]), ([-1], [3]),
        ([], []), (torch.tensor([True, False, False, True]), [0, 3]),
    ]:  # fmt: skip
        chosen = four[index]
        assert chosen.ids.tolist() == rows
        assert torch.equal(chosen.boxes, four.boxes[rows])
        assert torch.equal(chosen.points, four.points[rows])
        assert torch.equal(chosen.scores, four.scores[rows])
        assert torch.equal(chosen.mesh, four.mesh[rows])
    for wrong in (4, -5):
        with pytest.raises(IndexError, match="of 4"):
            four[wrong]
    with pytest.raises(IndexError):
        faces(1)[1]


def test_parts_without_faces_drop_out():
    two, none = faces(2), Faces.none()
    assert Faces.joined([none, two, none]).ids.tolist() == [0, 1]
    assert Faces.joined([none, two]).mesh is not None
    assert Faces.joined([two, two]).ids.tolist() == [0, 1, 0, 1]
    assert len(Faces.joined([])) == len(Faces.joined([none, none])) == 0
