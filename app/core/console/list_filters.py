"""Options of list commands: filters by IDs, values of an enumeration, texts and flags."""

from enum import Enum
from typing import Annotated, Any

import typer

from app.core.console.service import complete_ids

# The end of the help of an option that may be given several times.
REPEAT = "Repeatable."


def id_option(noun: str, path: str) -> Any:
    """The option that filters a list by IDs of another resource, in `Annotated[list[str] | None, …]`."""
    help_text = f"Filter by {noun} ID. {REPEAT}"
    return typer.Option(f"--{noun}", help=help_text, autocompletion=complete_ids(path))


def id_filter(noun: str, path: str) -> Any:
    """An option of a list command that filters by IDs of another resource."""
    return Annotated[list[str] | None, id_option(noun, path)]


def choice_filter(option: str, choices: type[Enum], help_text: str) -> Any:
    """An option of a list command that filters by some of a few values."""
    typer_option = typer.Option(option, case_sensitive=False, help=f"{help_text} {REPEAT}")
    return Annotated[list[choices] | None, typer_option]  # type: ignore[valid-type]


def text_filter(option: str, help_text: str, *, ids_of: str | None = None) -> Any:
    """An option of a list command that filters by a text; the shell completes the IDs of a list."""
    completion = complete_ids(ids_of) if ids_of else None
    return Annotated[str | None, typer.Option(option, help=help_text, autocompletion=completion)]


def flag_filter(option: str, help_text: str) -> Any:
    """A flag of a list command."""
    return Annotated[bool | None, typer.Option(option, help=help_text)]
