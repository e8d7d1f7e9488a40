"""Commands whose parameters are data, such as the fields of a schema, and the request bodies that their options mean."""

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import typer

from mosaico.core.console.files import read_object
from mosaico.core.console.table import JSON
from mosaico.core.console.terminal import Command, Format, OutputFormat, WrongUsage
from mosaico.core.errors import AppError

Values = Mapping[str, Any]
# The names that lead from the body to a field.
FieldPath = tuple[str, ...]


class CommandParameter(NamedTuple):
    """A parameter of a generated command: `Annotated[type, typer.Option(…)]` and its default."""

    name: str
    annotation: Any
    default: Any = None


class FieldOption(NamedTuple):
    """The overrides of an option that is generated from a schema field.

    `name` is the option (`--dataset`) or, for an argument, its metavar (`NAME`). `type` is the type
    of one value on the command line; `parse` turns it into the JSON value of the field, for a list
    into one element of it. `ids_of` is the list of the API whose IDs the shell completes. The
    fields of an object that `is_flattened` are options of their own.
    """

    name: str | None = None
    help: str | None = None
    metavar: str | None = None
    type: Any = None
    parse: Callable[[Any], Any] | None = None
    ids_of: str | None = None
    is_argument: bool = False
    is_flattened: bool = False


class SchemaOption(NamedTuple):
    """A field of a request schema, and the parameter of the command that gives it.

    `path` has more than one name for a field of a nested object; `label` names the field in --clear, `option` on the
    command line; `empty_value` is what --clear sets it to.
    """

    path: FieldPath
    label: str
    option: str
    parameter: CommandParameter
    parse: Callable[[Any], Any]
    is_clearable: bool
    empty_value: Any


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


def read_body(values: Values, fields: Sequence[SchemaOption]) -> JSON:
    """The request body: the fields of --file, overridden by the options that are given."""
    body = read_object(Path(values["file"])) if values["file"] else {}
    for field in fields:
        value = values[field.parameter.name]
        if value is not None:
            _set_field(body, field.path, _parse(field, value))
    return body


def clear_fields(body: JSON, values: Values, fields: Sequence[SchemaOption]) -> None:
    """Set the fields that --clear names to null, or to an empty list. Raises: `WrongUsage`."""
    clearable = {field.label: field for field in fields if field.is_clearable}
    for name in values.get("clear") or ():
        if name not in clearable:
            raise WrongUsage(
                f"--clear {name}: there is no such optional field",
                hint=f"choose from {', '.join(clearable)}",
            )
        _set_field(body, clearable[name].path, clearable[name].empty_value)


def _parse(field: SchemaOption, value: Any) -> Any:
    """The JSON value of an option. Raises: `AppError` that names the option."""
    try:
        return field.parse(value)
    except AppError as error:
        if field.option not in error.detail:
            error.detail = f"{field.option}: {error.detail}"
        raise


def _set_field(body: JSON, path: Sequence[str], value: Any) -> None:
    *parents, name = path
    for parent in parents:
        body = body.setdefault(parent, {})
    body[name] = value
