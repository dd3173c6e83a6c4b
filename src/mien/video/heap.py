"""One heap: on Linux, memory that several threads share does not grow with a clip's length."""

from __future__ import annotations

import ctypes
import platform

M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8
"""glibc's numbers of the parameters (malloc.h)."""

LARGE = 4 * 2**20
"""Bytes from which on a block goes back to the system as soon as it is let go: frames do."""


def one_heap() -> bool:
    """Let all threads share one heap and keep frames out of it; return whether that was possible.

    glibc gives threads heaps of their own, and after a while puts blocks of up to 32 MB into them.
    Frames are made in one thread and let go in another, which leaves holes in each: 300 MB after
    some clips, 1 GB after ten minutes of 1920 x 1080 on twelve threads. It is a setting of the
    whole process, so the command line asks for it and the library does not; MALLOC_ARENA_MAX=1 and
    MALLOC_MMAP_THRESHOLD_=4194304 in the environment do the same.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(M_ARENA_MAX, 1)) and bool(mallopt(M_MMAP_THRESHOLD, LARGE))
