"""The fields of a request body as a form types them: read from the JSON schema of its model."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from mosaico.core.web.form_words import words_of

LONG_TEXT_CHARS: Final = 4000
SCALARS: Final = frozenset({"string", "number", "integer", "boolean"})

Choices: TypeAlias = Sequence[tuple[str, str]]
"""The values of a select, each with its text."""

_Node: TypeAlias = Mapping[str, Any]


class InputKind(StrEnum):
    """The kind of a form input, which decides the conversion of its text to a value.

    `TEXT_PAIRS` and `OPTIONS` have one `name=value` per line; the values of options may be numbers
    and flags. A `GROUP` is an object with an input for each of its fields; `ROWS` are a list of
    such objects.
    """

    TEXT = "text"
    LONG_TEXT = "textarea"
    NUMBER = "number"
    FLAG = "checkbox"
    CHOICE = "select"
    CHOICES = "choices"
    LINES = "lines"
    TEXT_PAIRS = "pairs"
    OPTIONS = "options"
    SECRET = "password"  # noqa: S105 - a kind of input
    INSTANT = "datetime-local"
    JSON = "json"
    GROUP = "group"
    ROWS = "rows"


KINDS: Final = MappingProxyType(
    {"boolean": InputKind.FLAG, "integer": InputKind.NUMBER, "number": InputKind.NUMBER}
)


class FieldSchema(NamedTuple):
    """A field: `members` are the fields of a group or of a row.

    `models` are the names of the models that have the field, where an object can be of several; empty
    where all of them have it.
    """

    kind: InputKind
    is_nullable: bool = False
    is_required: bool = False
    default: Any = None
    description: str | None = None
    choices: Choices = ()
    members: Mapping[str, "FieldSchema"] = MappingProxyType({})
    models: tuple[str, ...] = ()


@cache
def read_schema(model: type[BaseModel]) -> dict[str, FieldSchema]:
    """The fields of a body by their names in the API."""
    document = model.model_json_schema(by_alias=True)
    defaults = {
        info.alias or name: info.get_default(call_default_factory=True, validated_data={})
        for name, info in model.model_fields.items()
        if not info.is_required()
    }
    return {
        name: field._replace(default=to_jsonable_python(defaults.get(name)))
        for name, field in _read_members([document], document.get("$defs", {})).items()
    }


def _read_members(objects: Sequence[_Node], definitions: _Node) -> dict[str, FieldSchema]:
    """The fields of an object, or of an object that is of one of several models."""
    members: dict[str, FieldSchema] = {}
    owners: dict[str, list[str]] = {}
    for node in objects:
        required = node.get("required", ())
        for name, property_node in node["properties"].items():
            field = _read_field(property_node, definitions)._replace(is_required=name in required)
            if name in members:
                choices = dict([*members[name].choices, *field.choices])
                field = members[name]._replace(choices=list(choices.items()))
            members[name] = field
            owners.setdefault(name, []).append(node.get("title", ""))
    return {
        name: field._replace(models=tuple(owners[name]) if len(owners[name]) < len(objects) else ())
        for name, field in members.items()
    }


def _read_field(node: _Node, definitions: _Node) -> FieldSchema:
    variants = list(_resolve(node, definitions))
    types = [variant for variant in variants if variant.get("type") != "null"]
    kind = _kind_of(types, definitions)
    objects: Iterable[_Node] = ()
    if kind is InputKind.GROUP:
        objects = types
    elif kind is InputKind.ROWS:
        objects = _resolve(types[0]["items"], definitions)
    return FieldSchema(
        kind=kind,
        is_nullable=len(types) < len(variants),
        default=node.get("default"),
        # A page shows plain text; the Markdown marks are for Swagger UI.
        description=node.get("description", "").replace("`", "") or None,
        choices=[(value, words_of(value)) for variant in types for value in _values_of(variant)],
        members=_read_members(list(objects), definitions) if objects else {},
    )


def _values_of(node: _Node) -> Sequence[str]:
    if "const" in node:
        return [node["const"]]
    values: Sequence[str] = node.get("enum", ())
    return values


def _resolve(node: _Node, definitions: _Node) -> Iterable[_Node]:
    """The types that a value can have."""
    for variant in node.get("anyOf") or node.get("oneOf") or [node]:
        reference = variant.get("$ref")
        yield definitions[reference.rpartition("/")[2]] if reference else variant


def _kind_of(types: Sequence[_Node], definitions: _Node) -> InputKind:
    """The input of a value of one of these types; JSON where no other fits."""
    if types and all("properties" in node for node in types):
        return InputKind.GROUP
    if len(types) > 1:
        is_text = any(node.get("type") == "string" for node in types)
        return InputKind.TEXT if is_text else InputKind.JSON
    [node] = types
    match node.get("type"):
        case "string":
            return InputKind.CHOICE if _values_of(node) else _kind_of_text(node)
        case "array":
            return _kind_of_list(node, definitions)
        case "object":
            return _kind_of_mapping(node, definitions)
    return KINDS.get(node.get("type", ""), InputKind.JSON)


def _kind_of_text(node: _Node) -> InputKind:
    text_format = node.get("format", "")
    is_long = (
        node.get("maxLength", LONG_TEXT_CHARS) > LONG_TEXT_CHARS
        and not text_format
        and "pattern" not in node
    )
    formats = {"password": InputKind.SECRET, "date-time": InputKind.INSTANT}
    return formats.get(text_format, InputKind.LONG_TEXT if is_long else InputKind.TEXT)


def _kind_of_list(node: _Node, definitions: _Node) -> InputKind:
    if node["items"].get("type") == "string":
        return InputKind.LINES
    is_objects = all("properties" in item for item in _resolve(node["items"], definitions))
    return InputKind.ROWS if is_objects else InputKind.JSON


def _kind_of_mapping(node: _Node, definitions: _Node) -> InputKind:
    values = node.get("additionalProperties")
    if not isinstance(values, Mapping):
        return InputKind.JSON
    names = {value.get("type") for value in _resolve(values, definitions)}
    if not names <= SCALARS:
        return InputKind.JSON
    return InputKind.TEXT_PAIRS if names == {"string"} else InputKind.OPTIONS
