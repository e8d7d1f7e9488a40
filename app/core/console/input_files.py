"""Files that a command reads: JSON bodies, secrets, uploads; `-` is standard input."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from app.core.errors import AppError

PIECE = 256 * 1024


class NoInput(AppError):
    """A file that was named cannot be read; name one that can."""

    code = "no-input"
    status = 400
    exit_code = 2


class BadInput(AppError):
    """A file that was named does not hold what is asked for."""

    code = "bad-input"
    status = 400
    exit_code = 65


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The file for reading; raises `NoInput`."""
    if str(path) == "-":
        yield sys.stdin.buffer
        return
    try:
        file = path.open("rb")
    except OSError as error:
        raise NoInput(
            f"{path}: {error.strerror}", hint="name a file that can be read, or - for stdin"
        ) from None
    with file:
        yield file


def read_object(path: Path) -> dict[str, Any]:
    """One JSON object; raises `BadInput` with line and column."""
    with opened(path) as file:
        text = file.read()
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadInput(
            f"{path}:{error.lineno}:{error.colno}: {error.msg}", hint="mend the JSON there"
        ) from None
    except (UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"{path} is not JSON: {error}", hint="write it as UTF-8 JSON") from None
    if not isinstance(document, dict):
        raise BadInput(f"{path} holds no JSON object", hint='write it as {"name": …}')
    return document


def read_secret(path: Path) -> str:
    """The text of a file without the line break at its end."""
    with opened(path) as file:
        raw = file.read()
    try:
        return raw.decode().strip()
    except UnicodeDecodeError:
        raise BadInput(f"{path} holds no text", hint="put the secret alone into it") from None


def pieces(file: BinaryIO) -> Iterator[bytes]:
    """The bytes of a file, a little at a time."""
    while piece := file.read(PIECE):
        yield piece
