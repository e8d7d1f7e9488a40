"""Forms from the schemas of the API: their inputs, and the body that a sent form means.

Names, types, choices and defaults of the inputs are those of the JSON schema: a new field of a schema is a
new input, without any change here or in the pages of its domain.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple, TypeAlias

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from app.core.errors import Invalid
from app.core.strict_json import parse_json
from app.core.web.forms import FormFields, number_or_text

LONG_TEXT_CHARS = 4000
# Names that read badly as words.
LABELS: Mapping[str, str] = {"id": "ID"}

Choices: TypeAlias = Sequence[tuple[str, str]]
"""The values of a select, each with its text."""


class InputKind(StrEnum):
    """How a field is typed, and how its text becomes a value."""

    TEXT = "text"
    LONG_TEXT = "textarea"
    NUMBER = "number"
    FLAG = "checkbox"
    CHOICE = "select"
    CHOICES = "choices"
    LINES = "lines"
    SECRET = "password"  # noqa: S105 - a kind of input
    INSTANT = "datetime-local"
    JSON = "json"


class FieldInput(NamedTuple):
    """How an input differs from the one that is generated for the field of a schema.

    `read_line` and `write_line` convert one line of a list.
    """

    label: str | None = None
    help: str | None = None
    kind: InputKind | None = None
    read_line: Callable[[str], Any] = str
    write_line: Callable[[Any], str] = str


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaForm:
    """A form: the schemas of its bodies, and its inputs.

    `main` are the inputs that are always visible, in their order; the others are below "More options",
    except `hidden` ones. `patch` is the body of an edit; None when the resource is never edited. `name_in`
    is the object whose `name` is an input of its own.
    """

    create: type[BaseModel]
    patch: type[BaseModel] | None = None
    main: tuple[str, ...]
    hidden: frozenset[str] = frozenset()
    name_in: str | None = None
    inputs: Mapping[str, FieldInput] = field(default_factory=dict)

    def body(self, *, is_edit: bool) -> type[BaseModel]:
        """The schema that checks what the form sends."""
        return self.patch if is_edit and self.patch is not None else self.create


class FormInput(NamedTuple):
    """An input as a page shows it; `value` is a text, for a flag a bool, for choices a list."""

    name: str
    label: str
    kind: InputKind
    value: Any
    help: str | None
    error: str | None
    is_required: bool
    is_main: bool
    choices: Choices


def _choices(schema: "_FieldSchema", kind: InputKind, choices: Choices) -> Choices:
    """The choices of a field; a single one that may be missing can be left to its default."""
    if kind is InputKind.CHOICE and schema.is_nullable:
        return [("", "default"), *choices]
    return choices


class ReadForm(NamedTuple):
    """The body that a form means, by the names of the API, and the errors of unreadable texts."""

    document: dict[str, Any]
    errors: dict[str, str]


def list_inputs(
    form: SchemaForm,
    values: Mapping[str, Any],
    *,
    is_edit: bool,
    errors: Mapping[str, str],
    choices: Mapping[str, Choices],
) -> list[FormInput]:
    """The inputs of a form, the main ones first; a field without a value has its default."""
    if form.name_in is not None:
        document = dict(values.get(form.name_in) or {})
        values = {"name": document.pop("name", None), **values, form.name_in: document}
    return [
        FormInput(
            name=name,
            label=_label(name, override),
            kind=kind,
            value=write_value(kind, values.get(name, schema.default), override),
            help=override.help or schema.description,
            error=errors.get(name),
            is_required=schema.is_required,
            is_main=name in form.main,
            choices=_choices(schema, kind, choices.get(name, schema.choices)),
        )
        for name, schema, override, kind in _iter_fields(form, is_edit=is_edit, choices=choices)
    ]


def read_form_body(
    form: SchemaForm, sent: FormFields, *, is_edit: bool, choices: Mapping[str, Choices]
) -> ReadForm:
    """Read the fields that a form sent.

    An empty field is null where the schema allows it; a new resource gets the default instead. An empty
    secret is left out: the stored one stays.
    """
    document: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for name, schema, override, kind in _iter_fields(form, is_edit=is_edit, choices=choices):
        text = sent.text(name)
        if kind is InputKind.FLAG:
            document[name] = name in sent
        elif kind is InputKind.CHOICES:
            document[name] = sent.texts(name)
        elif text:
            try:
                document[name] = _read_text(kind, text, override)
            except ValueError as error:
                document[name], errors[name] = text, str(error)
        elif kind is InputKind.LINES:
            document[name] = []
        elif schema.is_nullable and kind is not InputKind.SECRET:
            document[name] = None
        elif schema.is_required or (is_edit and kind is not InputKind.SECRET):
            document[name] = ""
    _nest_name(form, document)
    return ReadForm(document, errors)


def _nest_name(form: SchemaForm, document: dict[str, Any]) -> None:
    """Move the display name into the object that has it."""
    if form.name_in is not None:
        name, named = document.pop("name"), document.get(form.name_in) or {}
        # What is no object is refused by the schema.
        if isinstance(named, dict):
            document[form.name_in] = {**named, "name": name} if name else named


def write_value(kind: InputKind, value: Any, override: FieldInput) -> Any:
    """A value of the API as the input shows it. A secret is never shown."""
    match kind:
        case InputKind.SECRET:
            return ""
        case InputKind.FLAG:
            return bool(value)
        case InputKind.CHOICES:
            return list(value or ())
        case InputKind.INSTANT:
            return str(value or "")[:16]  # a browser reads no zone: the label names it
    # What was typed is shown again as it is, also where it is no list or number.
    return value if isinstance(value, str) else _write_text(kind, value, override)


def _write_text(kind: InputKind, value: Any, override: FieldInput) -> str:
    if not value and not isinstance(value, int | float):
        return ""
    if kind is InputKind.LINES:
        return "\n".join(override.write_line(line) for line in value)
    if kind is InputKind.JSON:
        return json.dumps(value, indent=1, ensure_ascii=False)
    return f"{value:g}" if isinstance(value, float) else str(value)


class _FieldSchema(NamedTuple):
    kind: InputKind
    is_nullable: bool
    is_required: bool
    default: Any
    description: str | None
    choices: Choices


_DISPLAY_NAME = _FieldSchema(
    InputKind.TEXT, is_nullable=True, is_required=False, default=None, description=None, choices=()
)


def _iter_fields(
    form: SchemaForm, *, is_edit: bool, choices: Mapping[str, Choices]
) -> Iterator[tuple[str, _FieldSchema, FieldInput, InputKind]]:
    schemas = _read_schema(form.create)
    if form.name_in is not None:
        schemas = {"name": _DISPLAY_NAME, **schemas}
    hidden = form.hidden | {"id"} if is_edit else form.hidden
    others = [name for name in schemas if name not in form.main]
    for name in (*form.main, *others):
        if name not in hidden:
            override = form.inputs.get(name, FieldInput())
            kind = override.kind or schemas[name].kind
            if name in choices:
                kind = InputKind.CHOICES if kind is InputKind.LINES else InputKind.CHOICE
            yield name, schemas[name], override, kind


@cache
def _read_schema(model: type[BaseModel]) -> dict[str, _FieldSchema]:
    """The fields of a body by their names in the API."""
    document = model.model_json_schema(by_alias=True)
    definitions = document.get("$defs", {})
    required = set(document.get("required", ()))
    defaults = {
        info.alias or name: info.get_default(call_default_factory=True, validated_data={})
        for name, info in model.model_fields.items()
        if not info.is_required()
    }
    return {
        name: _read_field(node, definitions, to_jsonable_python(defaults.get(name)))._replace(
            is_required=name in required
        )
        for name, node in document["properties"].items()
    }


def _read_field(
    node: Mapping[str, Any], definitions: Mapping[str, Any], default: Any
) -> _FieldSchema:
    members = [_resolve(member, definitions) for member in node.get("anyOf", [node])]
    types = [member for member in members if member.get("type") != "null"]
    return _FieldSchema(
        kind=_kind_of(types),
        is_nullable=len(types) < len(members),
        is_required=False,
        default=default,
        description=node.get("description"),
        choices=[(value, _words(value)) for member in types for value in member.get("enum", ())],
    )


def _resolve(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = node.get("$ref")
    return definitions[reference.rpartition("/")[2]] if reference else node


def _kind_of(types: Sequence[Mapping[str, Any]]) -> InputKind:
    """The input of a type; what is neither a scalar nor a list of texts is typed as JSON."""
    names = {schema.get("type") for schema in types}
    if len(types) > 1:
        return InputKind.TEXT if "string" in names else InputKind.JSON
    [schema] = types
    if "enum" in schema:
        return InputKind.CHOICE
    if names == {"string"}:
        formats = {"password": InputKind.SECRET, "date-time": InputKind.INSTANT}
        is_long = schema.get("maxLength", 0) > LONG_TEXT_CHARS and "format" not in schema
        return formats.get(
            schema.get("format", ""), InputKind.LONG_TEXT if is_long else InputKind.TEXT
        )
    if names == {"array"} and schema["items"].get("type") == "string":
        return InputKind.LINES
    kinds = {
        "boolean": InputKind.FLAG,
        "integer": InputKind.NUMBER,
        "number": InputKind.NUMBER,
    }
    return kinds.get(schema.get("type", ""), InputKind.JSON)


def _read_text(kind: InputKind, text: str, override: FieldInput) -> Any:
    """The value of a text that is not empty. Raises: `ValueError` with a message for the reader."""
    if kind is InputKind.LINES:
        return [override.read_line(line.strip()) for line in text.splitlines() if line.strip()]
    if kind is InputKind.NUMBER:
        return int(text) if text.lstrip("-").isdecimal() else number_or_text(text)
    if kind is InputKind.INSTANT:
        # Without an offset the browser means UTC, which the label of the input says.
        instant = datetime.fromisoformat(text)
        return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).isoformat()
    if kind is InputKind.JSON:
        try:
            return parse_json(text)
        except Invalid as error:
            raise ValueError(f"is not valid JSON: {error.detail}") from None
    return text


def _label(name: str, override: FieldInput) -> str:
    return override.label or LABELS.get(name) or _words(name)


def _words(name: str) -> str:
    """`minCoverage` as "Min coverage", `FIRE_ONCE` as "Fire once"."""
    if name.isupper():
        text = name.replace("_", " ").lower()
    else:
        text = "".join(f" {char.lower()}" if char.isupper() else char for char in name)
    return text[:1].upper() + text[1:]
