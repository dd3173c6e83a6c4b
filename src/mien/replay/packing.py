"""What was found in frames as one row of bytes: one copy brings it to the processor, not six."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import prod

import torch
from torch import Tensor

from mien.replay.frame import Outcome


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    dtype: torch.dtype
    shape: torch.Size
    start: int

    @property
    def stop(self) -> int:
        return self.start + prod(self.shape) * self.dtype.itemsize


class Packing:
    """Where the fields of outcomes of one shape, all but their pixels, lie in bytes."""

    def __init__(self, outcome: Outcome) -> None:
        """``outcome`` is what is packed, again and again; its tensors are contiguous."""
        small = [field.name for field in fields(Outcome) if field.name != "pixels"]
        values = {name: getattr(outcome, name) for name in small}
        self._fields: list[_Field] = []
        self.size = 0
        # the widest numbers first: each then begins at a multiple of its own size
        for name, value in sorted(values.items(), key=lambda item: -item[1].dtype.itemsize):
            field = _Field(name, value.dtype, value.shape, self.size)
            self._fields.append(field)
            self.size = field.stop
        self._bytes = [values[field.name].view(-1).view(torch.uint8) for field in self._fields]

    def pack(self, into: Tensor) -> None:
        """Write what the outcome holds now to ``into``, uint8 (size,), on the same device."""
        torch.cat(self._bytes, out=into)

    def unpacked(self, pixels: Tensor, packed: Tensor) -> Outcome:
        """Return an outcome that lies in ``pixels`` and in ``packed``, uint8 (size,)."""
        found = {
            field.name: packed[field.start : field.stop].view(field.dtype).view(field.shape)
            for field in self._fields
        }
        return Outcome(pixels=pixels, **found)
