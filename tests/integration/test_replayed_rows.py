"""Rows of tests that are copied instead of written again are the same rows at another time."""

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from sqlalchemy import text

from mosaico.core.db import Database
from mosaico.table_list import METADATA
from tests.support.page_data import write_month
from tests.support.recycling import Databases
from tests.support.replays import write_or_replay

NOW: Final = datetime(2031, 5, 17, 9, tzinfo=UTC)
HOUR: Final = timedelta(hours=1)
INSERT: Final = text("INSERT INTO audit_log (actor_type, actor_id, action, resource_type, outcome, fields)"
                     " VALUES ('key', :actor, 'create', 'agent', 'done', '{}')")  # fmt: skip


def read_rows(db: Database) -> dict[str, list[dict[str, Any]]]:
    """All rows in their order, without their times."""
    with db.read() as session:
        return {
            name: [
                {column: value for column, value in row.items() if not column.endswith("_at")}
                for row in session.scalars(text(f"SELECT to_jsonb(t) FROM {name} t ORDER BY ctid"))
            ]
            for name in METADATA.tables
        }


def read_times(db: Database) -> list[datetime]:
    with db.read() as session:
        return list(session.scalars(text("SELECT created_at FROM benchmark_runs ORDER BY seq")))


def next_run_number(db: Database) -> int:
    with db.begin() as session:
        query = text("SELECT nextval(pg_get_serial_sequence('benchmark_runs', 'seq'))")
        return int(session.execute(query).scalar_one())


def test_replay__has_the_rows_of_the_first_time_and_the_times_of_the_second(
    databases: Databases,
) -> None:
    names = [databases.take(), databases.take()]
    first, second = map(databases.client, names)
    for db, now in ((first, NOW), (second, NOW + HOUR)):
        with db.begin() as session:
            write_month(session, nights=3, now=now)
    rows = read_rows(first)
    assert len(rows["benchmark_runs"]) == 3 * 7 + 1
    assert read_rows(second) == rows
    assert read_times(second) == [time + HOUR for time in read_times(first)]
    assert next_run_number(first) == next_run_number(second) == 3 * 7 + 2
    for name in names:
        databases.give_back(name)


def test_replay__where_rows_would_get_other_numbers_is_written(
    migrated_database: Database,
) -> None:
    actors = ["first", "second"]
    with migrated_database.begin() as session:
        for actor in actors:
            write_or_replay(
                session, actors[0], NOW, partial(session.execute, INSERT, {"actor": actor})
            )
        written = session.scalars(text("SELECT actor_id FROM audit_log ORDER BY seq"))
        assert list(written) == actors
