"""The base model of requests and responses, and its field types."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, TypeAdapter, ValidationError

from mosaico.core.edits import patch_of
from mosaico.core.schemas import (
    Identifier,
    Instant,
    JsonObject,
    LongText,
    ShortText,
    StoredText,
    WireModel,
    changed_fields,
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


@pytest.mark.parametrize("identifier", ["", "-a", "a b", "a/b", "a\n", "é", "a" * 65])
def test_identifier__special_characters_are_refused(identifier: str) -> None:
    assert refusal(id=identifier)


@pytest.mark.parametrize("name", ["", "   ", "a\nb", "a\x1bb", "x" * 201])
def test_display_name__must_be_one_printable_line(name: str) -> None:
    assert refusal(name=name)


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


JOINED_NAMES = [
    "می\u200cخواهم",
    "क्\u200dष",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "品質\u3000検査",
]


@pytest.mark.parametrize("name", JOINED_NAMES)
def test_short_text__names_of_all_scripts_are_accepted(name: str) -> None:
    assert WireSample.model_validate({"name": name}).name == name


@pytest.mark.parametrize(
    "name",
    [
        "a\nb",
        "a\u2028b",
        "a\tb",
        "a\x1bb",
        "a\u202eb",
        "a\u2066b",
        "a\u200eb",
        "\u200d",
        "\u200b\u200c",
    ],
)
def test_short_text__line_breaks_direction_controls_and_invisible_names_are_refused(
    name: str,
) -> None:
    with pytest.raises(ValidationError):
        WireSample.model_validate({"name": name})


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
