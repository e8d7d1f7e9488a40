"""Edits of resources: a client may send back everything that it has read.

GET, change one field, PUT is how most clients edit. Such a body also has what nobody can change, a field in two
spellings, and texts that are shown shortened. `compare_with_view` decides by the current view: what is sent as it is
shown is unchanged, and a read-only field with another value is an error.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from types import NoneType
from typing import Any, ClassVar, Final, Self, TypeVar, get_args

from pydantic import (
    AliasChoices,
    BaseModel,
    ModelWrapValidatorHandler,
    PrivateAttr,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

from mosaico.core.errors import ErrorItem, Invalid
from mosaico.core.schemas import WireModel, all_fields, changed_fields
from mosaico.core.text import shorten

M = TypeVar("M", bound=BaseModel)
V = TypeVar("V", bound=BaseModel)

_SHOWN_CHARS = 60


class _ServiceMoves:
    """The type of `SERVICE_MOVES`."""


SERVICE_MOVES: Final = _ServiceMoves()
"""Marks a read-only field of a view that changes without edits: what a client sends back may be old."""


class TwoValues(Invalid):
    """The request has two different values of one field, in two spellings; send one of them."""


class ReadOnlyFields(Invalid):
    """The request changes fields that are read-only; leave them out, or read the resource again."""


class EditBody(WireModel):
    """The body that creates or changes a resource, whose responses have the type `shown_as`."""

    shown_as: ClassVar[type[BaseModel]]

    # The JSON of the sent fields that responses have too. A private attribute is neither printed nor dumped.
    _repeated: dict[str, Any] = PrivateAttr(default_factory=dict)
    # The same body with the second spellings of fields that were sent in two, with different values.
    _respelled: Any = PrivateAttr(default=None)
    _unchanged: frozenset[str] = PrivateAttr(default=frozenset())

    @model_validator(mode="wrap")
    @classmethod
    def _read_sent(cls, sent: Any, read: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(sent, dict):
            return read(sent)
        names = _names_of(cls)
        fields = {
            name: value
            for name, value in sent.items()
            if name not in names.read_only
            and not (value is None and name in names.default_for_null)
        }
        doubled = {
            first: second
            for first, second in names.second_spellings.items()
            if first in fields
            and second in fields
            and (second in names.shown or is_same_json(fields[first], fields[second]))
        }
        body = read({name: fields[name] for name in fields if name not in doubled.values()})
        differ = any(
            not is_same_json(fields[first], fields[second]) for first, second in doubled.items()
        )
        respelled = {name: fields[name] for name in fields if name not in doubled}
        return body.with_sent(
            {name: sent[name] for name in sent if name in names.shown},
            read(respelled) if differ else None,
        )

    def with_sent(self, repeated: dict[str, Any], respelled: Self | None) -> Self:
        """This body, which remembers the sent fields that responses have, and the second spellings."""
        self._repeated, self._respelled = repeated, respelled
        return self

    def without(self, unchanged: Iterable[str]) -> Self:
        """This body, of which an edit does not write some fields."""
        self._unchanged = frozenset(unchanged)
        return self

    def given_fields(self) -> dict[str, Any]:
        """The fields that an edit writes: of the body of a PATCH those that were sent, of any other all;
        without those that were sent as they are shown.
        """
        values = changed_fields(self) if type(self) in _PATCHES else all_fields(self)
        return {name: value for name, value in values.items() if name not in self._unchanged}

    def compare_with_view(self, view: BaseModel) -> Self:
        """This body, whose `given_fields` omit what was sent as `view` shows it.

        Raises: `ReadOnlyFields` for another value of a read-only field; `TwoValues` for two new
                values of one field, in its two spellings.
        """
        shown = view.model_dump(mode="json", by_alias=True)
        _raise_read_only(self.read_only_errors(shown))
        unchanged, respelled = set(), {}
        for field, spellings in _names_of(type(self)).spellings.items():
            sent = [name for name in spellings if name in self._repeated]
            changed = [n for n in sent if not is_same_json(self._repeated[n], shown[n])]
            if sent and not changed:
                unchanged.add(field)
            elif self._respelled is not None and changed:
                self._require_one_value(changed)
                if changed[0] != sent[0]:
                    respelled[field] = getattr(self._respelled, field)
        return self.model_copy(update=respelled).without(unchanged)

    def confirm_created(self, view: V) -> V:
        """The view of a resource that this body created; null stands for a read-only field that the client
        does not know.

        Raises: as `compare_with_view`.
        """
        _raise_read_only(self.read_only_errors(view.model_dump(mode="json", by_alias=True)))
        if self._respelled is not None:
            for spellings in _names_of(type(self)).spellings.values():
                self._require_one_value([name for name in spellings if name in self._repeated])
        return view

    def read_only_errors(self, shown: Mapping[str, Any], pointer: str = "") -> Iterator[ErrorItem]:
        """The read-only fields with another value than shown, also those of parts, which have IDs."""
        names = _names_of(type(self))
        for name in sorted(self._repeated.keys() & (names.read_only - names.moving)):
            sent, current = self._repeated[name], shown.get(name)
            if sent not in (None, []) and not is_same_json(sent, current):
                yield ErrorItem(pointer=f"{pointer}/{name}", detail=_describe_read_only(current))
        for name, (spelling, *_) in names.spellings.items():
            parts = getattr(self, name, None)
            if isinstance(parts, EditBody):
                current_part = shown.get(spelling) or {}
                yield from parts.read_only_errors(current_part, f"{pointer}/{spelling}")
            elif isinstance(parts, list) and any(isinstance(part, EditBody) for part in parts):
                current_parts = {part["id"]: part for part in shown.get(spelling) or ()}
                for index, part in enumerate(parts):
                    current_part = current_parts.get(part.id, {})
                    yield from part.read_only_errors(current_part, f"{pointer}/{spelling}/{index}")

    def _require_one_value(self, spellings: Sequence[str]) -> None:
        """Raise `TwoValues` if the spellings of one field have different values."""
        for spelling in spellings[1:]:
            if not is_same_json(self._repeated[spellings[0]], self._repeated[spelling]):
                detail = f"has another value than {spellings[0]}, the same field; send one of them"
                raise TwoValues(errors=[ErrorItem(pointer=f"/{spelling}", detail=detail)])


# The schemas of which a body has only the fields that were sent.
_PATCHES: set[type[BaseModel]] = set()


def patch_of(schema: type[M]) -> type[M]:
    """Class decorator: make every field of a subclass optional, for the body of a PATCH.

    The types stay: null is valid only where it is valid in the complete body. The default is never
    read, because `given_fields` gives the fields that were sent.
    """
    _PATCHES.add(schema)
    for field in schema.model_fields.values():
        field.default, field.default_factory = None, None
    if schema.__pydantic_complete__:
        schema.model_rebuild(force=True)
    return schema


def is_same_json(sent: Any, shown: Any) -> bool:
    """Whether two JSON values mean the same: a missing member is null, an instant may be written in two ways."""
    if isinstance(sent, dict) and isinstance(shown, dict):
        return all(
            is_same_json(sent.get(name), shown.get(name)) for name in sent.keys() | shown.keys()
        )
    if isinstance(sent, list) and isinstance(shown, list):
        return len(sent) == len(shown) and all(map(is_same_json, sent, shown))
    if isinstance(sent, str) and isinstance(shown, str):
        return sent == shown or _is_same_instant(sent, shown)
    return isinstance(sent, bool) == isinstance(shown, bool) and bool(sent == shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class _FieldNames:
    """The names of the fields of a body and of its view in JSON."""

    spellings: Mapping[str, tuple[str, ...]]
    shown: frozenset[str]
    read_only: frozenset[str]
    moving: frozenset[str]
    default_for_null: frozenset[str]

    @property
    def second_spellings(self) -> dict[str, str]:
        return {names[0]: names[1] for names in self.spellings.values() if len(names) > 1}


@cache
def _names_of(body: type[EditBody]) -> _FieldNames:
    spellings = {name: _spellings(name, field) for name, field in body.model_fields.items()}
    writable = frozenset(name for names in spellings.values() for name in names)
    view = body.shown_as.model_fields
    shown = {_spellings(name, field)[0]: field for name, field in view.items()}
    # A client of another language sends null for each list that it did not set.
    optional = {
        name
        for name, field in body.model_fields.items()
        if body not in _PATCHES and not field.is_required() and not _accepts_null(field)
    }
    return _FieldNames(
        spellings=spellings,
        shown=frozenset(shown),
        read_only=frozenset(shown) - writable - body.model_fields.keys(),
        moving=frozenset(name for name, field in shown.items() if SERVICE_MOVES in field.metadata),
        default_for_null=frozenset(name for field in optional for name in spellings[field]),
    )


def _spellings(name: str, field: FieldInfo) -> tuple[str, ...]:
    alias = field.validation_alias
    if isinstance(alias, AliasChoices):
        return tuple(str(choice) for choice in alias.choices)
    return (to_camel(name),)


def _accepts_null(field: FieldInfo) -> bool:
    return field.annotation is Any or NoneType in get_args(field.annotation)


def _describe_read_only(current: Any) -> str:
    value = shorten(str(current), _SHOWN_CHARS)
    shown = "has no value" if current in (None, []) else f"is {value}"
    return f"is read-only and {shown} now; leave it out, or read the resource again"


def _raise_read_only(errors: Iterable[ErrorItem]) -> None:
    if items := list(errors):
        raise ReadOnlyFields(errors=items)


def _is_same_instant(sent: str, shown: str) -> bool:
    try:
        first, second = datetime.fromisoformat(sent), datetime.fromisoformat(shown)
    except ValueError:
        return False
    # Java writes the local time of UTC without a zone; dates of JavaScript and of older Java end at milliseconds.
    sent_at, shown_at = _in_utc(first), _in_utc(second)
    return sent_at in (shown_at, shown_at.replace(microsecond=shown_at.microsecond // 1000 * 1000))


def _in_utc(instant: datetime) -> datetime:
    return instant.astimezone(UTC) if instant.tzinfo else instant.replace(tzinfo=UTC)
