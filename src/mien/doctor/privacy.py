"""Keeps people out of reports."""

from __future__ import annotations

import getpass
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

END = r"(?![\w.-])"
"""Where the name of a folder ends."""


def without_names(facts: Any) -> Any:
    """Return text, or a tree of it, with ~ for the home folder, and no name of a user or host.

    Folders outside the home may bear the user's name too (/media/alice), and CUDA's errors tell
    the name of the host.
    """
    if isinstance(facts, dict):
        return {key: without_names(value) for key, value in facts.items()}
    if isinstance(facts, list | tuple):
        return [without_names(value) for value in facts]
    if not isinstance(facts, str):
        return facts
    facts = re.sub(r"hostname=[^\s;]+", "hostname=…", facts)
    with suppress(OSError, RuntimeError):  # there may be no home
        home = Path.home()
        for spelling in {str(home), str(home.resolve())} - {home.anchor}:
            facts = re.sub(re.escape(spelling) + END, "~", facts)
    with suppress(OSError, KeyError, ImportError):  # in a container, a user may have no name
        facts = re.sub(rf"(?<=[/\\]){re.escape(getpass.getuser())}{END}", "…", facts)
    return facts
