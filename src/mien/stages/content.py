"""Content: how likely a picture is pornographic, for refusing it and for nothing else."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from PIL import Image
from torch import Tensor

from mien.engines import Engine, run_finite
from mien.models import ContentContract
from mien.stages.remember import Remember


class Content:
    """Runs a network on whole pictures. The scores of the last few are remembered."""

    def __init__(self, engine: Engine, contract: ContentContract) -> None:
        self.engine, self.contract = engine, contract
        self._scores = Remember()

    def forget(self) -> None:
        """Remember no scores of before."""
        self._scores.forget()

    def __call__(self, pixels: Tensor) -> float:
        """Return the score, 0 to 1, of uint8 ``pixels`` (H, W, 3), sRGB.

        Raises BadOutput when the network returns no numbers.
        """
        (score,) = self._scores(self._prepared(pixels), self._score)
        return score

    def _score(self, prepared: Tensor) -> list[float]:
        contract = self.contract
        inputs = {contract.input: contract.pixels.encode(prepared)}
        return [float(run_finite(self.engine, inputs)[contract.output][0, contract.column])]

    def _prepared(self, pixels: Tensor) -> Tensor:
        """Return uint8 (1, 3, size, size) as the network was taught: squeezed, a JPEG, cut."""
        contract = self.contract
        side = contract.squeezed
        planes = pixels.cpu().permute(2, 0, 1)[None]
        # as Pillow does it, within a code, in a tenth of the time
        small = F.interpolate(planes, (side, side), mode="bilinear", antialias=True)
        image = Image.fromarray(small[0].permute(1, 2, 0).contiguous().numpy())
        stored = BytesIO()
        image.save(stored, "JPEG")
        with Image.open(stored) as opened:
            decoded = torch.from_numpy(np.array(opened.convert("RGB")))
        edge, size = (side - contract.size) // 2, contract.size
        cut = decoded[edge : edge + size, edge : edge + size]
        return cut.permute(2, 0, 1)[None]
