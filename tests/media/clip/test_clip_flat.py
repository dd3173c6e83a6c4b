"""Twenty clips in one process: open files and threads stay as many (T14)."""

import os
import sys
import threading
from pathlib import Path

import pytest
from drawn import rewrite, write_clip

FILES = Path("/proc/self/fd")


@pytest.mark.skipif(not FILES.exists(), reason=f"{sys.platform} does not list open files there")
def test_open_files_and_threads_stay_as_many(tmp_path):
    path = write_clip(tmp_path / "a.mp4", frames=6, sounds=[("aac", 0.3, "eng")])
    counts = []
    for _ in range(20):
        rewrite(path)
        counts.append((len(os.listdir(FILES)), threading.active_count()))  # noqa: PTH208
    assert counts[2] == counts[-1]
