"""A view that is made from the values of columns is the one that a validation would make."""

from datetime import UTC, datetime
from typing import Annotated

import pytest
from pydantic import Field, ValidationError

from mosaico.core.schemas import WireModel, view_of_row, view_of_values

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


class LevelView(WireModel):
    """A part of a view."""

    value: float


class RowView(WireModel):
    """A view with each kind of field."""

    id: str
    run_count: int
    is_open: bool
    ended_at: datetime | None
    level: LevelView | None
    share: Annotated[float, Field(ge=0)]
    tags: list[str]


VALUES = {
    "id": "a",
    "run_count": 3,
    "is_open": True,
    "ended_at": NOON,
    "level": {"value": 1},
    "share": 1,
    "tags": ["x"],
}


@pytest.mark.parametrize("empty", [(), ("ended_at", "level")])
def test_view_of_values__equals_a_validated_view(empty: tuple[str, ...]) -> None:
    values = VALUES | dict.fromkeys(empty)
    new_view, validated = view_of_values(RowView, dict(values)), RowView.model_validate(values)
    assert new_view == validated
    assert new_view.model_dump_json(by_alias=True) == validated.model_dump_json(by_alias=True)
    assert new_view.model_fields_set == validated.model_fields_set
    assert new_view.model_copy(update={"id": "b"}).id == "b"


@pytest.mark.parametrize(("name", "value"), [("level", {"value": "x"}), ("share", -1)])
def test_view_of_values__checks_what_is_not_a_column(name: str, value: object) -> None:
    with pytest.raises(ValidationError):
        view_of_values(RowView, {**VALUES, name: value})


def test_view_of_row__reads_columns_and_takes_computed_fields() -> None:
    class Row:
        """A row with other columns, too."""

        id, run_count, is_open, ended_at, level, share, secret = "a", 3, False, None, None, 0.5, "s"

    view = view_of_row(RowView, Row(), tags=["x"])
    assert view.model_dump(by_alias=False) == {
        "id": "a",
        "run_count": 3,
        "is_open": False,
        "ended_at": None,
        "level": None,
        "share": 0.5,
        "tags": ["x"],
    }
