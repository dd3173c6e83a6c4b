"""Embeddings that were computed before."""

from __future__ import annotations

import hashlib
import logging
import os
from contextlib import suppress
from pathlib import Path
from threading import Lock

import numpy as np
import torch
from cachetools import LRUCache
from torch import Tensor

from mien.errors import InvalidOption
from mien.media.atomic import whole_file

log = logging.getLogger(__name__)

SUFFIX = ".f32"
"""Files on disk hold a sha256 and, after it, the numbers: float32, little endian."""

CHECKSUM = 32
"""Bytes of the sha256."""


class EmbeddingCache:
    """The last ``size`` embeddings by content of picture and networks, for many threads.

    A key never holds a file's name: new pixels under an old name miss, old pixels under a new
    name hit. With ``folder``, embeddings are also kept on disk, as many; they are biometric data,
    so this is off unless asked for. A disk that cannot be used costs speed and a warning, no more.
    """

    def __init__(self, size: int = 100, folder: Path | None = None) -> None:
        if size < 0:
            raise InvalidOption("cache_size", size, "0 or more")
        self.size, self.folder = size, folder
        self._memory: LRUCache[str, Tensor] = LRUCache(size)
        self._lock = Lock()

    def get(self, picture: str, networks: str) -> Tensor | None:
        """Return the embedding (D,) of the picture with this digest, or None."""
        key = _key(picture, networks)
        with self._lock:
            found = self._memory.get(key)
        if found is None and self.folder is not None:
            found = self._load(self.folder / f"{key}{SUFFIX}")
            if found is not None:
                self._remember(key, found)
        return found

    def put(self, picture: str, networks: str, embedding: Tensor) -> None:
        """Keep the embedding (D,) of the picture with this digest."""
        key = _key(picture, networks)
        self._remember(key, embedding)
        if self.folder is not None:
            self._store(self.folder / f"{key}{SUFFIX}", embedding)

    def __len__(self) -> int:
        return len(self._memory)

    def _remember(self, key: str, embedding: Tensor) -> None:
        if self.size:
            with self._lock:
                self._memory[key] = embedding

    def _load(self, path: Path) -> Tensor | None:
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            log.warning("The cached embedding %s cannot be read and is made anew: %s", path, error)
            return None
        checksum, numbers = content[:CHECKSUM], content[CHECKSUM:]
        if hashlib.sha256(numbers).digest() != checksum:
            log.warning("The cached embedding %s is damaged and is made anew.", path)
            return None
        with suppress(OSError):
            os.utime(path)  # the oldest are removed first
        return torch.from_numpy(np.frombuffer(numbers, "<f4").astype(np.float32))

    def _store(self, path: Path, embedding: Tensor) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with whole_file(path) as file:
                numbers = embedding.cpu().numpy().astype("<f4").tobytes()
                file.write(hashlib.sha256(numbers).digest() + numbers)
        except OSError as error:
            log.warning("The embedding could not be kept at %s: %s", path, error)
            return
        ages: list[tuple[int, Path]] = []
        for kept in path.parent.glob(f"*{SUFFIX}"):
            with suppress(OSError):  # another process may have removed it
                ages.append((kept.stat().st_mtime_ns, kept))
        for _, old in sorted(ages, reverse=True)[self.size :]:
            with suppress(OSError):
                old.unlink()


def _key(picture: str, networks: str) -> str:
    return hashlib.sha256(f"{picture} {networks}".encode()).hexdigest()
