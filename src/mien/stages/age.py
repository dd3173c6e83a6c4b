"""Age: how old a face looks. An estimate, for refusing minors and for nothing else."""

from __future__ import annotations

import torch
from torch import Tensor

from mien.engines import Engine, run_finite
from mien.errors import TemplateMismatch
from mien.models import AgeContract
from mien.stages.remember import Remember
from mien.types import Crops


class Ages:
    """Runs an age network on aligned crops. The ages of the last few are remembered."""

    def __init__(self, engine: Engine, contract: AgeContract) -> None:
        self.engine, self.contract = engine, contract
        self._years = Remember()

    def forget(self) -> None:
        """Remember no ages of before."""
        self._years.forget()

    def __call__(self, crops: Crops) -> Tensor:
        """Return how old the faces look, in years, float32 (K,) on the CPU.

        It is the mean over the years, each by its chance. Raises TemplateMismatch when the crops
        were aligned for another network, BadOutput when the network returns no numbers.
        """
        contract = self.contract
        if crops.template != contract.template:
            raise TemplateMismatch(expected=contract.template, found=crops.template)
        if not len(crops.pixels):
            return torch.zeros(0)
        return torch.tensor(self._years(crops.pixels.cpu(), self._estimated))

    def _estimated(self, crops: Tensor) -> list[float]:
        contract = self.contract
        pixels = contract.pixels.encode(crops)
        chances = run_finite(self.engine, {contract.input: pixels})[contract.output].float().cpu()
        years: list[float] = (chances @ torch.arange(float(chances.shape[1]))).tolist()
        return years
