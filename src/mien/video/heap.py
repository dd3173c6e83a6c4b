"""One heap: on Linux, memory that several threads share does not grow with a clip's length."""

from __future__ import annotations

import ctypes
import platform

M_ARENA_MAX = -8
"""glibc's number of the parameter (malloc.h)."""


def one_heap() -> bool:
    """Let all threads of this process share one heap; return whether that could be arranged.

    glibc gives threads heaps of their own. Frames are made in one thread and let go in another,
    which leaves holes in each: 300 MB after some clips. It is a setting of the whole process, so
    the command line asks for it and the library does not; MALLOC_ARENA_MAX=1 in the environment
    does the same.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    return bool(ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1))
