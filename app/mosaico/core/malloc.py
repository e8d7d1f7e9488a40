"""Limits the memory that the C library keeps: for each thread, and of what was freed."""

import ctypes
import platform
from typing import Final

# The arenas of all threads together. glibc creates eight for each core, and memory that one arena has
# freed serves no other: a process that reads a million traces in short-lived threads grows with each.
# Two are enough, because threads of Python rarely allocate at the same time.
MAX_ARENAS: Final = 2
# A block of this size is memory of its own, which the kernel gets back when it is freed. glibc raises its limit
# to the size of each such block, up to 32 MiB, and so keeps the buffers of every upload.
LARGE_BLOCK_BYTES: Final = 256 * 1024
# malloc.h
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8


def limit_arenas() -> None:
    """Let the threads of this process share the arenas of malloc; call it before they start.

    Does nothing where the C library is not glibc, the only one with arenas.
    """
    _set_option(_M_ARENA_MAX, MAX_ARENAS)


def free_large_blocks() -> None:
    """Let the kernel have every large block that this process frees. Does nothing without glibc."""
    _set_option(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)


def return_free_memory() -> None:
    """Give the kernel the memory that is free in all arenas. Does nothing without glibc."""
    if _is_glibc():
        ctypes.CDLL(None).malloc_trim(0)


def _set_option(option: int, value: int) -> None:
    if _is_glibc():
        ctypes.CDLL(None).mallopt(option, value)


def _is_glibc() -> bool:
    return platform.libc_ver()[0] == "glibc"
