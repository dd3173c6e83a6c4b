"""Frames from elsewhere: whatever holds pixels on a device becomes a tensor there, uncopied."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from mien.errors import PictureUnreadable


class Exported(Protocol):
    """What lends its memory by DLPack: arrays of NumPy, CuPy, JAX, frames of decoders."""

    def __dlpack__(self, **options: Any) -> Any:
        """Return a capsule with the memory."""


class CudaArray(Protocol):
    """What lends its memory on an NVIDIA GPU by Numba's protocol."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Where the memory is, and how values lie in it."""


FrameLike: TypeAlias = Tensor | Exported | CudaArray


def on_device(frame: FrameLike, device: torch.device | str) -> Tensor:
    """Return ``frame``, RGB, as a tensor on ``device``, uint8 (H, W, 3).

    It shares the memory of a frame that is there already, and is ready on PyTorch's current
    stream: whoever writes into ``frame`` afterwards must wait for that stream. Raises
    PictureUnreadable for anything else than such a frame.
    """
    device = torch.device(device)
    pixels = _tensor(frame)
    if pixels.dtype != torch.uint8 or pixels.dim() != 3 or pixels.shape[2] != 3:
        raise PictureUnreadable(
            f"A frame is {_described(pixels)}, and must be uint8 (H, W, 3), RGB. {_advice(pixels)}"
        )
    if not pixels.numel():
        raise PictureUnreadable(f"A frame is {_described(pixels)}: it has no pixels.")
    try:
        return pixels.to(device, non_blocking=device.type == "cuda")
    except (RuntimeError, AssertionError) as error:  # PyTorch without CUDA asserts
        raise PictureUnreadable(
            f"A frame on {pixels.device} cannot be brought to {device}: {_first_line(error)}. "
            "'mien doctor' says which devices PyTorch sees."
        ) from error


def _tensor(frame: object) -> Tensor:
    if isinstance(frame, Tensor):
        return frame
    try:
        if hasattr(frame, "__dlpack__"):
            strides = getattr(frame, "strides", None)
            if isinstance(strides, tuple) and any(step < 0 for step in strides):
                raise ValueError("it runs backwards")  # at which PyTorch ends the process
            return from_dlpack(frame)
        if hasattr(frame, "__cuda_array_interface__"):
            return _cuda_array(frame)
    except (RuntimeError, ValueError, TypeError, BufferError, AssertionError) as error:
        raise PictureUnreadable(
            f"A frame, {type(frame).__name__}, cannot be lent to PyTorch: {_first_line(error)}. "
            "Make a copy of it, contiguous and writable, or give a tensor."
        ) from error
    raise PictureUnreadable(
        f"A frame cannot be of the kind {type(frame).__name__}. Give a tensor, or what has "
        "__dlpack__ or __cuda_array_interface__, such as an array of NumPy or CuPy."
    )


def _cuda_array(frame: Any) -> Tensor:
    """Return the tensor, once what its owner still does to the memory is waited for."""
    pixels = torch.as_tensor(frame)
    stream = frame.__cuda_array_interface__.get("stream")
    if stream is not None:  # PyTorch does not look at it
        owner = torch.cuda.ExternalStream(stream, device=pixels.device)
        torch.cuda.current_stream(pixels.device).wait_stream(owner)
    return pixels


def _described(pixels: Tensor) -> str:
    return f"{str(pixels.dtype).removeprefix('torch.')} {tuple(pixels.shape)}"


def _advice(pixels: Tensor) -> str:
    if pixels.dim() == 4:
        return "Give the frames of a batch one by one."
    if pixels.dim() == 3 and pixels.shape[0] == 3 and pixels.shape[2] != 3:
        return "Move the channels to the end: frame.permute(1, 2, 0)."
    if pixels.dim() == 3 and pixels.shape[2] == 4:
        return "Leave the alpha out: frame[..., :3]."
    if pixels.is_floating_point():
        return "Scale values in [0, 1] by 255, round and clamp them, and call .byte()."
    return "Convert it first."


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0].rstrip(". ")
