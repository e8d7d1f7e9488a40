"""Reads files that users name below a folder of the operator, and nothing outside it."""

import os
import stat
from pathlib import Path
from typing import Final

from mosaico.core.errors import NotFound

MAX_BYTES: Final = 64 * 1024 * 1024
_NO_LINK: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER: Final = _NO_LINK | os.O_DIRECTORY
_FILE: Final = _NO_LINK | os.O_NONBLOCK  # opening a pipe must not block; it is refused below


def read_below(root: Path, name: str) -> bytes:
    """The content of a file, named relative to the folder: `nightly/tasks.jsonl`.

    Raises: NotFound for a name that leads out of the folder or through a link, and for anything but a
    regular file of at most 64 MiB.
    """
    flaw = flaw_of_name(name)
    if flaw is not None:
        raise NotFound(flaw)
    try:
        descriptor = _open_below(root, name.split("/"))
    except OSError as error:
        raise NotFound(
            f"{name!r} cannot be read from the harness folder ({error.strerror}); name an existing"
            " file that is not a link"
        ) from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
        os.close(descriptor)
        raise NotFound(f"{name!r} is not a regular file of at most {MAX_BYTES} bytes")
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def flaw_of_name(name: str) -> str | None:
    """Return the reason why a name is not a valid file name of the folder; None for a valid one."""
    parts = name.split("/")
    if name.startswith("/") or "\0" in name or any(part in ("", ".", "..") for part in parts):
        return (
            f"{name!r} is not a path in the harness folder; give the path of a file in the folder, "
            "without links or .."
        )
    return None


def _open_below(root: Path, parts: list[str]) -> int:
    """Open folder by folder, so that no part of the path can be replaced by a link meanwhile."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            child = os.open(part, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = child
        return os.open(parts[-1], _FILE, dir_fd=folder)
    finally:
        os.close(folder)
