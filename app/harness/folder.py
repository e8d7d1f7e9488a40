"""Files that users may name and an operator owns: those of one folder, and nothing outside of it."""

import os
import stat
from pathlib import Path
from typing import Final

from app.core.errors import NotFound

MAX_BYTES: Final = 64 * 1024 * 1024
_NO_LINK: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER: Final = _NO_LINK | os.O_DIRECTORY
_FILE: Final = _NO_LINK | os.O_NONBLOCK  # a pipe is opened at once, and refused


def read_below(root: Path, name: str) -> bytes:
    """The bytes of a file, named relative to a folder: `nightly/tasks.jsonl`.

    Raises: NotFound for a name that leads out of the folder or over a link, even one that is put
    there at this moment, and for what is no plain file of at most 64 MiB.
    """
    parts = name.split("/")
    if name.startswith("/") or "\0" in name or any(part in ("", ".", "..") for part in parts):
        raise NotFound(f"{name!r} leads out of the folder; name a file in it, without links or ..")
    try:
        file = _opened(root, parts)
    except OSError as error:
        raise NotFound(
            f"{name!r} is no file of the operator's folder ({error.strerror}); name one that is"
            " there and no link"
        ) from None
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_BYTES:
        os.close(file)
        raise NotFound(f"{name!r} is no plain file of at most {MAX_BYTES} bytes; name another")
    with os.fdopen(file, "rb") as opened:
        return opened.read(MAX_BYTES)


def _opened(root: Path, parts: list[str]) -> int:
    """Walk down folder by folder, so that nothing on the way can become a link meanwhile."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            below = os.open(part, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = below
        return os.open(parts[-1], _FILE, dir_fd=folder)
    finally:
        os.close(folder)
