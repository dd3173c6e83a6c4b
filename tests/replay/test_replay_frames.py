"""Frames from elsewhere become tensors, in the same memory where they can."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mien.errors import PictureUnreadable
from mien.replay.frames import on_device


class Lent:
    """An object that is no array, but lends its memory as one."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_a_tensor_that_is_there_is_itself():
    frame = torch.zeros(4, 6, 3, dtype=torch.uint8)
    assert on_device(frame, "cpu") is frame


@pytest.mark.parametrize("lend", [lambda array: array, Lent])
def test_memory_is_shared_by_dlpack(lend):
    array = np.arange(72, dtype=np.uint8).reshape(4, 6, 3)
    frame = on_device(lend(array), torch.device("cpu"))
    assert torch.equal(frame, torch.from_numpy(array.copy()))
    array[1, 2, 0] = 250
    assert frame[1, 2, 0] == 250


def test_a_view_is_not_copied():
    planar = torch.zeros(3, 4, 6, dtype=torch.uint8)
    frame = on_device(planar.permute(1, 2, 0), "cpu")
    assert frame.data_ptr() == planar.data_ptr()


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (torch.zeros(4, 6, 3), r"float32 \(4, 6, 3\), and must be .* Scale values"),
        (torch.zeros(3, 4, 6, dtype=torch.uint8), r"uint8 \(3, 4, 6\).*permute\(1, 2, 0\)"),
        (torch.zeros(4, 6, 4, dtype=torch.uint8), r"Leave the alpha out"),
        (torch.zeros(2, 4, 6, 3, dtype=torch.uint8), r"one by one"),
        (np.zeros((4, 6), np.uint8), r"uint8 \(4, 6\), and must be uint8 \(H, W, 3\)"),
        (np.zeros((4, 6, 3), np.int32), r"int32 \(4, 6, 3\).*Convert it first"),
        (torch.zeros(0, 6, 3, dtype=torch.uint8), r"no pixels"),
        (np.zeros((4, 6, 3), ">f4"), r"ndarray, cannot be lent to PyTorch: .*Make a copy"),
        (np.zeros((4, 6, 3), np.uint8)[::-1], r"to PyTorch: it runs backwards\. Make"),
        ([[0]], r"kind list\. Give a tensor"),
    ],
)
def test_what_is_no_frame_is_explained(frame, said):
    with pytest.raises(PictureUnreadable, match=said):
        on_device(frame, "cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_a_device_that_is_not_there_is_explained():
    frame = torch.zeros(4, 6, 3, dtype=torch.uint8)
    with pytest.raises(PictureUnreadable, match=r"on cpu cannot be brought to cuda:0: .*doctor"):
        on_device(frame, "cuda:0")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
def test_frames_on_a_gpu_stay_where_they_are():
    frame = torch.randint(0, 256, (4, 6, 3), dtype=torch.uint8, device="cuda")
    assert on_device(frame, "cuda") is frame
    assert on_device(Lent(frame), "cuda").data_ptr() == frame.data_ptr()
    owner = type("Array", (), {"__cuda_array_interface__": frame.__cuda_array_interface__})()
    assert on_device(owner, "cuda").data_ptr() == frame.data_ptr()
    assert torch.equal(on_device(frame, "cpu"), frame.cpu())
