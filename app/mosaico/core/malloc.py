"""Limits the memory that the C library keeps for each thread."""

import ctypes
import platform
from typing import Final

# The arenas of all threads together. glibc creates eight for each core, and memory that one arena has
# freed serves no other: a process that reads a million traces in short-lived threads grows with each.
# Two are enough, because threads of Python rarely allocate at the same time.
MAX_ARENAS: Final = 2
_M_ARENA_MAX: Final = -8  # malloc.h


def limit_arenas() -> None:
    """Let the threads of this process share the arenas of malloc; call it before they start.

    Does nothing where the C library is not glibc, the only one with arenas.
    """
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, MAX_ARENAS)
