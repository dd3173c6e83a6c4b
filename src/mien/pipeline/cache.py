"""Embeddings that were computed before."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from threading import Lock

import numpy as np
import torch
from cachetools import LRUCache
from torch import Tensor

from mien.media.atomic import whole_file

log = logging.getLogger(__name__)


class EmbeddingCache:
    """The last ``size`` embeddings by content of picture and networks, for many threads.

    A key never holds a file's name: new pixels under an old name miss, old pixels under a new
    name hit. With ``folder``, embeddings are also kept on disk, as many; they are biometric data,
    so this is off unless asked for. A disk that cannot be used costs speed and a warning, no more.
    """

    def __init__(self, size: int = 100, folder: Path | None = None) -> None:
        self.size, self.folder = size, folder
        self._memory: LRUCache[str, Tensor] = LRUCache(size)
        self._lock = Lock()

    def get(self, picture: str, networks: str) -> Tensor | None:
        """Return the embedding (D,) of the picture with this digest, or None."""
        key = _key(picture, networks)
        with self._lock:
            found = self._memory.get(key)
        if found is None and self.folder is not None:
            found = self._load(self.folder / f"{key}.npy")
            if found is not None:
                self._remember(key, found)
        return found

    def put(self, picture: str, networks: str, embedding: Tensor) -> None:
        """Keep the embedding (D,) of the picture with this digest."""
        key = _key(picture, networks)
        self._remember(key, embedding)
        if self.folder is not None:
            self._store(self.folder / f"{key}.npy", embedding)

    def __len__(self) -> int:
        return len(self._memory)

    def _remember(self, key: str, embedding: Tensor) -> None:
        if self.size:
            with self._lock:
                self._memory[key] = embedding

    def _load(self, path: Path) -> Tensor | None:
        try:
            values = np.load(path, allow_pickle=False)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, EOFError) as error:
            log.warning("The cached embedding %s cannot be read and is made anew: %s", path, error)
            return None
        if values.dtype != np.float32 or values.ndim != 1 or abs(np.linalg.norm(values) - 1) > 1e-3:
            log.warning("The cached embedding %s is damaged and is made anew.", path)
            return None
        path.touch()
        return torch.from_numpy(values)

    def _store(self, path: Path, embedding: Tensor) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with whole_file(path) as file:
                np.save(file, embedding.cpu().numpy())
            newest_first = sorted(
                path.parent.glob("*.npy"), key=lambda p: p.stat().st_mtime_ns, reverse=True
            )
            for old in newest_first[self.size :]:
                old.unlink(missing_ok=True)
        except OSError as error:
            log.warning("The embedding could not be kept at %s: %s", path, error)


def _key(picture: str, networks: str) -> str:
    return hashlib.sha256(f"{picture} {networks}".encode()).hexdigest()
