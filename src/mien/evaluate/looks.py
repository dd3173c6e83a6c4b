"""What is shown of a pair: the faces side by side, small, and marked as synthetic."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from PIL import Image
from torch import Tensor

from mien.geometry import cut, fit_similarity, template, zoom_about_centre
from mien.safety import xmp_packet
from mien.types import Faces
from mien.version import __version__

SIDE, WIDER = 176, 1.5
"""Pixels of a thumbnail, and how many times a network's crop it shows: with hair and chin."""

QUALITY = 82


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """Thumbnails of one pair, uint8 (SIDE, SIDE, 3) each, cut at the same place."""

    source: Tensor
    target: Tensor
    result: Tensor
    pasted: Tensor


def thumbnail(frame: Tensor, faces: Faces) -> Tensor:
    """Return the face in a picture, uint8 (H, W, 3), with its surroundings."""
    place = zoom_about_centre(template("arcface_128").at(SIDE), SIDE, WIDER)
    crop = cut(frame, fit_similarity(faces.points[:1], place), SIDE)[0]
    return (crop * 255).round().to(torch.uint8).permute(1, 2, 0).contiguous()


def data_uri(parts: Sequence[Tensor], *, consents: Sequence[str], model: str) -> str:
    """Return thumbnails side by side as a JPEG in a data URI.

    Its XMP says that it is synthetic, how it was made and by whose consent.
    """
    packet = xmp_packet(consents=consents, model=model, version=__version__)
    pixels = torch.cat(list(parts), dim=1).contiguous().numpy()
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=QUALITY, xmp=packet)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
