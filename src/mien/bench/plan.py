"""What is to be measured, and with what."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

from mien.choice import is_number
from mien.errors import InvalidOption

SMALLEST, LARGEST = 64, 8192
"""Sides of a frame, pixels."""

MOST_FACES = 16
MOST_FRAMES = 10_000
LONGEST = 3600.0
"""Seconds for one row."""


class Size(NamedTuple):
    """A frame's size in pixels."""

    width: int
    height: int

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the size that '720p' (16:9) or '1280x720' means. Raises InvalidOption."""
        if lines := re.fullmatch(r"(\d{1,5})p", text):
            height = int(lines[1])
            size = cls(round(height * 16 / 9), height)
        elif sides := re.fullmatch(r"(\d{1,5})x(\d{1,5})", text):
            size = cls(int(sides[1]), int(sides[2]))
        else:
            raise InvalidOption("size", text, "720p, or 1280x720")
        if min(size) < SMALLEST or max(size) > LARGEST:
            raise InvalidOption("size", text, f"sides of {SMALLEST} to {LARGEST} pixels")
        return size

    def __str__(self) -> str:
        wide = round(self.height * 16 / 9) == self.width
        return f"{self.height}p" if wide else f"{self.width}x{self.height}"


SIZES = tuple(map(Size.read, ("720p", "1080p", "2160p")))
FACES = (1, 4, 8)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be measured. Raises InvalidOption."""

    model: str = "mien-256"
    detector: str = "yunet"
    provider: str = "cpu"
    threads: int | None = None
    """CPU threads of a network; None: all cores."""

    gpu_memory: str | None = None
    """What may be taken of the GPU's memory, as for Swapper."""

    models: Path | None = None
    """Folder with further cards and weights."""

    device: str | None = None
    """Where frames of fixed capacity are measured: 'cpu', 'cuda' or 'cuda:1'; None: on the GPU, if
    there is one that can."""

    sizes: tuple[Size, ...] = SIZES
    faces: tuple[int, ...] = FACES
    by_person: bool = False
    """Tell who each face is, as for ``only`` and ``map``: this adds the stage 'embed'."""

    frames: int | None = None
    """Frames timed in each row; None: as many as ``seconds`` allow."""

    seconds: float = 6.0
    """What a row may take, about."""

    workers: tuple[int, ...] = field(default=())
    """Numbers of threads with which frames per second are measured; empty: 1, 2 and 4, as far as
    there are cores."""

    def __post_init__(self) -> None:
        if self.device is not None and not re.fullmatch(r"cpu|cuda(:\d{1,3})?", self.device):
            raise InvalidOption("device", self.device, ["cpu", "cuda", "cuda:NUMBER"])
        if not self.sizes:
            raise InvalidOption("size", "none", "one or more")
        if not self.faces or not all(1 <= count <= MOST_FACES for count in self.faces):
            raise InvalidOption("faces", self.faces, f"1 to {MOST_FACES}")
        if self.frames is not None and not 1 <= self.frames <= MOST_FRAMES:
            raise InvalidOption("frames", self.frames, f"1 to {MOST_FRAMES}")
        if not is_number(self.seconds) or not 0 < self.seconds <= LONGEST:
            raise InvalidOption("seconds", self.seconds, f"above 0, to {LONGEST:.0f}")


QUICK = {"sizes": SIZES[:1], "faces": (1, 4), "seconds": 2.0}
"""The short form: options of a plan that takes some ten seconds."""
