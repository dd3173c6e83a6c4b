"""mien: a face-swap engine for consenting people.

>>> import mien
>>> swapper = mien.Swapper()
>>> alice = swapper.identity("alice.jpg", consent="This is my own face.")
>>> swapper.swap("party.jpg", alice).save("out.jpg")

Importing mien loads no network and no torch; the first name used does.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mien import errors
    from mien.media.clip import ClipSettings
    from mien.models import Card, Catalogue
    from mien.observer import Observer, Sighting
    from mien.pipeline import Cast, Policy
    from mien.result import Result
    from mien.settings import Settings
    from mien.swapper import Swapper
    from mien.types import Crops, Faces, Frame, Identity, Role, Swapped
    from mien.version import __version__
    from mien.video import VideoReport

_HOME = {
    "Card": "mien.models",
    "Cast": "mien.pipeline",
    "Catalogue": "mien.models",
    "ClipSettings": "mien.media.clip",
    "Crops": "mien.types",
    "Faces": "mien.types",
    "Frame": "mien.types",
    "Identity": "mien.types",
    "Observer": "mien.observer",
    "Policy": "mien.pipeline",
    "Result": "mien.result",
    "Role": "mien.types",
    "Settings": "mien.settings",
    "Sighting": "mien.observer",
    "Swapped": "mien.types",
    "Swapper": "mien.swapper",
    "VideoReport": "mien.video",
    "__version__": "mien.version",
}

__all__ = [
    "Card",
    "Cast",
    "Catalogue",
    "ClipSettings",
    "Crops",
    "Faces",
    "Frame",
    "Identity",
    "Observer",
    "Policy",
    "Result",
    "Role",
    "Settings",
    "Sighting",
    "Swapped",
    "Swapper",
    "VideoReport",
    "__version__",
    "errors",
]


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("mien.errors")
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'mien' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
