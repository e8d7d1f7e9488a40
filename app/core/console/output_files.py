"""Places that results are written to, tried before anybody has paid for what goes there."""

from pathlib import Path
from tempfile import TemporaryFile

from app.core.errors import AppError


class NoOutput(AppError):
    """A place for results cannot be written; name another one."""

    code = "no-output"
    status = 400
    exit_code = 2


def require_folder(folder: Path) -> None:
    """Make the folder where there is none. Raises NoOutput when nothing can be put there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _refused(folder, error) from None


def require_file(path: Path) -> None:
    """The same for a file, which is not made yet."""
    if path.is_dir():
        raise NoOutput(f"{path} is a folder", hint="name a file")
    require_folder(path.parent)


def write_text(path: Path, text: str) -> None:
    """Write a file of text. Raises NoOutput."""
    try:
        path.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise _refused(path, error) from None


def _refused(path: Path, error: OSError) -> NoOutput:
    return NoOutput(f"{path}: {error.strerror}", hint="name a place that can be written")
