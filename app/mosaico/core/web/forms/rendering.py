"""Forms from the schemas of the API, and their inputs; `body` reads what a form sends.

Names, types, choices and defaults of the inputs are those of the JSON schema: a new field of a schema is a
new input, without any change here or in the pages of its domain. The fields of an object are inputs too, with
names such as `production.lag`; those of a list of objects `triggers.langfuse.0.event`.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from mosaico.core.web.form_words import MISSING_CHOICE, MISSING_TEXT, FormWords, words_of
from mosaico.core.web.forms.fields import Choices, FieldSchema, InputKind, read_schema
from mosaico.core.web.forms.local_times import FormZones

# Rows that a list of objects offers beside those that it has.
EMPTY_ROWS: Final = 3
# The prefix of a checkbox that removes a stored value.
REMOVE: Final = "remove:"


class FieldInput(NamedTuple):
    """The overrides of an input that is generated from a schema field.

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
    is the object whose `name` is an input of its own. `models` are the names, for readers, of the models
    that an object can be of. Keys of `inputs` are names without the numbers of rows.
    """

    create: type[BaseModel]
    patch: type[BaseModel] | None = None
    main: tuple[str, ...]
    hidden: frozenset[str] = frozenset()
    name_in: str | None = None
    inputs: Mapping[str, FieldInput] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)

    def body(self, *, is_edit: bool) -> type[BaseModel]:
        """The schema that checks what the form sends."""
        return self.patch if is_edit and self.patch is not None else self.create


class FormInput(NamedTuple):
    """An input as a page shows it; `value` is a text, for a flag a bool, for choices a list.

    `members` are the inputs of a group, or the groups of the rows of a list. `can_remove` is whether a
    value can be removed with a checkbox. `zone` is that of a date and time, whose choices are zones.
    """

    name: str
    label: str
    kind: InputKind
    value: Any
    help: str | None
    error: str | None
    is_required: bool
    is_main: bool
    choices: Choices
    members: Sequence["FormInput"] = ()
    can_remove: bool = False
    zone: str = ""

    def leaves(self, path: str = "") -> Iterator["FormInput"]:
        """The inputs without groups, each labelled with its groups."""
        label = f"{path}, {self.label.lower()}" if path else self.label
        if self.kind not in {InputKind.GROUP, InputKind.ROWS}:
            yield self._replace(label=label)
        for member in self.members:
            yield from member.leaves(label)

    @property
    def has_error(self) -> bool:
        """Return whether this input, or one of its group, has an error."""
        return self.error is not None or any(member.has_error for member in self.members)

    @property
    def is_open(self) -> bool:
        """Return whether a group is shown unfolded: it has an error or a value."""
        return self.has_error or any(leaf.value for leaf in self.leaves())


def list_inputs(
    form: SchemaForm,
    values: Mapping[str, Any],
    *,
    is_edit: bool,
    errors: Mapping[str, str],
    choices: Mapping[str, Choices],
    zones: FormZones,
) -> list[FormInput]:
    """The inputs of a form, the main ones first; a field without a value has its default."""
    if form.name_in is not None:
        named = values.get(form.name_in)
        # A text that is not an object is shown as it was typed.
        if isinstance(named, Mapping):
            other_fields = {field: value for field, value in named.items() if field != "name"}
            values = {"name": named.get("name"), **values, form.name_in: other_fields}
    writer = _InputWriter(form, errors, choices, zones, is_edit)
    return [
        writer.write(name, name, schema, values.get(name, schema.default))
        for name, schema in iter_fields(form, is_edit=is_edit)
    ]


@dataclass(frozen=True, slots=True)
class _InputWriter:
    """Makes the inputs of a form; a name has the numbers of rows, a path has not."""

    form: SchemaForm
    errors: Mapping[str, str]
    choices: Mapping[str, Choices]
    zones: FormZones
    is_edit: bool

    def write(
        self, name: str, path: str, schema: FieldSchema, value: Any, *, is_blank: bool = False
    ) -> FormInput:
        """The input of a field; in a blank group, defaults are named and not filled in."""
        override = self.form.inputs.get(path, FieldInput())
        kind = kind_of(path, schema, override, self.choices)
        is_nested = path != name or "." in name
        members: list[FormInput] = []
        if kind is InputKind.GROUP:
            is_blank = is_blank or (value is None and schema.is_nullable)
            members = list(self._members(name, path, schema, value, is_blank=is_blank))
        elif kind is InputKind.ROWS:
            members = self._rows(name, path, schema, value)
        written = FormInput(
            name=name,
            label=override.label or words_of(path.rpartition(".")[2]),
            kind=kind,
            value="" if members else write_value(kind, value, override),
            help=self._help(schema, override, is_blank=is_blank),
            error=self.errors.get(name),
            is_required=schema.is_required and not is_nested,
            is_main=path in self.form.main,
            choices=_choices(schema, kind, self.choices.get(path, schema.choices), is_nested=is_nested),
            members=members,
            can_remove=schema.is_nullable and (
                self.is_edit if kind is InputKind.SECRET else kind is InputKind.GROUP and not is_blank
            ),
        )  # fmt: skip
        if kind is not InputKind.INSTANT:
            return written
        text, zone = self.zones.show(name, value)
        return written._replace(value=text, zone=zone, choices=self.zones.choices(zone))

    def _members(
        self, name: str, path: str, schema: FieldSchema, value: Any, *, is_blank: bool
    ) -> Iterator[FormInput]:
        stored = value if isinstance(value, Mapping) else {}
        for member, member_schema in schema.members.items():
            # A default of another model than the typed one would be sent with it.
            has_default = not (is_blank or member_schema.models)
            default = member_schema.default if has_default else None
            yield self.write(
                f"{name}.{member}", f"{path}.{member}", member_schema, stored.get(member, default),
                is_blank=is_blank,
            )  # fmt: skip

    def _rows(self, name: str, path: str, schema: FieldSchema, value: Any) -> list[FormInput]:
        stored = list(value) if isinstance(value, list | tuple) else []
        row = FieldSchema(InputKind.GROUP, is_nullable=True, members=schema.members)
        rows = [
            self.write(f"{name}.{index}", path, row, document)
            for index, document in enumerate([*stored, *[None] * EMPTY_ROWS])
        ]
        return [
            item._replace(label=f"{item.label} {index}", can_remove=False)
            for index, item in enumerate(rows, start=1)
        ]

    def _help(self, schema: FieldSchema, override: FieldInput, *, is_blank: bool) -> str | None:
        parts = [override.help or schema.description or ""]
        if schema.models:
            owners = " or ".join(self.form.models.get(model, model) for model in schema.models)
            parts.insert(0, f"For {owners}.")
        if (is_blank or schema.models) and schema.default:
            parts.append(f"Default: {_write_scalar(schema.default)}.")
        return " ".join(filter(None, parts)) or None


def read_words(inputs: Sequence[FormInput]) -> FormWords:
    """The labels and choices of a form."""
    labels: dict[str, str] = {}
    choices: dict[str, str] = {}
    for item in inputs:
        members = read_words(item.members)
        # The full name of an input comes before the last part of another one.
        labels = {
            item.name.rpartition(".")[2]: item.label,
            **members.labels,
            **labels,
            item.name: item.label,
        }
        choices |= {**members.choices, **dict(item.choices)}
    return FormWords(labels, choices)


def use_words(inputs: Sequence[FormInput], words: FormWords) -> list[FormInput]:
    """The inputs with their errors and help texts in the words of the form."""
    return [
        item._replace(
            help=item.help and words.translate(item.help),
            error=item.error and _error_of(item, words),
            members=use_words(item.members, words),
        )
        for item in inputs
    ]


def _error_of(item: FormInput, words: FormWords) -> str:
    if item.is_required and not item.value and not item.members:
        return MISSING_CHOICE if item.kind is InputKind.CHOICE else MISSING_TEXT
    return words.translate(item.error or "")


def input_names(inputs: Sequence[FormInput]) -> set[str]:
    """The names of inputs and of their groups and rows."""
    return {name for item in inputs for name in (item.name, *input_names(item.members))}


def place_errors(errors: Mapping[str, str], inputs: Sequence[FormInput]) -> dict[str, str]:
    """The errors by the names of inputs: the error of a part of a value belongs to the input of the
    value.
    """
    names = input_names(inputs)
    placed: dict[str, str] = {}
    for pointer, text in errors.items():
        name = pointer
        while name and name not in names:
            name = name.rpartition(".")[0]
        placed.setdefault(name or pointer, text)
    return placed


def write_value(kind: InputKind, value: Any, override: FieldInput) -> Any:
    """A value of the API as the input shows it. A secret is never shown."""
    match kind:
        case InputKind.SECRET | InputKind.GROUP | InputKind.ROWS:
            return ""
        case InputKind.FLAG:
            return bool(value)
        case InputKind.CHOICES:
            return list(value or ())
    # What was typed is shown again as it is, also where it is not a list or number.
    return value if isinstance(value, str) else _write_text(kind, value, override)


def _write_text(kind: InputKind, value: Any, override: FieldInput) -> str:
    if not value and not isinstance(value, int | float):
        return ""
    match kind:
        case InputKind.LINES:
            return "\n".join(override.write_line(line) for line in value)
        case InputKind.TEXT_PAIRS | InputKind.OPTIONS:
            return "\n".join(
                f"{name}={text if isinstance(text, str) else json.dumps(text)}"
                for name, text in value.items()
            )
        case InputKind.JSON:
            return json.dumps(value, indent=1, ensure_ascii=False)
    return _write_scalar(value)


def _write_scalar(value: Any) -> str:
    """A number with all of its digits: a form that is saved unchanged changes no value."""
    return str(value).removesuffix(".0") if isinstance(value, float) else str(value)


_DISPLAY_NAME: Final = FieldSchema(InputKind.TEXT, is_nullable=True)


def iter_fields(form: SchemaForm, *, is_edit: bool) -> Iterator[tuple[str, FieldSchema]]:
    """The fields that a form has, in the order of its inputs."""
    schemas = read_schema(form.create)
    if is_edit and form.patch is not None:
        # What only an edit has, such as the note of a revision.
        schemas = {**read_schema(form.patch), **schemas}
    if form.name_in is not None:
        schemas = {"name": _DISPLAY_NAME, **schemas}
    hidden = form.hidden | {"id"} if is_edit else form.hidden
    other_names = [name for name in schemas if name not in form.main]
    for name in (*form.main, *other_names):
        if name not in hidden and name in schemas:
            yield name, schemas[name]


def kind_of(
    path: str, schema: FieldSchema, override: FieldInput, choices: Mapping[str, Choices]
) -> InputKind:
    """Return the input kind of a field: from its schema, unless the form or its choices override
    it.
    """
    kind = override.kind or schema.kind
    if path in choices:
        # Where the choices are cut, IDs are typed: the others could not be ticked.
        is_cut = kind is InputKind.LINES and bool(getattr(choices[path], "total", ""))
        return (
            kind if is_cut else InputKind.CHOICES if kind is InputKind.LINES else InputKind.CHOICE
        )
    return kind


def _choices(schema: FieldSchema, kind: InputKind, choices: Choices, *, is_nested: bool) -> Choices:
    """The choices of a field; a single one that may be missing can be left to its default."""
    has_empty = any(value == "" for value, _ in choices)
    if kind is not InputKind.CHOICE or has_empty or not (is_nested or schema.is_nullable):
        return choices
    return [("", "none" if schema.is_required else "default"), *choices]
