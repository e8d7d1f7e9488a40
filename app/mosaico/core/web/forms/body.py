"""Reads the body that a form from a schema means."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from mosaico.core.errors import Invalid
from mosaico.core.strict_json import parse_json
from mosaico.core.web.forms.fields import Choices, FieldSchema, InputKind
from mosaico.core.web.forms.local_times import read_local_time, zone_of
from mosaico.core.web.forms.rendering import REMOVE, FieldInput, SchemaForm, iter_fields, kind_of
from mosaico.core.web.forms.sent_fields import FormFields, number_or_text

# As many as a form can send; int() refuses thousands of digits.
_ROW_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,2}")


class ReadForm(NamedTuple):
    """The body that a form means, by the names of the API, and the errors of unreadable texts.

    `typed` is the body with the display name as an input of its own.
    """

    document: dict[str, Any]
    errors: dict[str, str]
    typed: dict[str, Any]


def read_form_body(
    form: SchemaForm, fields: FormFields, *, is_edit: bool, choices: Mapping[str, Choices]
) -> ReadForm:
    """Read the fields that a form sent.

    An empty field is null where the schema allows it; a new resource gets the default instead. An empty
    secret is left out: the stored one stays. An empty field of a group gets its default, and a group
    without any is null where the schema allows it.
    """
    document: dict[str, Any] = {}
    reader = _BodyReader(form, fields, choices, {})
    for name, schema in iter_fields(form, is_edit=is_edit):
        values = reader.read(name, name, schema)
        kind = kind_of(name, schema, form.inputs.get(name, FieldInput()), choices)
        if values:
            [document[name]] = values
        elif kind is InputKind.FLAG:
            document[name] = False
        elif kind in {InputKind.LINES, InputKind.CHOICES, InputKind.ROWS}:
            document[name] = []
        elif schema.is_nullable and kind is not InputKind.SECRET:
            document[name] = None
        elif kind is InputKind.GROUP:
            document[name] = {}
        elif schema.is_required or (is_edit and kind is not InputKind.SECRET):
            document[name] = ""
    return ReadForm(_nest_name(form, document), reader.errors, document)


@dataclass(frozen=True, slots=True)
class _BodyReader:
    """Reads the values of fields: none for an empty field, otherwise one."""

    form: SchemaForm
    fields: FormFields
    choices: Mapping[str, Choices]
    errors: dict[str, str]

    def read(self, name: str, path: str, schema: FieldSchema) -> list[Any]:
        override = self.form.inputs.get(path, FieldInput())
        kind = kind_of(path, schema, override, self.choices)
        if schema.is_nullable and REMOVE + name in self.fields:
            return [None]
        match kind:
            case InputKind.FLAG:
                value: Any = name in self.fields
            case InputKind.CHOICES:
                value = self.fields.texts(name)
            case InputKind.GROUP:
                value = self._group(name, path, schema)
            case InputKind.ROWS:
                rows = (self._group(f"{name}.{row}", path, schema) for row in self._rows_of(name))
                value = [row for row in rows if row]
            case _:
                return self._text(name, kind, override)
        return [value] if value else []

    def _text(self, name: str, kind: InputKind, override: FieldInput) -> list[Any]:
        text = self.fields.text(name)
        try:
            if text and kind is InputKind.INSTANT:
                return [read_local_time(text, zone_of(self.fields, name))]
            return [_read_text(kind, text, override)] if text else []
        except ValueError as error:
            self.errors[name] = str(error)
            return [text]

    def _group(self, name: str, path: str, schema: FieldSchema) -> dict[str, Any]:
        return {
            member: value
            for member, member_schema in schema.members.items()
            for value in self.read(f"{name}.{member}", f"{path}.{member}", member_schema)
            # A secret that is left out stays; null removes it.
            if value is not None or member_schema.kind is InputKind.SECRET
        }

    def _rows_of(self, name: str) -> list[int]:
        prefix = f"{name}."
        numbers = {key.removeprefix(prefix).partition(".")[0] for key in self.fields if key.startswith(prefix)}  # fmt: skip
        rows = {number for number in numbers if _ROW_NUMBER.fullmatch(number)}
        if rows != numbers:
            self.errors[name] = "has a row whose number is not valid; open the form again"
        return sorted(map(int, rows))


def _nest_name(form: SchemaForm, document: Mapping[str, Any]) -> dict[str, Any]:
    """The body with the display name in the object that has it."""
    if form.name_in is None:
        return dict(document)
    body = {field: value for field, value in document.items() if field != "name"}
    name, named = document["name"], document.get(form.name_in) or {}
    # What is not an object is refused by the schema.
    if isinstance(named, dict):
        body[form.name_in] = {**named, "name": name} if name else named
    return body


def _read_text(kind: InputKind, text: str, override: FieldInput) -> Any:
    """The value of a text that is not empty. Raises: `ValueError` with a message for the reader."""
    match kind:
        case InputKind.LINES:
            value: Any = [override.read_line(line) for line in _lines(text)]
        case InputKind.TEXT_PAIRS:
            value = dict(map(_read_pair, _lines(text)))
        case InputKind.OPTIONS:
            value = {name: _read_scalar(option) for name, option in map(_read_pair, _lines(text))}
        case InputKind.NUMBER:
            value = int(text) if text.lstrip("-").isdecimal() else number_or_text(text)
        case InputKind.JSON:
            value = _read_json(text)
        case _:
            value = text
    return value


def _read_json(text: str) -> Any:
    try:
        return parse_json(text)
    except Invalid as error:
        raise ValueError(f"is not valid JSON: {error.detail}") from None


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _read_pair(line: str) -> tuple[str, str]:
    name, separator, value = line.partition("=")
    if not separator:
        raise ValueError(f"has a line without an equals sign: {line[:80]!r}")
    return name.strip(), value.strip()


def _read_scalar(text: str) -> Any:
    """A flag or a number where the text is one."""
    if text in {"true", "false"}:
        return text == "true"
    if text.lstrip("-").isdecimal():
        return int(text)
    return number_or_text(text)
