"""Command line options from the fields of a request schema.

Imports pydantic: only `create` and `update` commands import this module, when they are used.
"""

import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import typer
from pydantic import AwareDatetime, BaseModel, SecretStr
from pydantic.fields import FieldInfo

from mosaico.core.console.error_messages import FIELD_PREFIX
from mosaico.core.console.files import read_secret
from mosaico.core.console.generated_command import (
    CommandParameter,
    FieldOption,
    FieldPath,
    SchemaOption,
)
from mosaico.core.console.service import complete_ids
from mosaico.core.console.terminal import WrongUsage
from mosaico.core.strict_json import parse_finite_json

# Help of fields that mean the same for every resource.
COMMON_HELP: Mapping[str, str] = {
    "id": "ID of the new {noun} (default: generated).",
    "name": "Display name of the {noun}.",
    "description": "Description of the {noun}.",
    "archived": "Hide the {noun} from lists.",
    "enabled": "Whether the {noun} is active.",
}
# Fields that name another resource by its ID: the list of the API that has these IDs.
ID_LISTS: Mapping[str, str] = {
    "agentId": "/agents",
    "benchmarkId": "/benchmarks",
    "alertConfigId": "/alert-configs",
}

SCALARS = (str, int, float, bool)


class OptionType(NamedTuple):
    """The option of a field: type of one value, parser, and whether it repeats or names a file."""

    type: Any
    parse: Callable[[Any], Any]
    metavar: str | None = None
    is_list: bool = False
    is_file: bool = False


def create_options(
    schema: type[BaseModel], noun: str, overrides: Mapping[str, FieldOption]
) -> list[SchemaOption]:
    """The options of a create command, with the defaults of the schema in their help texts."""
    fields = list(_list_fields(schema, overrides))
    unknown = overrides.keys() - {name for path, _ in fields for name in path}
    assert not unknown, f"{schema.__name__} has no field {', '.join(sorted(unknown))}"
    return [
        _to_option(
            path, field, noun, overrides.get(path[-1], FieldOption()), _format_default(field)
        )
        for path, field in fields
    ]


def update_options(
    schema: type[BaseModel], noun: str, overrides: Mapping[str, FieldOption]
) -> list[SchemaOption]:
    """The options of an update command: a field without its option keeps its value."""
    return [
        _to_option(path, field, noun, overrides.get(path[-1], FieldOption()), "")
        for path, field in _list_fields(schema, overrides)
    ]


def clear_option(options: Sequence[SchemaOption]) -> list[CommandParameter]:
    """`--clear FIELD`, if the schema has lists or fields that may be null."""
    labels = [option.label for option in options if option.is_clearable]
    if not labels:
        return []
    option = typer.Option(
        "--clear",
        metavar="FIELD",
        help=f"Remove the value of a field; repeatable. One of: {', '.join(labels)}.",
        autocompletion=lambda: labels,
    )
    return [CommandParameter("clear", Annotated[list[str] | None, option])]


def option_type(annotation: Any) -> OptionType:
    """The command line form of a type of a schema; anything but scalars and lists is JSON text."""
    inner = _strip(annotation)
    if get_origin(inner) is list:
        return option_type(get_args(inner)[0])._replace(is_list=True)
    if inner is SecretStr:
        return OptionType(str, _read_secret, "FILE", is_file=True)
    if inner in (datetime, AwareDatetime):
        return OptionType(str, _identity, "TIME")
    if _is_scalar(inner):
        return OptionType(inner, _identity)
    if _is_union(inner) and str in map(_strip, get_args(inner)):
        return OptionType(str, _identity)
    return OptionType(str, parse_json, "JSON")


def parse_json(text: str) -> Any:
    """The JSON value of an option. Raises: `WrongUsage`."""
    try:
        return parse_finite_json(text)
    except (ValueError, RecursionError) as error:
        raise WrongUsage(
            f"{text!r} is not valid JSON: {error}", hint="quote it for the shell"
        ) from None


def _to_option(
    path: FieldPath, field: FieldInfo, noun: str, override: FieldOption, default: str
) -> SchemaOption:
    name = path[-1]
    derived = option_type(field.annotation)
    value_type = override.type or derived.type
    parse = override.parse or derived.parse
    option_name = override.name or _option_name(name, derived)
    # The most specific text wins; the words of the name are the last resort.
    text = override.help or field.description or COMMON_HELP.get(name) or f"{_words(name)}."
    settings: dict[str, Any] = {
        # Options have no null.
        "help": text.format(noun=noun).replace("Null: ", "Without a value: ")
        + (" Repeatable." if derived.is_list else "")
        + default,
        "metavar": override.metavar or derived.metavar,
    }
    ids_of = override.ids_of or ID_LISTS.get(name)
    if ids_of:
        settings["autocompletion"] = complete_ids(ids_of)
    if override.is_argument:
        info: Any = typer.Argument(**{**settings, "metavar": option_name})
    else:
        flag = "" if derived.type is not bool else f"/--no-{option_name.removeprefix('--')}"
        info = typer.Option(option_name + flag, case_sensitive=False, **settings)
    annotation = list[value_type] if derived.is_list else value_type  # type: ignore[valid-type] # the type is data
    return SchemaOption(
        path=path,
        label=option_name.lstrip("-").lower(),
        option=option_name,
        parameter=CommandParameter(
            FIELD_PREFIX + "_".join(path), Annotated[annotation | None, info]
        ),
        parse=(lambda values: [parse(value) for value in values]) if derived.is_list else parse,
        is_clearable=derived.is_list or _is_nullable(field.annotation),
        empty_value=[] if derived.is_list else None,
    )


def _list_fields(
    schema: type[BaseModel], overrides: Mapping[str, FieldOption]
) -> Iterator[tuple[FieldPath, FieldInfo]]:
    """The fields by their names on the wire; those of flattened objects take the object's place."""
    for attribute, field in schema.model_fields.items():
        name = field.alias or attribute
        if overrides.get(name, FieldOption()).is_flattened:
            nested = _list_fields(_strip(field.annotation), overrides)
            yield from (((name, *path), inner) for path, inner in nested)
        else:
            yield (name,), field


def _strip(annotation: Any) -> Any:
    """The type without `Annotated` and without `None`."""
    if get_origin(annotation) is Annotated:
        return _strip(get_args(annotation)[0])
    if _is_union(annotation):
        members = [member for member in get_args(annotation) if member is not types.NoneType]
        return _strip(members[0]) if len(members) == 1 else Union[tuple(members)]  # noqa: UP007 - members are data
    return annotation


def _is_nullable(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        return _is_nullable(get_args(annotation)[0])
    return types.NoneType in get_args(annotation)


def _option_name(name: str, derived: OptionType) -> str:
    """`agentId` is `--agent`, a list `channels` is `--channel`, a secret is read from a file."""
    stem = name.removesuffix("Id") or name
    if derived.is_list:
        stem = stem.removesuffix("s")
    words = "".join(f"-{char.lower()}" if char.isupper() else char for char in stem)
    return f"--{words}{'-file' if derived.is_file else ''}"


def _words(name: str) -> str:
    text = "".join(f" {char.lower()}" if char.isupper() else char for char in name)
    return text.capitalize()


def _format_default(field: FieldInfo) -> str:
    if field.is_required():
        return "  [required]"
    default = field.get_default(call_default_factory=True, validated_data={})
    if default in (None, [], {}) or isinstance(default, BaseModel):
        return ""
    # In lower case, as the help lists the choices of an enumeration.
    display_value: Any = default.value.lower() if isinstance(default, Enum) else default
    if isinstance(display_value, bool):
        display_value = "yes" if display_value else "no"
    if isinstance(display_value, list):
        display_value = ", ".join(
            str(getattr(element, "key", element)) for element in display_value
        )
    return f"  [default: {display_value}]"


def _is_scalar(annotation: Any) -> bool:
    """Return whether typer converts the text of an option to this type by itself."""
    is_enum = isinstance(annotation, type) and issubclass(annotation, Enum)
    return annotation in SCALARS or is_enum or get_origin(annotation) is Literal


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, types.UnionType)


def _identity(value: Any) -> Any:
    return value


def _read_secret(path: str) -> str:
    return read_secret(Path(path))
