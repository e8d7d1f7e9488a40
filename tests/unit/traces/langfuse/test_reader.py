"""The cursor of a Langfuse collection."""

from datetime import UTC, datetime

import pytest

from mosaico.traces.registry import CollectionFailed
from mosaico.traces.sources.langfuse.reader import (
    INITIAL_CURSOR,
    CollectionCursor,
    ExperimentRun,
    parse_cursor,
)

RUN = ExperimentRun(id="e-1", name='night "1"\n', dataset_name=None, start=1, end=2, item_count=3)
POSITION = CollectionCursor(
    api="v4",
    run=RUN,
    project_id="p-1",
    as_of=datetime(2026, 11, 21, 23, 59, 59, 123456, tzinfo=UTC),
    traces_read=100,
    completed_passes=2,
    remaining={"rows": [[0, 1, 100, "c"]]},
)


def test_parse_cursor__reverses_encode() -> None:
    assert parse_cursor(POSITION.encode()) == POSITION


@pytest.mark.parametrize("cursor", [None, INITIAL_CURSOR])
def test_parse_cursor__start_is_none(cursor: str | None) -> None:
    assert parse_cursor(cursor) is None


@pytest.mark.parametrize("cursor", ["7:20:upload", '{"v":2}', '{"v":1,"api":"v4"}', "[]"])
def test_parse_cursor__foreign_cursor_raises(cursor: str) -> None:
    with pytest.raises(CollectionFailed, match="another version"):
        parse_cursor(cursor)
