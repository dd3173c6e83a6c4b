"""CUDA's libraries, for ONNX Runtime: from where pip puts them."""

from __future__ import annotations

import io
import logging
import re
from contextlib import redirect_stdout
from functools import cache

import onnxruntime as ort

log = logging.getLogger(__name__)


def reason_of(error: Exception) -> str:
    """Return what an error of ONNX Runtime says, as one sentence, without the place in its code."""
    said = " ".join(str(error).split())
    said = re.sub(r"^\S+\.(?:cc|h):\d+ .*?\) (?=[A-Z])", "", said)
    return said if said.endswith((".", "!")) else f"{said}."


@cache
def load_libraries() -> None:
    """Load the CUDA and cuDNN libraries of installed packages, once; what fails is logged.

    Without this, ONNX Runtime finds only those that the system's loader finds.
    """
    if not hasattr(ort, "preload_dlls"):  # before 1.21, and in some builds
        return
    said = io.StringIO()
    try:
        with redirect_stdout(said):  # it prints what it could not load
            ort.preload_dlls()
    except (OSError, RuntimeError, ValueError) as error:  # the session says what is missing
        said.write(str(error))
    if text := " ".join(said.getvalue().split()):
        log.debug("Loading CUDA's libraries: %s", text)
