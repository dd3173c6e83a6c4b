"""Compiled networks on disk: found again only where they were made for, and only if whole.

Each has a folder named by its key. What is in it counts once ``made.json`` is there, which is
written last and has every file's digest: a folder that was left half made, or of which a file is
damaged, is emptied and made again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock
from platformdirs import user_cache_path

from mien.settings import HOME

MADE = "made.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingredients:
    """All that a compiled network depends on."""

    network: str
    """The sha256 of the ONNX file."""

    shapes: str
    precision: str
    effort: str
    gpu: str
    capability: str
    driver: str
    runtime: str
    """The version of ONNX Runtime."""

    compiler: str
    """The version of TensorRT."""

    @property
    def key(self) -> str:
        """A name that changes with any of them."""
        return _digest(json.dumps(asdict(self), sort_keys=True).encode())[:32]

    @property
    def timings(self) -> str:
        """A name for what is measured of the GPU, whatever the network."""
        machine = (self.gpu, self.capability, self.driver, self.runtime, self.compiler)
        return "timings-" + _digest(json.dumps(machine).encode())[:16]


class EngineCache:
    """A folder of compiled networks; see cache_home for the default."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or cache_home() / "engines"

    def folder(self, key: str) -> Path:
        """Return the folder of a network; it need not be there."""
        return self.root / key

    def lock(self) -> FileLock:
        """Return the lock of whoever compiles: one at a time, or they would disturb each other.

        It is let go of when its process ends, however that is.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        return FileLock(self.root / "compiling.lock")

    def ready(self, key: str) -> bool:
        """Whether the network is there and whole."""
        folder = self.folder(key)
        try:
            made = json.loads((folder / MADE).read_text(encoding="utf-8"))
            files: dict[str, str] = made["files"]
            return bool(files) and all(
                _digest((folder / name).read_bytes()) == digest for name, digest in files.items()
            )
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return False

    def begin(self, key: str) -> Path:
        """Empty the folder of a network, and return it; call it under the lock."""
        folder = self.folder(key)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def seal(self, ingredients: Ingredients) -> bool:
        """Let what is in the folder count from now on; return whether there is anything."""
        folder = self.folder(ingredients.key)
        files = {
            path.name: _digest(path.read_bytes())
            for path in sorted(folder.iterdir())
            if path.is_file() and path.name != MADE
        }
        if not files:
            return False
        written = folder / f"{MADE}.part"
        written.write_text(
            json.dumps({"for": asdict(ingredients), "files": files}, indent=1), encoding="utf-8"
        )
        os.replace(written, folder / MADE)  # noqa: PTH105 - the same, and says that it is atomic
        return True


def cache_home() -> Path:
    """Return the folder of what can be made again: MIEN_HOME/cache, or the user's cache folder."""
    named = os.environ.get(HOME)
    if named:
        return Path(named).expanduser() / "cache"
    return user_cache_path("mien", appauthor=False)


def sha256_of(content: bytes) -> str:
    """Return the sha256 of a network."""
    return _digest(content)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
