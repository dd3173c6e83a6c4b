"""Trying encoders: in a process of their own, as drivers are there and fail, hang and crash."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import av
from av.error import FFmpegError

from mien.media.clip.convert import CENTRED
from mien.media.clip.encoder import siting_option
from mien.media.clip.layout import layout_of

PROGRAM = Path(__file__).with_name("trial.py")
PATIENCE = 30.0
"""Seconds that a trial may take. Drivers take some to wake up on a machine with many GPUs."""

LAST = 2.0
"""Seconds that a killed process is waited for: one that hangs in a driver may never go."""


@cache
def in_build(encoder: str) -> bool:
    """Return whether FFmpeg here is built with ``encoder``."""
    try:
        av.codec.Codec(encoder, "w")
    except (FFmpegError, ValueError):
        return False
    return True


def what_is_wrong(
    encoder: str,
    *,
    codec: str,
    planar: str,
    context: Mapping[str, Any],
    options: Mapping[str, str],
    siting: str = "left",
    headers_apart: bool,
) -> str:
    """Return why ``encoder`` does not work here, or an empty text if it does.

    It encodes some frames, and what they come out as is looked at. ``context`` are attributes of
    PyAV's context, of which pix_fmt holds the samples of the format ``planar``. What was found out
    is remembered, while the program runs or until ``forget``. Never fails.
    """
    job = {
        "encoder": encoder,
        "codec": codec,
        "planar": planar,
        "context": dict(context),
        "options": {**options, **siting_option(siting)},
        "siting": siting if _seen(planar, context) else None,
        "unsaid": "center" if codec in CENTRED else "left",
        "headers_apart": headers_apart,
    }
    return _tried(json.dumps(job, sort_keys=True, default=_written))


def _seen(planar: str, context: Mapping[str, Any]) -> bool:
    """Return whether it can be seen where chroma samples lie."""
    layout = layout_of(planar)
    return (layout.across, layout.down) == (2, 2) and min(context["width"], context["height"]) >= 32


def forget() -> None:
    """Forget what was found out: a device is gone, or is there again."""
    _tried.cache_clear()


def _written(value: object) -> str:
    """Return a fraction as JSON can hold it."""
    numerator, denominator = getattr(value, "numerator", None), getattr(value, "denominator", None)
    return f"{numerator}/{denominator}"


@cache
def _tried(job: str) -> str:
    if getattr(sys, "frozen", False):  # the executable is the program itself, and no Python
        return "it cannot be tried in a frozen program"
    path = os.pathsep.join(filter(None, sys.path))
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except (OSError, ValueError) as error:  # ValueError: there is no Python to run
        return f"it cannot be tried: {getattr(error, 'strerror', None) or error}"
    try:
        printed, _ = process.communicate(job.encode(), timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return f"no answer within {PATIENCE:g} s"
    finally:
        _end(process)
    if process.returncode:
        return f"the trial of it ended with {process.returncode}"
    try:
        return str(json.loads(printed.decode(errors="replace").splitlines()[-1]))
    except (ValueError, IndexError):
        return "the trial of it came to nothing"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End ``process`` if it runs, without waiting for one that cannot be ended."""
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(LAST)
