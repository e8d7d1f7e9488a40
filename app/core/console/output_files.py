"""Files and folders that a command writes, checked before an expensive run produces the result."""

from pathlib import Path
from tempfile import TemporaryFile

from app.core.errors import AppError


class UnwritableOutput(AppError):
    """An output file or folder cannot be written; name another one."""

    code = "unwritable-output"
    status = 400
    exit_code = 2


def require_folder(folder: Path) -> None:
    """Create the folder if it does not exist. Raises: `UnwritableOutput`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Writing is tried: modes do not tell about read-only disks, quotas and access lists.
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _to_unwritable(folder, error) from None


def require_file(path: Path) -> None:
    """Check that a file can be written later, without creating it. Raises: `UnwritableOutput`."""
    if path.is_dir():
        raise UnwritableOutput(f"{path} is a folder", hint="name a file")
    require_folder(path.parent)


def write_text(path: Path, text: str) -> None:
    """Write a text file. Raises: `UnwritableOutput`."""
    try:
        path.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise _to_unwritable(path, error) from None


def _to_unwritable(path: Path, error: OSError) -> UnwritableOutput:
    return UnwritableOutput(f"{path}: {error.strerror}", hint="name a path that you can write")
