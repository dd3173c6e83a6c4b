"""Cores: frames that are made at once share them."""

from __future__ import annotations

import torch

from mien.engines.onnx import usable_cores
from mien.video.job import AT_ONCE


def share_cores(home: torch.device) -> None:
    """Let PyTorch use so many threads for each frame that all made at once have cores.

    Where frames are at ``home`` on a GPU, that is one: few numbers are left to the CPU.

    Its threads wait for each other without sleep: with more of them than free cores, everything
    waits. It is a setting of the whole process, so the command line asks for it and the library
    does not; OMP_NUM_THREADS in the environment does the same, and is kept if it is less.
    """
    share = usable_cores() // AT_ONCE if home.type == "cpu" else 1
    torch.set_num_threads(max(1, min(torch.get_num_threads(), share)))
