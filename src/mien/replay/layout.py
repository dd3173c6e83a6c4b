"""Tensors of several types in one row of bytes, so that one copy copies all of them."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

ALIGNED = 16
"""Bytes at a multiple of which each tensor begins: compiled kernels read so many at once."""


class Layout:
    """Where tensors lie in a row of bytes."""

    def __init__(self, like: Sequence[Tensor]) -> None:
        """``like`` have the types and shapes of the tensors."""
        self._places = []
        self.size = 0
        for each in like:
            place = slice(self.size, self.size + each.nbytes)
            self._places.append((place, each.dtype, each.shape))
            self.size = -(-place.stop // ALIGNED) * ALIGNED

    def tensors(self, row: Tensor) -> tuple[Tensor, ...]:
        """Return the tensors in ``row``, contiguous uint8 (size,), whose memory they share."""
        return tuple(row[place].view(dtype).view(shape) for place, dtype, shape in self._places)
