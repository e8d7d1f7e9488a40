"""The view of a database row."""

import pytest
from pydantic import ValidationError

from mosaico.core.schemas import WireModel, view_of_row


class LevelView(WireModel):
    """A part of a view."""

    value: float


class RowView(WireModel):
    """A view with columns, a document, and a computed field."""

    id: str
    level: LevelView | None
    tags: list[str]


class Row:
    """A row with other columns, too."""

    id, level, secret = "a", {"value": 1}, "s"


def test_view_of_row__reads_columns_and_takes_computed_fields() -> None:
    view = view_of_row(RowView, Row(), tags=["x"])
    assert view == RowView(id="a", level=LevelView(value=1), tags=["x"])


def test_view_of_row__value_of_another_type_is_refused() -> None:
    with pytest.raises(ValidationError):
        view_of_row(RowView, Row(), tags="x")
