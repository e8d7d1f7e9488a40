"""The base model of requests and responses, and its field types."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, TypeAdapter, ValidationError

from mosaico.core.schemas import (
    Identifier,
    Instant,
    JsonObject,
    LongText,
    Page,
    ShortText,
    StoredText,
    WireModel,
    changed_fields,
    patch_of,
)


class Colour(StrEnum):
    RED = "red"


class WirePart(WireModel):
    part_count: int


class WireSample(WireModel):
    id: Identifier | None = None
    name: ShortText = "x"
    free_text: str = ""
    long: LongText = ""
    stored: StoredText = ""
    share: float | None = None
    is_on: bool = False
    due_at: datetime | None = None
    colour: Colour = Colour.RED
    parts: list[WirePart] = Field(default=[])
    counts: dict[str, int] = Field(default={})
    extras: JsonObject | None = None


def refusal(**fields: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        WireSample.model_validate(fields)
    return "; ".join(error["msg"] for error in caught.value.errors())


def test_wire_model__camel_case_in_json_snake_case_in_python() -> None:
    sample = WireSample.model_validate({"freeText": "a", "parts": [{"partCount": 2}]})
    assert sample.free_text == "a"
    assert sample.model_dump(mode="json", by_alias=True)["parts"] == [{"partCount": 2}]


@pytest.mark.parametrize(
    "fields",
    [
        # pydantic would accept the first three as 1.
        {"parts": [{"partCount": True}]},
        {"parts": [{"partCount": "1"}]},
        {"parts": [{"partCount": 1.0}]},
        {"parts": [{"partCount": 2**63}]},
        {"parts": [{"partCount": -(2**63) - 1}]},
        {"counts": {"a": "1"}},
        {"counts": {"a": 10**30}},
        {"counts": {"a\x00": 1}},
        {"share": "0.5"},
        {"share": True},
        {"share": float("nan")},
        {"share": float("inf")},
        {"isOn": 1},
        {"isOn": "yes"},
        {"freeText": "a\x00b"},
        {"freeText": "\ud800"},
        # One character above the limit of a text.
        {"freeText": "x" * (64 * 1024 + 1)},
        {"freeText": 3},
        {"unknown": 1},
        {"colour": "blue"},
    ],
)
def test_wire_model__value_of_another_type_is_refused(fields: dict[str, Any]) -> None:
    assert refusal(**fields)


def test_wire_model__integer_is_accepted_as_float() -> None:
    assert WireSample.model_validate({"share": 1}).share == 1.0


def test_wire_model__times_and_enums_are_read_from_texts() -> None:
    sample = WireSample.model_validate({"dueAt": "2026-11-21T08:00:00Z", "colour": "red"})
    assert sample.due_at == datetime(2026, 11, 21, 8, tzinfo=UTC)


def test_wire_model__stored_text_can_exceed_the_request_limit() -> None:
    assert len(WireSample(stored="x" * 100_000).stored) == 100_000


@pytest.mark.parametrize("identifier", ["", "-a", "a b", "a/b", "a\n", "é", "a" * 65])
def test_identifier__special_characters_are_refused(identifier: str) -> None:
    assert refusal(id=identifier)


@pytest.mark.parametrize("name", ["", "   ", "a\nb", "a\x1bb", "x" * 201])
def test_display_name__must_be_one_printable_line(name: str) -> None:
    assert refusal(name=name)


def test_display_name__surrounding_spaces_are_removed() -> None:
    assert WireSample(name="  nightly run ").name == "nightly run"


@pytest.mark.parametrize(
    "extras",
    [{"a": float("nan")}, {"a": ["\x00"]}, {"\ud800": 1}, {"a": 2**63}, {"a": "x" * 65_536}],
)
def test_json_object__unstorable_content_is_refused(extras: dict[str, Any]) -> None:
    assert refusal(extras=extras)


def test_wire_model__error_does_not_show_the_value() -> None:
    with pytest.raises(ValidationError) as caught:
        WireSample.model_validate({"share": "hunter2"})
    # The value may be a secret in a wrong field, and errors are logged.
    assert "hunter2" not in str(caught.value)


def test_patch__absent_keeps_and_null_clears() -> None:
    assert changed_fields(WireSample.model_validate({"share": None})) == {"share": None}
    assert changed_fields(WireSample.model_validate({})) == {}


def test_page__last_page_has_null_cursor() -> None:
    page = Page[WirePart](items=[WirePart(part_count=1)])
    assert page.model_dump_json() == '{"items":[{"partCount":1}],"nextCursor":null}'


@pytest.mark.parametrize(
    # In UTC the last two would be in the years 10000 and 0, which `datetime` does not have.
    "text",
    ["2099-01-01T00:00:00", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"],
)
def test_instant__requires_a_zone_and_fits_into_utc(text: str) -> None:
    instants = TypeAdapter(Instant)
    assert (
        instants.validate_python("2026-11-22T07:00:00+01:00").isoformat().endswith("06:00:00+00:00")
    )
    with pytest.raises(ValidationError):
        instants.validate_python(text)


@given(st.integers())
def test_integer__accepts_exactly_64_bits(number: int) -> None:
    fits = -(2**63) <= number < 2**63
    try:
        accepted = WirePart.model_validate({"partCount": number}).part_count == number
    except ValidationError:
        accepted = False
    assert accepted is fits


class Complete(WireModel):
    name: Annotated[str, Field(min_length=1, description="Name to show.")]
    note: str | None = None
    tags: list[str] = Field(default_factory=list)


@patch_of
class Patch(Complete):
    """The fields to change."""


def test_patch_of__fields_are_optional_and_keep_their_types() -> None:
    assert changed_fields(Patch.model_validate({})) == {}
    assert changed_fields(Patch.model_validate({"note": None})) == {"note": None}
    with pytest.raises(ValidationError):
        Patch.model_validate({"name": None})
    with pytest.raises(ValidationError):
        Patch.model_validate({"name": ""})


def test_patch_of__keeps_descriptions_and_the_complete_schema() -> None:
    patch_schema, complete_schema = Patch.model_json_schema(), Complete.model_json_schema()
    assert patch_schema["properties"]["name"]["description"] == "Name to show."
    assert "required" not in patch_schema
    assert complete_schema["required"] == ["name"]
    # `patch_of` changes a copy of the fields: those of the base class keep their defaults.
    assert Complete(name="a").tags == []
