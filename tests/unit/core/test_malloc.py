"""Threads share few arenas of malloc, and the kernel gets back what was freed: memory does not grow with work."""

import platform
import subprocess
import sys

import pytest

from mosaico.core.malloc import MAX_ARENAS

# Sixteen threads that exist at the same time, each with memory of malloc (more than 512 bytes).
COUNT_ARENAS = """
import ctypes, os, tempfile, threading
from mosaico.core.malloc import limit_arenas
{limit}
barrier = threading.Barrier(16)
def allocate():
    barrier.wait()
    texts = [bytes(1000) for _ in range(1000)]
    barrier.wait()
threads = [threading.Thread(target=allocate) for _ in range(16)]
for thread in threads: thread.start()
for thread in threads: thread.join()
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
with tempfile.TemporaryFile() as report:
    stream = ctypes.c_void_p(libc.fdopen(os.dup(report.fileno()), b"w"))
    libc.malloc_info(0, stream)
    libc.fclose(stream)
    report.seek(0)
    print(report.read().count(b"<heap nr="))
"""


# Thirty blocks of a mebibyte with a small one behind each, which stays when the large ones are freed.
COUNT_KEPT_MIB = """
from pathlib import Path
from mosaico.core.malloc import free_large_blocks
{limit}
def resident_mib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4 // 1024
before = resident_mib()
# glibc raises its limit to the size of this block.
bytearray(8 * 1024**2)
large, small = [], []
for _ in range(30):
    large.append(bytearray(1024**2))
    small.append(bytearray(1000))
large.clear()
print(resident_mib() - before)
"""

needs_glibc = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="only glibc has these options"
)


@needs_glibc
def test_limit_arenas__of_threads_at_the_same_time_share_two() -> None:
    assert _count_arenas("") > MAX_ARENAS
    assert _count_arenas("limit_arenas()") <= MAX_ARENAS


@needs_glibc
def test_free_large_blocks__gives_them_back_to_the_kernel() -> None:
    assert _printed_number(COUNT_KEPT_MIB.format(limit="")) > 20
    assert _printed_number(COUNT_KEPT_MIB.format(limit="free_large_blocks()")) < 5


def _count_arenas(limit: str) -> int:
    return _printed_number(COUNT_ARENAS.format(limit=limit))


def _printed_number(code: str) -> int:
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
