"""Words for validation errors: ours, never those of pydantic."""

from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, AnyUrl, BaseModel, ConfigDict, ValidationError
from pydantic_core import PydanticCustomError

from mosaico.harness.validation_messages import describe_errors


def _require_even(number: int) -> int:
    if number % 2:
        raise ValueError("write an even number")
    return number


def _refuse(_: int) -> int:
    raise PydanticCustomError("ours", "Name the unit")


class Document(BaseModel):
    model_config = ConfigDict(extra="forbid")

    count: int = 0
    even: Annotated[int, AfterValidator(_require_even)] = 0
    url: AnyUrl | None = None
    unit: Annotated[int, AfterValidator(_refuse)] | None = None


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"count": "x"}, "count: must be a whole number"),
        ({"even": 1}, "even: write an even number"),
        ({"url": "no address"}, "url: is not valid"),
        ({"other": 1}, "other: other is not a known field"),
        ({"unit": 1}, "unit: Name the unit"),
    ],
)
def test_describe_errors__has_no_words_of_pydantic(document: dict[str, Any], text: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Document.model_validate(document)
    errors = caught.value.errors()
    assert [flaw.located_text() for flaw in describe_errors(errors, document)] == [text]
