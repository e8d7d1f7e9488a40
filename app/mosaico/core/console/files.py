"""The files that commands read and write."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from shutil import copymode
from tempfile import TemporaryFile
from typing import IO, Any, BinaryIO

from mosaico.core.errors import AppError, BadUsage
from mosaico.core.strict_json import parse_finite_json

CHUNK_BYTES = 256 * 1024


class UnreadableInput(BadUsage):
    """An input file cannot be read; name an existing file that you can read."""


class InvalidInput(AppError):
    """An input file has unexpected content; correct the file as described in the message."""

    status = 400
    exit_code = 65


@contextmanager
def open_input(path: Path) -> Iterator[BinaryIO]:
    """The file, open for reading. Raises: `UnreadableInput`."""
    # Not closed: standard input belongs to the process.
    if str(path) == "-":
        yield sys.stdin.buffer
        return
    try:
        file = path.open("rb")
    except OSError as error:
        raise UnreadableInput(
            f"{path}: {error.strerror}", hint="name a file that you can read, or - for stdin"
        ) from None
    with file:
        yield file


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file. Raises: `InvalidInput` with line and column."""
    with open_input(path) as file:
        text = file.read()
    try:
        document = parse_finite_json(text)
    except json.JSONDecodeError as error:
        raise InvalidInput(
            f"{path}:{error.lineno}:{error.colno}: {error.msg}", hint="correct the JSON there"
        ) from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"{path} is not valid JSON: {error}", hint="write it as UTF-8 JSON"
        ) from None
    if not isinstance(document, dict):
        raise InvalidInput(f"{path} is not a JSON object", hint='write it as {"name": …}')
    return document


def read_secret(path: Path) -> str:
    """The text of a file without surrounding white space. Raises: `InvalidInput`."""
    with open_input(path) as file:
        content = file.read()
    try:
        return content.decode().strip()
    except UnicodeDecodeError:
        raise InvalidInput(
            f"{path} is not UTF-8 text", hint="write only the secret into the file"
        ) from None


def iter_chunks(file: IO[bytes]) -> Iterator[bytes]:
    """The content of a file in chunks, so that a large file is never in memory as a whole."""
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


class UnwritableOutput(BadUsage):
    """An output file or folder cannot be written; name another path."""


def require_folder(folder: Path) -> None:
    """Create the folder if it does not exist. Raises: `UnwritableOutput`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Writing is tried: file modes do not show read-only disks, quotas and access lists.
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
    """Write a text file atomically: readers see the old content or the new one.

    A new file gets the mode of the umask, an existing file keeps its mode. Raises: `UnwritableOutput`.
    """
    with replaced_file(path) as draft:
        draft.write_text(text, encoding="utf-8", errors="replace")


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """The path to write to; without an error the file is replaced atomically as in `write_text`.

    Raises: `UnwritableOutput`.
    """
    try:
        if path.exists() and not path.is_file():  # /dev/stdout must not be replaced
            yield path
        else:
            with _draft_of(path.resolve()) as draft:
                yield draft
    except OSError as error:
        raise _to_unwritable(path, error) from None


@contextmanager
def _draft_of(path: Path) -> Iterator[Path]:
    # In the same folder: a rename is atomic only within one file system. Not a temporary file of
    # the standard library, which only its owner could read.
    draft = path.with_name(f".{path.name[:100]}.{token_hex(8)}")
    draft.touch(exist_ok=False)
    try:
        yield draft
        if path.exists():
            copymode(path, draft)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _to_unwritable(path: Path, error: OSError) -> UnwritableOutput:
    # The current folder has a name only in full.
    full_path = path.resolve() if path == Path() else path
    return UnwritableOutput(f"{full_path}: {error.strerror}", hint="name a path that you can write")
