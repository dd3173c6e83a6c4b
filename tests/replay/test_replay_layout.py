"""Tensors of several types lie in one row of bytes, each where it may be read as it is."""

from __future__ import annotations

import torch

from mien.replay.layout import ALIGNED, Layout

LIKE = (
    torch.zeros(3, dtype=torch.bool),
    torch.zeros((), dtype=torch.int64),
    torch.zeros(2, 5, 2),
    torch.zeros(4, 3, dtype=torch.float64),
)


def test_tensors_lie_side_by_side():
    layout = Layout(LIKE)
    row = torch.zeros(layout.size, dtype=torch.uint8)
    for number, each in enumerate(layout.tensors(row)):
        each.fill_(number + 1)
    for number, (each, like) in enumerate(zip(layout.tensors(row), LIKE, strict=True)):
        assert each.dtype == like.dtype
        assert each.shape == like.shape
        assert each.is_contiguous()
        assert (each.data_ptr() - row.data_ptr()) % ALIGNED == 0
        assert each.tolist() == torch.full_like(like, number + 1).tolist()


def test_a_row_moves_as_one():
    layout = Layout(LIKE)
    row = torch.zeros(layout.size, dtype=torch.uint8)
    for each in layout.tensors(row):
        each.copy_(torch.arange(1, each.numel() + 1).view(each.shape))
    copies = layout.tensors(row.clone())
    row.zero_()
    for each in copies:
        assert each.tolist() == torch.arange(1, each.numel() + 1).view(each.shape).to(each).tolist()
    assert len({each.untyped_storage().data_ptr() for each in copies}) == 1
