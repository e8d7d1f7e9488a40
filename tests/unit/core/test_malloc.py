"""Threads share few arenas of malloc: memory does not grow with work."""

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


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has arenas")
def test_limit_arenas__of_threads_at_the_same_time_share_two() -> None:
    assert _count_arenas("") > MAX_ARENAS
    assert _count_arenas("limit_arenas()") <= MAX_ARENAS


def _count_arenas(limit: str) -> int:
    code = COUNT_ARENAS.format(limit=limit)
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
