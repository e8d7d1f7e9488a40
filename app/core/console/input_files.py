"""Files that a command reads: JSON bodies, secrets and uploads; `-` is standard input."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

from app.core.errors import AppError
from app.core.strict_json import parse_finite_json

CHUNK_BYTES = 256 * 1024


class UnreadableInput(AppError):
    """An input file cannot be read; name an existing file that you can read."""

    code = "unreadable-input"
    status = 400
    exit_code = 2


class InvalidInput(AppError):
    """An input file has unexpected content; correct the file as described in the message."""

    code = "invalid-input"
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
