"""The cursor of a collection: opaque to others, whole to us."""

from datetime import UTC, datetime

import pytest

from app.traces.registry import CollectionFailed
from app.traces.sources.langfuse.cursor import START, Position, read_position
from app.traces.sources.langfuse.reader import FoundRun

RUN = FoundRun(id="e-1", name='night "1"\n', dataset_name=None, start=1, end=2, count=3)
POSITION = Position(
    api="v4",
    run=RUN,
    project_id="p-1",
    as_of=datetime(2026, 11, 21, 23, 59, 59, 123456, tzinfo=UTC),
    read=100,
    passes=2,
    rest={"rows": [[0, 1, 100, "c"]]},
)


def test_a_position_is_read_as_it_was_written() -> None:
    assert read_position(POSITION.text()) == POSITION


@pytest.mark.parametrize("cursor", [None, START])
def test_the_beginning_has_no_position(cursor: str | None) -> None:
    assert read_position(cursor) is None


@pytest.mark.parametrize("cursor", ["7:20:upload", '{"v":2}', '{"v":1,"api":"v4"}', "[]"])
def test_a_cursor_of_somebody_else_is_told(cursor: str) -> None:
    with pytest.raises(CollectionFailed, match="another version"):
        read_position(cursor)
