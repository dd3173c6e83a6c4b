"""What half precision must do as well as float32, role by role, before a network runs in it.

The picture is a portrait, cut for each network as the stages cut it, and once more mirrored with a
little noise: fixed and seeded, so a machine says the same at every start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from mien.geometry import cut, fit_similarity, template, zoom_about_centre
from mien.models import (
    AgeContract,
    ContentContract,
    Contract,
    DetectorContract,
    EmbedderContract,
    MeshContract,
    OcclusionContract,
    SwapperContract,
    WatermarkContract,
)
from mien.stages.heads import HEADS

PORTRAIT = Path(__file__).parent.parent / "doctor" / "portrait.jpg"
"""A generated portrait, CC0 1.0 (faker-js): no real person is shown."""

FIVE = ((109.1, 82.4), (150.8, 84.4), (132.2, 107.3), (111.4, 130.8), (146.7, 131.5))
"""Its eyes, nose and corners of the mouth, in pixels."""

LEAST_PSNR = 40.0
"""Decibels, relative to the output's range: the error of a picture is then one code or two."""

LEAST_COSINE = 0.999
MOST_SHIFT = 0.005
"""How far points and corners of boxes may move, as a share of the crop's side."""

MOST_LOGIT, MOST_SCORE = 1.0, 0.05
"""How far a presence logit and a detection score may move: far less than decisions hang on."""

DETECTED = 0.3
"""Score from which a detector's places are looked at."""


@dataclass(frozen=True, slots=True)
class RoleTrial:
    """A Trial (see mien.engines) of networks with this contract."""

    contract: Contract

    @property
    def exact_ends(self) -> bool:
        """Coordinates and directions are made in float32; pictures and logits need no more."""
        return not isinstance(self.contract, SwapperContract | OcclusionContract)

    def inputs(self, shapes: Mapping[str, tuple[int | None, ...]]) -> dict[str, Tensor]:
        """Return the trial's batch, float32 on the CPU."""
        contract = self.contract
        if isinstance(contract, DetectorContract):
            picture = _portrait()[None, :, :, :].permute(0, 3, 1, 2)
            spare = -picture.shape[-1] % contract.multiple
            picture = functional.pad(picture, (0, spare, 0, spare))
            return {contract.input: contract.pixels.encode(picture)}
        if isinstance(contract, ContentContract):
            picture = _portrait().permute(2, 0, 1)[None, :, : contract.size, : contract.size]
            return {contract.input: contract.pixels.encode(picture)}
        if isinstance(contract, WatermarkContract):
            return {contract.input: _portrait().float().mean(dim=2)[None, None] - 128}
        pixels = contract.pixels.encode(_crops(contract))
        if not isinstance(contract, SwapperContract):
            return {contract.input: pixels}
        draw = torch.Generator().manual_seed(1)
        source = torch.randn(len(pixels), shapes[contract.source][1] or 1, generator=draw)
        return {contract.target: pixels, contract.source: functional.normalize(source, dim=1)}

    def fault(self, exact: Mapping[str, Tensor], made: Mapping[str, Tensor]) -> str | None:
        """Say what of ``made`` is too far from ``exact``, or None."""
        contract = self.contract
        if isinstance(contract, DetectorContract):
            return _detections(contract, exact, made)
        if isinstance(contract, MeshContract):
            shift = _apart(exact[contract.mesh], made[contract.mesh]) / contract.size
            logit = _apart(exact[contract.presence], made[contract.presence])
            return _more(shift, MOST_SHIFT, "points") or _more(logit, MOST_LOGIT, "presence")
        if isinstance(contract, AgeContract | ContentContract | WatermarkContract):
            # refusals and proof hang on it: it runs on the CPU alone
            return "its estimates are wanted exact"
        a, b = exact[contract.output].flatten(1), made[contract.output].flatten(1)
        if isinstance(contract, EmbedderContract):
            cosine = float(functional.cosine_similarity(a, b).min())
            return None if cosine >= LEAST_COSINE else f"cosine {cosine:.5f} below {LEAST_COSINE}"
        if isinstance(contract, OcclusionContract):  # what counts is what logits come to
            a, b = torch.sigmoid(a), torch.sigmoid(b)
        decibels = psnr(a, b)
        return None if decibels >= LEAST_PSNR else f"{decibels:.1f} dB below {LEAST_PSNR:g}"


def psnr(exact: Tensor, made: Tensor) -> float:
    """Return the peak signal-to-noise ratio in decibels, relative to the range of ``exact``."""
    error = (exact - made).square().mean()
    span = (exact.max() - exact.min()).square()
    return float(10 * torch.log10(span / error.clamp_min(1e-20)))


def _detections(
    contract: DetectorContract, exact: Mapping[str, Tensor], made: Mapping[str, Tensor]
) -> str | None:
    side = _portrait().shape[0]
    side += -side % contract.multiple
    head = HEADS[contract.head]
    # places of every score, so that those of one match those of the other
    boxes, points, scores = head(exact, contract, side, side, -inf)
    others = head(made, contract, side, side, -inf)
    seen = scores >= min(DETECTED, float(scores.max()))
    shift = max(_apart(boxes[seen], others[0][seen]), _apart(points[seen], others[1][seen])) / side
    score = _apart(scores, others[2])
    return _more(shift, MOST_SHIFT, "places") or _more(score, MOST_SCORE, "scores")


def _apart(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max())


def _more(found: float, most: float, what: str) -> str | None:
    return None if found <= most else f"{what} off by {found:.4f}, more than {most:g}"


@lru_cache(maxsize=1)
def _portrait() -> Tensor:
    with Image.open(PORTRAIT) as image:
        return torch.from_numpy(np.array(image.convert("RGB")))


def _crops(
    contract: MeshContract | EmbedderContract | SwapperContract | OcclusionContract | AgeContract,
) -> Tensor:
    """Return the face as it is, and mirrored with noise: float32 (2, 3, size, size) in [0, 1]."""
    to = template(contract.template).at(contract.size)
    if isinstance(contract, MeshContract):
        to = zoom_about_centre(to, contract.size, contract.zoom)
    crop = cut(_portrait(), fit_similarity(torch.tensor(FIVE)[None], to), contract.size)
    noise = torch.randn(crop.shape, generator=torch.Generator().manual_seed(0))
    return torch.cat([crop, crop.flip(3) + noise * (4 / 255)]).clamp(0, 1)
