"""Content: how likely a picture is pornographic, for refusing it and for nothing else."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from mien.engines import Engine, run_finite
from mien.models import ContentContract


class Content:
    """Runs a network on whole pictures."""

    def __init__(self, engine: Engine, contract: ContentContract) -> None:
        self.engine, self.contract = engine, contract

    def __call__(self, pixels: Tensor) -> float:
        """Return the score, 0 to 1, of uint8 ``pixels`` (H, W, 3), sRGB.

        Raises BadOutput when the network returns no numbers.
        """
        contract = self.contract
        inputs = {contract.input: contract.pixels.encode(self._prepared(pixels))}
        return float(run_finite(self.engine, inputs)[contract.output][0, contract.column])

    def _prepared(self, pixels: Tensor) -> Tensor:
        """Return uint8 (1, 3, size, size) as the network was taught: squeezed, a JPEG, cut."""
        contract = self.contract
        image = Image.fromarray(pixels.cpu().numpy())
        side = contract.squeezed
        image = image.resize((side, side), Image.Resampling.BILINEAR)
        stored = BytesIO()
        image.save(stored, "JPEG")
        with Image.open(stored) as opened:
            decoded = torch.from_numpy(np.array(opened.convert("RGB")))
        edge, size = (side - contract.size) // 2, contract.size
        cut = decoded[edge : edge + size, edge : edge + size]
        return cut.permute(2, 0, 1)[None]
