"""What every runner of a network offers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Port:
    """A named input or output."""

    name: str
    shape: tuple[int | None, ...]
    """Sizes by dimension, batch first; None where any size goes."""


class Engine(Protocol):
    """A loaded network. May be called from several threads at once."""

    @property
    def model(self) -> str:
        """Name of the network in the catalogue."""
        ...

    @property
    def provider(self) -> str:
        """What the network really runs on, as the runtime itself reports it, such as 'cuda'."""
        ...

    @property
    def inputs(self) -> tuple[Port, ...]:
        """The inputs."""
        ...

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The outputs."""
        ...

    def __call__(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Run a batch: float32 tensors, batch first, in; all outputs by name out."""
        ...

    def safer(self) -> Engine:
        """Return the same network in its slowest, most trusted mode."""
        ...
