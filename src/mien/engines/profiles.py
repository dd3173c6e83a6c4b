"""Shapes that a network is prepared for, where a runtime prepares it for a range of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mien.engines.protocol import Port

ROWS = (1, 4, 16)
"""The least, the usual and the greatest batch."""

SIDES = (32, 640, 1536)
"""The same of the sides of a picture in which faces are looked for, in pixels."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The range of shapes of each input, by its name."""

    least: Mapping[str, tuple[int, ...]]
    usual: Mapping[str, tuple[int, ...]]
    most: Mapping[str, tuple[int, ...]]

    @property
    def rows(self) -> int:
        """The greatest batch that all inputs take."""
        return min(shape[0] for shape in self.most.values())

    def holds(self, shapes: Mapping[str, Iterable[int]]) -> bool:
        """Whether inputs of these shapes are within the range."""
        return shapes.keys() == self.most.keys() and all(
            len(shape := tuple(given)) == len(self.most[name])
            and all(
                low <= size <= high
                for low, size, high in zip(self.least[name], shape, self.most[name], strict=True)
            )
            for name, given in shapes.items()
        )

    def of_tensorrt(self) -> dict[str, str]:
        """Return the options of ONNX Runtime's TensorRT provider that say so."""
        names = [name for name in self.most if self.least[name] != self.most[name]]
        if not names:
            return {}
        return {
            f"trt_profile_{bound}_shapes": ",".join(
                f"{name}:{'x'.join(map(str, shapes[name]))}" for name in names
            )
            for bound, shapes in (("min", self.least), ("opt", self.usual), ("max", self.most))
        }


def profile_of(inputs: Iterable[Port]) -> Profile:
    """Return the shapes that mien gives to these inputs; sizes that are fixed stay as they are."""
    ports = list(inputs)
    return Profile(*({port.name: _sizes(port, bound) for port in ports} for bound in range(3)))


def _sizes(port: Port, bound: int) -> tuple[int, ...]:
    free = ((ROWS if axis == 0 else SIDES)[bound] for axis in range(len(port.shape)))
    return tuple(
        chosen if size is None else size for size, chosen in zip(port.shape, free, strict=True)
    )
