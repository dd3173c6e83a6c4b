"""Five-point templates: where a network expects the eyes, the nose and the mouth in its crop.

The points are those that the networks' authors trained with, in pixels at the size they were
given for: ArcFace's by InsightFace (``arcface_112_v1`` is its frontal pose), FFHQ's by the FFHQ
alignment script. ``arcface_128`` is ``arcface_112_v2`` with eight columns added on the left;
``loose_224`` is a square 1.32 times as large about it, from above the hair to below the chin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor

from mien.errors import InvalidOption

Point = tuple[float, float]
FivePoints = tuple[Point, Point, Point, Point, Point]


@dataclass(frozen=True, slots=True)
class Template:
    """Five points in a square crop."""

    name: str
    size: int
    """Side, in pixels, of the crop for which ``points`` holds."""

    points: FivePoints
    """Left eye, right eye, nose tip, left mouth corner, right mouth corner, as (x, y) pixels."""

    def at(self, size: int) -> Tensor:
        """Return the points, float32 (5, 2), in a crop of ``size`` pixels.

        Pixel centres keep their meaning: the picture's edges, at -0.5 and ``size`` - 0.5, are
        what scales. Multiplying the coordinates themselves, as is often done, moves the face by
        up to half a pixel of the smaller crop.
        """
        points = torch.tensor(self.points, dtype=torch.float32)
        return (points + 0.5) * (size / self.size) - 0.5


def _template(name: str, size: int, *points: Point) -> tuple[str, Template]:
    left, right, nose, mouth_left, mouth_right = points
    return name, Template(name, size, (left, right, nose, mouth_left, mouth_right))


TEMPLATES: Mapping[str, Template] = MappingProxyType(
    dict(
        [
            _template(
                "arcface_112_v1",
                112,
                (39.730, 51.138),
                (72.270, 51.138),
                (56.000, 68.493),
                (42.463, 87.010),
                (69.537, 87.010),
            ),
            _template(
                "arcface_112_v2",
                112,
                (38.2946, 51.6963),
                (73.5318, 51.5014),
                (56.0252, 71.7366),
                (41.5493, 92.3655),
                (70.7299, 92.2041),
            ),
            _template(
                "arcface_128",
                128,
                (46.2946, 51.6963),
                (81.5318, 51.5014),
                (64.0252, 71.7366),
                (49.5493, 92.3655),
                (78.7299, 92.2041),
            ),
            _template(
                "loose_224",
                224,
                (88.6898, 85.6693),
                (135.4058, 85.4109),
                (112.1963, 112.2379),
                (93.0048, 139.5868),
                (131.6912, 139.3729),
            ),
            _template(
                "ffhq_512",
                512,
                (192.98138, 239.94708),
                (318.90277, 240.19360),
                (256.63416, 314.01935),
                (201.26117, 371.41043),
                (313.08905, 371.15118),
            ),
        ]
    )
)


def template(name: str) -> Template:
    """Return the template called ``name``.

    Raises InvalidOption, which lists the known names.
    """
    try:
        return TEMPLATES[name]
    except KeyError:
        raise InvalidOption("template", name, TEMPLATES) from None
