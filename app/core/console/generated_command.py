"""Commands whose parameters are data, such as the fields of a schema."""

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import typer

from app.core.console.terminal import Command, Format, OutputFormat

Values = Mapping[str, Any]


class CommandParameter(NamedTuple):
    """A parameter of a generated command: `Annotated[type, typer.Option(…)]` and its default."""

    name: str
    annotation: Any
    default: Any = None


class GeneratedFunction:
    """A function whose signature is data: typer reads it like that of a written function."""

    def __init__(
        self, name: str, run: Callable[[Values], None], parameters: Sequence[CommandParameter]
    ) -> None:
        # typer reads the name, the annotations and the signature of a function separately.
        self.__name__ = name
        self.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        self.__signature__ = inspect.Signature(
            [
                inspect.Parameter(
                    parameter.name,
                    inspect.Parameter.KEYWORD_ONLY,
                    annotation=parameter.annotation,
                    default=inspect.Parameter.empty
                    if parameter.default is ...
                    else parameter.default,
                )
                for parameter in parameters
            ]
        )
        self._run = run

    def __call__(self, **values: Any) -> None:
        self._run(values)


OUTPUT = CommandParameter("output", Format, OutputFormat.TABLE)


def build_command(
    name: str,
    run: Callable[[Values], None],
    parameters: Sequence[CommandParameter],
    help_text: str,
) -> Any:
    """A command outside of any group."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(name, cls=Command, help=help_text)(GeneratedFunction(name, run, parameters))
    return typer.main.get_command(app)


def indefinite(noun: str) -> str:
    """The noun with its indefinite article."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def import_object(location: str) -> Any:
    """The object at `module:attribute`."""
    module, _, attribute = location.partition(":")
    return getattr(importlib.import_module(module), attribute)
