"""Base of all request and response bodies: strict validation, camelCase names."""

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from typing import Annotated, Any, Generic, Self, TypeVar, cast
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
)
from pydantic import StringConstraints as Text
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from mosaico.core.errors import Invalid
from mosaico.core.ids import IDENTIFIER_PATTERN
from mosaico.core.strict_json import MAX_INTEGER, MIN_INTEGER, reject_unacceptable
from mosaico.core.text import find_line_flaw, unstorable_reason

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

_STRICT_MARK = "mosaico_tight"
_NOT_VALIDATED = ("metadata", "serialization")  # parts of a core schema without nodes to change

MAX_TEXT = 64 * 1024
MAX_STORED_TEXT = 64 * 1024 * 1024

_ISO_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d[Tt ]", re.ASCII)


def _collect_nodes(schema: Any, nodes: list[tuple[Any, Any, dict[str, Any]]]) -> None:
    """Append every typed node below a core schema that is not yet marked, with its container and key; nodes
    come after those below them.
    """
    # Exact types and no generators: the start of the API visits 30,000 entries.
    for key, value in schema.items() if type(schema) is dict else enumerate(schema):
        if type(value) is dict:
            if key in _NOT_VALIDATED:
                continue
            if not isinstance(value.get("type"), str):
                _collect_nodes(value, nodes)
            elif not value.get("metadata", {}).get(_STRICT_MARK):
                _collect_nodes(value, nodes)
                nodes.append((schema, key, value))
        elif type(value) is list or type(value) is tuple:
            _collect_nodes(value, nodes)


def _marked(node: Mapping[str, Any]) -> dict[str, Any]:
    return {**node, "metadata": {**node.get("metadata", {}), _STRICT_MARK: True}}


def _strict_integer(node: dict[str, Any]) -> dict[str, Any]:
    bounds: dict[str, Any] = {"strict": True}
    if "ge" not in node and "gt" not in node:
        bounds["ge"] = MIN_INTEGER
    if "le" not in node and "lt" not in node:
        bounds["le"] = MAX_INTEGER
    return {**node, **bounds}


def _strict(node: dict[str, Any]) -> dict[str, Any]:
    return {**node, "strict": True}


def _storable(node: dict[str, Any]) -> dict[str, Any]:
    return dict(core_schema.no_info_after_validator_function(_refuse_flaw, node))


def _refuse_flaw(text: str) -> str:
    flaw = unstorable_reason(text)
    if flaw is not None:
        raise PydanticCustomError("unstorable_text", "{flaw}", {"flaw": flaw})
    return text


_STRICTER: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "int": _strict_integer,
    "float": _strict,
    "bool": _strict,
    "str": _storable,
}


class WireModel(BaseModel):
    """A request or response body.

    Field names are camelCase; unknown fields are refused. Texts contain neither NUL nor lone
    surrogates and have at most 64 KiB unless the field sets another limit; numbers are finite,
    integers fit 64 bits; `true` and `"1"` are not numbers.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        str_max_length=MAX_TEXT,
        from_attributes=True,
        ser_json_inf_nan="null",
        hide_input_in_errors=True,
        # A process uses few of the models: each is built at its first use.
        defer_build=True,
    )

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[BaseModel], handler: GetCoreSchemaHandler, /
    ) -> CoreSchema:
        schema = handler(source)
        nodes: list[tuple[Any, Any, dict[str, Any]]] = []
        _collect_nodes(schema, nodes)
        for holder, key, node in nodes:
            if tighten := _STRICTER.get(node["type"]):
                holder[key] = tighten(_marked(node))
        # A nested model appears once per use, already changed after the first: the mark prevents a
        # second wrapping, and another walk through the model. What the model only refers to is put
        # in its place later.
        if any(node["type"] == "definition-ref" for _, _, node in nodes):
            return schema
        return cast("CoreSchema", _marked(schema))


class Page(WireModel, Generic[T]):
    """One page of a list; `nextCursor` is null on the last one."""

    items: list[T]
    next_cursor: str | None = None


def view_of_row(view: type[M], row: object, **computed: Any) -> M:
    """The view of a database row: `computed` fields, and the columns that have the other names."""
    columns = view.model_fields.keys() - computed.keys()
    return view.model_validate({name: getattr(row, name) for name in columns} | computed)


def all_fields(model: BaseModel) -> dict[str, Any]:
    """All fields by attribute name; nested bodies stay models."""
    return {name: getattr(model, name) for name in type(model).model_fields}


def changed_fields(model: BaseModel) -> dict[str, Any]:
    """The fields that the client sent, by attribute name: absent keeps a value, null clears it."""
    return {name: getattr(model, name) for name in model.model_fields_set}


def _reject_line_flaw(text: str) -> str:
    flaw = find_line_flaw(text)
    if flaw is not None:
        raise PydanticCustomError("control_character", "{flaw}", {"flaw": flaw})
    return text


def _require_iso(instant: object) -> object:
    # Pydantic would read a number, also as text, as seconds since 1970.
    if isinstance(instant, datetime) or (isinstance(instant, str) and _ISO_DATE.match(instant)):
        return instant
    raise PydanticCustomError(
        "not_an_instant", "is not a time; send it as 2026-11-22T07:30:00Z, with a time zone"
    )


def _require_iso_date(day: object) -> object:
    # As above: a number would be read as seconds since 1970.
    if isinstance(day, str) and _ISO_DAY.fullmatch(day):
        return day
    raise PydanticCustomError("not_a_date", "is not a date; send it as 2026-11-22")


IsoDate = Annotated[date, BeforeValidator(_require_iso_date)]


def _to_utc(instant: datetime) -> datetime:
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        raise PydanticCustomError(
            "end_of_calendar", "is outside of the supported years; send another time"
        ) from None


def require_http_url(url: str) -> str:
    """The URL, if it is one that may be called; for validators of fields."""
    # Names of hosts and threads, which commands on files do not need.
    from mosaico.core.network_policy import find_host_refusal
    from mosaico.core.url_syntax import find_url_flaw

    flaw = find_url_flaw(url)
    if flaw is not None:
        raise PydanticCustomError(
            "not_an_http_url", "{flaw}; send it as https://host/path", {"flaw": flaw}
        )
    refusal = find_host_refusal(urlsplit(url).hostname or "")
    if refusal is not None:
        raise PydanticCustomError("refused_address", "{refusal}", {"refusal": refusal})
    return url


def _reject_oversized_object(value: dict[str, Any]) -> dict[str, Any]:
    try:
        reject_unacceptable(value)
    except Invalid as error:
        item = error.errors[0]
        raise PydanticCustomError(
            "unacceptable_json", "{detail}", {"detail": f"{item.pointer} {item.detail}"}
        ) from None
    if len(json.dumps(value, ensure_ascii=False).encode()) > MAX_TEXT:
        raise PydanticCustomError("object_too_large", "is larger than 64 KiB; send less")
    return value


def explain_pattern(pattern: str, message: str) -> BeforeValidator:
    """Describe the `pattern` of a text type in words; place it before the type with the pattern."""
    compiled = re.compile(pattern)

    def check(value: Any) -> Any:
        if isinstance(value, str) and not compiled.fullmatch(value):
            raise PydanticCustomError("pattern", "{message}", {"message": message})
        return value

    return BeforeValidator(check)


Identifier = Annotated[
    str,
    Text(pattern=f"^{IDENTIFIER_PATTERN}$", max_length=64),
    explain_pattern(
        IDENTIFIER_PATTERN,
        "should be 1 to 64 letters, digits, dots, hyphens or underscores, beginning with a letter or digit",
    ),
]
ShortText = Annotated[
    str,
    Text(strip_whitespace=True, min_length=1, max_length=200),
    AfterValidator(_reject_line_flaw),
]
LongText = Annotated[str, Field(max_length=MAX_TEXT)]
StoredText = Annotated[str, Field(max_length=MAX_STORED_TEXT)]
Instant = Annotated[AwareDatetime, BeforeValidator(_require_iso), AfterValidator(_to_utc)]
FilterValues = Annotated[list[str], Field(max_length=100)]
HttpUrl = Annotated[str, Field(max_length=2048), AfterValidator(require_http_url)]
JsonObject = Annotated[dict[str, Any], AfterValidator(_reject_oversized_object)]


class ListFilter(BaseModel):
    """The filters of a list, which are query parameters of the API; without any, all rows match.

    A parameter has the name of `validation_alias`. A list matches what has any of its values.
    """

    model_config = ConfigDict(
        frozen=True, validate_by_name=True, validate_by_alias=True, defer_build=True
    )

    @classmethod
    def unchecked(cls, **values: Any) -> Self:
        """The filter of a page: a value that does not exist is not an error and matches nothing."""
        return cast("Self", cls.model_construct(**values))


class PeriodFilter(ListFilter):
    """A time at or after `since` and before `until`."""

    since: Instant | None = Field(
        default=None,
        validation_alias="from",
        description="Only items created at or after this time.",
    )
    until: Instant | None = Field(
        default=None, validation_alias="to", description="Only items created before this time."
    )
