"""Occlusion: what is before a face stays before it.

Hands, microphones, hair, the rims of spectacles and whatever else lies between the camera and the
face are cut out of the blend's mask. Lenses that a face is seen through are not: below them it is
swapped.
"""

from __future__ import annotations

import logging
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from mien.engines import Engine, numbers_faults, run_guarded
from mien.errors import TemplateMismatch
from mien.models import OcclusionContract
from mien.types import Crops

log = logging.getLogger(__name__)

SURE = (0.25, 0.75)
"""Probability that the face is seen below which it is not swapped at all, and above which it is."""

SOFT = 3
"""Width of the square, in the network's pixels, over which edges are softened."""


class Occlusion:
    """Runs an occlusion network on aligned crops."""

    def __init__(self, engine: Engine, contract: OcclusionContract) -> None:
        self.engine, self.contract = engine, contract

    def seen(self, crops: Crops, size: int) -> Tensor:
        """Return how far faces are seen, float32 (K, size, size) in [0, 1], with soft edges.

        ``crops`` are the faces as they were before the swap; where one is surely seen, it is 1
        exactly. A face of which the network made nothing usable counts as seen, and is logged.
        Raises TemplateMismatch when the crops were aligned for another network.
        """
        return shares(self.probabilities(crops), size)

    def probabilities(self, crops: Crops) -> Tensor:
        """Return how probably pixels show the face, float32 (K, s, s), s the network's side."""
        contract = self.contract
        if crops.template != contract.template:
            raise TemplateMismatch(expected=contract.template, found=crops.template)
        side, count = contract.size, len(crops.pixels)
        if not count:
            return crops.pixels.new_zeros(0, side, side)
        logits, faults = run_guarded(
            self.engine,
            {contract.input: contract.pixels.encode(resized(crops.pixels, side))},
            output=contract.output,
            check=partial(numbers_faults, shape=(1, side, side)),
        )
        for fault in sorted({fault for fault in faults if fault}):
            log.warning(
                "%s returned %s: nothing is kept before the face.", self.engine.model, fault
            )
        if logits is None:
            return crops.pixels.new_ones(count, side, side)
        found = torch.sigmoid(logits[:, 0].float())
        for i in (i for i, fault in enumerate(faults) if fault):
            found[i] = 1
        return found


def shares(found: Tensor, size: int) -> Tensor:
    """Return how far faces are seen, float32 (K, size, size) in [0, 1], with soft edges.

    ``found`` (K, s, s) are probabilities; where they are SURE the result is 1 or 0 exactly.
    """
    low, high = SURE
    share = ((found[:, None] - low) / (high - low)).clamp(0, 1)
    share = share * share * (3 - 2 * share)
    share = functional.avg_pool2d(share, SOFT, stride=1, padding=SOFT // 2, count_include_pad=False)
    return resized(share, size)[:, 0].clamp(0, 1)


def resized(pictures: Tensor, size: int) -> Tensor:
    """Return pictures (K, C, S, S) at ``size``, averaged when they shrink."""
    side = pictures.shape[-1]
    if side == size:
        return pictures
    if side % size == 0:
        return functional.avg_pool2d(pictures, side // size)
    return functional.interpolate(
        pictures, (size, size), mode="bilinear", align_corners=False, antialias=side > size
    )
