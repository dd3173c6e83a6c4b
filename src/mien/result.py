"""What comes out: a swapped picture, and what there is to say about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from PIL import Image

from mien.media import Picture, write_picture
from mien.safety import xmp_packet
from mien.types import Faces, Swapped
from mien.version import __version__


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """A swapped picture and how it came about."""

    swapped: Swapped
    target: Picture
    consent: str
    """Id of the consent record."""

    model: str
    providers: Mapping[str, str]

    @property
    def faces(self) -> Faces:
        """Every face that was found, largest first."""
        return self.swapped.faces

    @property
    def timings(self) -> Mapping[str, float]:
        """Seconds by stage."""
        return self.swapped.timings

    @property
    def partial(self) -> bool:
        """Whether some chosen face could not be swapped."""
        return bool(self.swapped.faults)

    @property
    def pixels(self) -> npt.NDArray[np.uint8]:
        """A copy of the new picture, uint8 (H, W, 3), RGB."""
        return cast("npt.NDArray[np.uint8]", self.swapped.frame.pixels.cpu().numpy().copy())

    @property
    def image(self) -> Image.Image:
        """The new picture for PIL."""
        return Image.fromarray(self.pixels)

    def save(self, path: str | Path) -> None:
        """Write a JPEG, PNG or WebP file by the suffix, marked as synthetic.

        The metadata carries the IPTC digital source type and the consent record's id. Raises
        PictureUnwritable; nothing is left behind then.
        """
        xmp = xmp_packet(consent=self.consent, model=self.model, version=__version__)
        new = Picture(
            self.swapped.frame,
            name=Path(path).name,
            alpha=self.target.alpha,
            profile=self.target.profile,
        )
        write_picture(Path(path), new, xmp=xmp)

    def report(self) -> dict[str, Any]:
        """Return what happened, ready for JSON."""
        return {
            "consent": self.consent,
            "model": self.model,
            "providers": dict(self.providers),
            "faces": describe(self.faces),
            "swapped": list(self.swapped.chosen),
            "faults": [{"face": f.face, "reason": f.reason} for f in self.swapped.faults],
            "milliseconds": {k: round(v * 1e3, 2) for k, v in self.timings.items()},
        }

    def __repr__(self) -> str:
        return f"Result({self.target.name}: {len(self.swapped.chosen)} of {len(self.faces)} faces)"


def describe(faces: Faces) -> list[dict[str, Any]]:
    """Return boxes, scores, points and rolls of faces, ready for JSON."""
    return [
        {
            "index": i,
            "box": [round(v, 1) for v in faces.boxes[i].tolist()],
            "score": round(float(faces.scores[i]), 3),
            "roll": round(float(faces.rolls[i]), 1),
            "points": [[round(v, 1) for v in point] for point in faces.points[i].tolist()],
        }
        for i in range(len(faces))
    ]
