"""How messages name the parameters of a computation: each reader gets the words of where he stands."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum, auto
from typing import Final


class Caller(Enum):
    """Who reads the messages: who can set parameters, and how."""

    COMMAND = auto()
    PYTHON = auto()
    UPLOAD_FORM = auto()
    SERVICE = auto()


# Those whose name is not made from that of the option.
_NAMES: Final = {
    Caller.PYTHON: {"--map": "columns", "--kpi": "kpis"},
    Caller.UPLOAD_FORM: {"--map": "the field Columns"},
    # Nobody can name the columns of a file that the service reads.
    Caller.SERVICE: {"--map": "its name in the file"},
}
_caller: ContextVar[Caller] = ContextVar("caller", default=Caller.COMMAND)


@contextmanager
def messages_for(caller: Caller) -> Iterator[None]:
    """Messages name parameters as this caller knows them; also a decorator."""
    token = _caller.set(caller)
    try:
        yield
    finally:
        _caller.reset(token)


def parameter_name(option: str) -> str:
    """`--max-drop` as it is, or `max_drop` for a caller in Python."""
    caller = _caller.get()
    if caller is Caller.COMMAND:
        return option
    return _NAMES[caller].get(option, option.removeprefix("--").replace("-", "_"))


def mapped_column(field: str, column: str) -> str:
    """`--map output=answer`, or what has the same effect for another caller."""
    match _caller.get():
        case Caller.COMMAND:
            return f"--map {field}={column}"
        case Caller.PYTHON:
            return f"{parameter_name('--map')}={ {field: column}!r}"
        case Caller.UPLOAD_FORM:
            return f"{field}={column} in {parameter_name('--map')}"
        case Caller.SERVICE:
            return f"{field} as {parameter_name('--map')}"
