"""Names of parameters in messages, which depend on the interface that the user has."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum, auto
from typing import Final


class UserInterface(Enum):
    """The interface that shows the messages, and through which parameters are set."""

    COMMAND = auto()
    PYTHON = auto()
    UPLOAD_FORM = auto()
    SERVICE = auto()


# The names that cannot be derived from the option.
_READ_OPTIONS: Final = (
    "--expected",
    "--labels",
    "--infra-error",
    "--encoding",
    "--sheet",
    "--strict",
    "--strip-thinking",
)
_NAMES: Final = {
    UserInterface.PYTHON: {
        "--map": "columns",
        "--kpi": "kpis",
        "--all": "all_metrics=True",
        **{
            option: f"ReadOptions.{option.removeprefix('--').replace('-', '_')}"
            for option in _READ_OPTIONS
        },
    },
    UserInterface.UPLOAD_FORM: {
        "--map": "the field Columns",
        "--expected": "the field Several expected answers:",
        "--labels": "the field Labels:",
        "--infra-error": "the field Errors that are not the agent's:",
        "--encoding": "the field Encoding",
        "--sheet": "the field Sheet",
        "--strip-thinking": "a field of the form",
        # The form has no field for it.
        "--strict": "`mosaico datasets upload` with --strict",
    },
    # The service reads this file itself: no parameter can name its columns.
    UserInterface.SERVICE: {"--map": "its name in the file"},
}
_interface: ContextVar[UserInterface] = ContextVar("interface", default=UserInterface.COMMAND)


@contextmanager
def messages_for(interface: UserInterface) -> Iterator[None]:
    """Messages name parameters as in this interface; also a decorator."""
    token = _interface.set(interface)
    try:
        yield
    finally:
        _interface.reset(token)


def current_interface() -> UserInterface:
    """The interface whose names messages have here; a child process needs it."""
    return _interface.get()


def parameter_name(option: str) -> str:
    """`--max-drop` on the command line, `max_drop` in Python."""
    interface = _interface.get()
    if interface is UserInterface.COMMAND:
        return option
    return _NAMES[interface].get(option, option.removeprefix("--").replace("-", "_"))


def better_score(name: str, better: str) -> str:
    """`--better tone=higher`, or its equivalent in another interface."""
    match _interface.get():
        case UserInterface.COMMAND:
            return f"--better {shlex.quote(f'{name}={better}')}"
        case UserInterface.PYTHON:
            return f"better={ {name: better}!r}"
        case _:
            return f"the option better={better} of the score"


def score_range(name: str) -> str:
    """`--range tone=0..1`, or its equivalent in another interface."""
    match _interface.get():
        case UserInterface.COMMAND:
            return f"--range {shlex.quote(f'{name}=0..1')}"
        case UserInterface.PYTHON:
            return f"ranges={ {name: '0..1'}!r}"
        case _:
            return "the option range of the score, such as 0..1"


def directed_kpi(name: str, formula: str, better: str) -> str:
    """`--kpi 'mix=A + B higher'`, or its equivalent in another interface."""
    match _interface.get():
        case UserInterface.COMMAND:
            return f"--kpi {shlex.quote(f'{name}={formula} {better}')}"
        case UserInterface.PYTHON:
            return f"kpis={ {name: f'{formula} {better}'}!r}"
        case _:
            return f"the direction {better.upper()}_IS_BETTER of the KPI"


def mapped_column(field: str, column: str) -> str:
    """`--map output=answer`, or its equivalent in another interface."""
    match _interface.get():
        case UserInterface.COMMAND:
            return f"--map {shlex.quote(f'{field}={column}')}"
        case UserInterface.PYTHON:
            return f"{parameter_name('--map')}={ {field: column}!r}"
        case UserInterface.UPLOAD_FORM:
            return f"{field}={column} in {parameter_name('--map')}"
        case UserInterface.SERVICE:
            return f"{field} as {parameter_name('--map')}"
