"""How messages name the parameters of a computation: options of a command, or parameters in Python."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

# Those whose Python name is not that of the option.
_PYTHON_NAMES: Final = {"--map": "columns", "--kpi": "kpis"}
_in_python: ContextVar[bool] = ContextVar("in_python", default=False)


@contextmanager
def python_parameters() -> Iterator[None]:
    """Messages name parameters of Python functions; also a decorator."""
    token = _in_python.set(True)
    try:
        yield
    finally:
        _in_python.reset(token)


def parameter_name(option: str) -> str:
    """`--max-drop` as it is, or `max_drop` for a caller in Python."""
    if not _in_python.get():
        return option
    return _PYTHON_NAMES.get(option, option.removeprefix("--").replace("-", "_"))


def mapped_column(field: str, column: str) -> str:
    """`--map output=answer`, or `columns={'output': 'answer'}` for a caller in Python."""
    if not _in_python.get():
        return f"--map {field}={column}"
    return f"{parameter_name('--map')}={ {field: column}!r}"
