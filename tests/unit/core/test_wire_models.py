from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, TypeAdapter, ValidationError

from app.core.schemas import (
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


class Part(WireModel):
    part_count: int


class Sample(WireModel):
    id: Identifier | None = None
    name: ShortText = "x"
    free_text: str = ""
    long: LongText = ""
    stored: StoredText = ""
    share: float | None = None
    is_on: bool = False
    due_at: datetime | None = None
    colour: Colour = Colour.RED
    parts: list[Part] = Field(default=[])
    counts: dict[str, int] = Field(default={})
    extras: JsonObject | None = None


def refusal(**fields: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        Sample.model_validate(fields)
    return "; ".join(error["msg"] for error in caught.value.errors())


def test_fields_are_camel_case_on_the_wire_and_snake_case_in_python() -> None:
    sample = Sample.model_validate({"freeText": "a", "parts": [{"partCount": 2}]})
    assert sample.free_text == "a"
    assert sample.model_dump(mode="json", by_alias=True)["parts"] == [{"partCount": 2}]


@pytest.mark.parametrize(
    "fields",
    [
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
        {"freeText": "x" * (64 * 1024 + 1)},
        {"freeText": 3},
        {"unknown": 1},
        {"colour": "blue"},
    ],
)
def test_what_a_field_does_not_mean_is_refused(fields: dict[str, Any]) -> None:
    assert refusal(**fields)


def test_an_integer_is_a_number_where_a_share_is_asked_for() -> None:
    assert Sample.model_validate({"share": 1}).share == 1.0


def test_times_and_choices_come_as_texts() -> None:
    sample = Sample.model_validate({"dueAt": "2026-11-21T08:00:00Z", "colour": "red"})
    assert sample.due_at == datetime(2026, 11, 21, 8, tzinfo=UTC)


def test_a_stored_text_may_be_longer_than_a_text_of_a_client() -> None:
    assert len(Sample(stored="x" * 100_000).stored) == 100_000


@pytest.mark.parametrize("identifier", ["", "-a", "a b", "a/b", "a\n", "é", "a" * 65])
def test_an_identifier_is_plain(identifier: str) -> None:
    assert refusal(id=identifier)


@pytest.mark.parametrize("name", ["", "   ", "a\nb", "a\x1bb", "x" * 201])
def test_a_name_is_one_printable_line(name: str) -> None:
    assert refusal(name=name)


def test_a_name_loses_the_spaces_around_it() -> None:
    assert Sample(name="  nightly run ").name == "nightly run"


@pytest.mark.parametrize(
    "extras",
    [{"a": float("nan")}, {"a": ["\x00"]}, {"\ud800": 1}, {"a": 2**63}, {"a": "x" * 65_536}],
)
def test_a_json_object_holds_only_what_can_be_stored(extras: dict[str, Any]) -> None:
    assert refusal(extras=extras)


def test_a_refusal_does_not_show_what_was_sent() -> None:
    with pytest.raises(ValidationError) as caught:
        Sample.model_validate({"share": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_absent_means_keep_and_null_means_clear() -> None:
    assert changed_fields(Sample.model_validate({"share": None})) == {"share": None}
    assert changed_fields(Sample.model_validate({})) == {}


def test_the_last_page_says_null() -> None:
    page = Page[Part](items=[Part(part_count=1)])
    assert page.model_dump_json() == '{"items":[{"partCount":1}],"nextCursor":null}'


@pytest.mark.parametrize(
    "text", ["2099-01-01T00:00:00", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"]
)
def test_an_instant_has_a_zone_and_is_one_in_utc_too(text: str) -> None:
    instants = TypeAdapter(Instant)
    assert (
        instants.validate_python("2026-11-22T07:00:00+01:00").isoformat().endswith("06:00:00+00:00")
    )
    with pytest.raises(ValidationError):
        instants.validate_python(text)


@given(st.integers())
def test_exactly_the_integers_of_64_bits_are_taken(number: int) -> None:
    fits = -(2**63) <= number < 2**63
    try:
        taken = Part.model_validate({"partCount": number}).part_count == number
    except ValidationError:
        taken = False
    assert taken is fits


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
    assert Complete(name="a").tags == []
