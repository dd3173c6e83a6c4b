"""Cores: frames that are made at once share them."""

from __future__ import annotations

import torch

from mien.engines.onnx import usable_cores
from mien.video.job import AT_ONCE


def share_cores() -> None:
    """Let PyTorch use so many threads for each frame that all made at once have cores.

    Its threads wait for each other without sleep: with more of them than free cores, everything
    waits. It is a setting of the whole process, so the command line asks for it and the library
    does not; OMP_NUM_THREADS in the environment does the same, and is kept if it is less.
    """
    torch.set_num_threads(max(1, min(torch.get_num_threads(), usable_cores() // AT_ONCE)))
