"""Bodies that repeat what GET answers: what is unchanged, what is refused, and what is written."""

from datetime import datetime
from typing import Annotated, Any, ClassVar

import pytest
from pydantic import AliasChoices, Field

from mosaico.core.edits import (
    SERVICE_MOVES,
    EditBody,
    ReadOnlyFields,
    TwoValues,
    is_same_json,
    patch_of,
)
from mosaico.core.schemas import WireModel

AT = "2026-11-28T02:00:00Z"


class PartView(WireModel):
    id: str
    name: str
    revision: int


class PartBody(EditBody):
    shown_as: ClassVar = PartView

    id: str | None = None
    name: str


class KettleView(WireModel):
    id: str
    label: str | None
    lable: str | None
    parts: list[PartView]
    tags: list[str]
    uses: Annotated[int, SERVICE_MOVES]
    created_at: datetime


class KettleBody(EditBody):
    shown_as: ClassVar = KettleView

    label: str | None = Field(default=None, validation_alias=AliasChoices("label", "lable"))
    parts: list[PartBody] = Field(default_factory=list)
    tags: list[str] = Field(default_factory=list)
    secret: str | None = None


@patch_of
class KettlePatch(KettleBody):
    pass


SHOWN: dict[str, Any] = {
    "id": "k",
    "label": "red",
    "lable": "red",
    "parts": [{"id": "lid", "name": "Lid", "revision": 3}],
    "tags": ["new"],
    "uses": 4,
    "createdAt": AT,
}
VIEW = KettleView.model_validate(SHOWN)


def written(body: dict[str, Any], schema: type[KettleBody] = KettleBody) -> dict[str, Any]:
    return schema.model_validate(body).compare_with_view(VIEW).given_fields()


def test_put__shown_fields_are_unchanged_and_others_get_their_default() -> None:
    assert written(SHOWN) == {"secret": None}
    assert written({"tags": ["old"]}) == {
        "label": None,
        "parts": [],
        "tags": ["old"],
        "secret": None,
    }


def test_patch__writes_only_what_differs() -> None:
    assert written({**SHOWN, "tags": ["old"]}, KettlePatch) == {"tags": ["old"]}
    assert written({"label": None}, KettlePatch) == {"label": None}


@pytest.mark.parametrize(
    ("changed", "pointer"),
    [
        ({"id": "other"}, "/id"),
        ({"createdAt": "2027-01-01T00:00:00Z"}, "/createdAt"),
        ({"parts": [{"id": "lid", "name": "Cap", "revision": 2}]}, "/parts/0/revision"),
        ({"parts": [{"id": "new", "name": "New", "revision": 1}]}, "/parts/0/revision"),
    ],
)
def test_edit__another_value_of_a_read_only_field_is_refused(
    changed: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(ReadOnlyFields) as caught:
        written({**SHOWN, **changed})
    assert [item.pointer for item in caught.value.errors] == [pointer]


def test_edit__null_and_moving_read_only_fields_are_ignored() -> None:
    assert written({"createdAt": None, "uses": 1, "tags": None}, KettleBody)["tags"] == []
    part = {"id": "lid", "name": "Cap", "revision": 3}
    [edited] = written({**SHOWN, "parts": [part]}, KettlePatch)["parts"]
    assert (edited.id, edited.name) == ("lid", "Cap")


def test_edit__of_two_spellings_the_changed_one_is_written() -> None:
    for spelling in ("label", "lable"):
        assert written({**SHOWN, spelling: "blue"}, KettlePatch) == {"label": "blue"}
    assert written({"lable": "blue"}, KettlePatch) == {"label": "blue"}
    two = {"label": "blue", "lable": "green"}
    with pytest.raises(TwoValues) as caught:
        written(two)
    assert [item.pointer for item in caught.value.errors] == ["/lable"]
    with pytest.raises(TwoValues):
        KettleBody.model_validate(two).confirm_created(VIEW)


@pytest.mark.parametrize(
    ("sent", "shown", "same"),
    [
        ("2026-11-28T02:00:00.000+00:00", AT, True),
        ("2026-11-28T03:00:00+01:00", AT, True),
        ("2026-11-28T02:00:00", AT, True),
        ("2026-11-28T03:00:00Z", AT, False),
        ("2026-11-28T02:00:00.123Z", "2026-11-28T02:00:00.123987Z", True),
        ("2026-11-28T02:00:00.124Z", "2026-11-28T02:00:00.123987Z", False),
        ("2026-11-28T02:00:00Z", "2026-11-28T02:00:00.123987Z", False),
        ({"a": 1, "b": None}, {"a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ([1, 2], [1], False),
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        ("1", 1, False),
    ],
)
def test_same_json__compares_what_the_values_mean(sent: Any, shown: Any, *, same: bool) -> None:
    assert is_same_json(sent, shown) is same


def test_created__null_stands_for_what_the_service_decides() -> None:
    body = KettleBody.model_validate({"id": None, "createdAt": None, "label": "red", "parts": None})
    assert body.confirm_created(VIEW) is VIEW
    with pytest.raises(ReadOnlyFields):
        KettleBody.model_validate({"createdAt": "2027-01-01T00:00:00Z"}).confirm_created(VIEW)
