"""The request bodies of create and update commands, from their options and --file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.core.console.files import read_object
from app.core.console.generated_command import SchemaOption, Values
from app.core.console.terminal import WrongUsage
from app.core.errors import AppError

JSON = dict[str, Any]


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
