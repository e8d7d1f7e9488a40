"""libfaketime, with which tests move the clocks of whole processes and of Postgres.

`python -m tests.support.faketime` says so where it is missing.
"""

import os
import sys
from pathlib import Path

import pytest

REQUIRED = "MOSAICO_REQUIRE_FAKETIME"
MISSING = "libfaketime is not installed; for example `apt-get install faketime`"
# Of Debian, Fedora, Arch and `make install`.
_LIBRARIES = (
    *Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"),
    *(
        Path(folder) / "faketime/libfaketimeMT.so.1"
        for folder in ("/usr/lib64", "/usr/lib", "/usr/local/lib")
    ),
)


def find_library() -> Path | None:
    return next((library for library in _LIBRARIES if library.exists()), None)


def require_library() -> str:
    """The path of libfaketime; skips the test without it, and fails it where it is required."""
    library = find_library()
    if library is None:
        if os.environ.get(REQUIRED):
            pytest.fail(f"{REQUIRED} is set, and {MISSING}")
        pytest.skip(MISSING)
    return str(library)


if __name__ == "__main__" and find_library() is None:
    sys.stdout.write(f"The tests that move clocks are skipped: {MISSING}.\n")
