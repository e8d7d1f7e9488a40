"""Keyset pagination on a real table."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import TIMESTAMP, MetaData, delete, select
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from app.core.db import Database
from app.core.keyset import (
    BadCursor,
    PageQuery,
    build_page_sql,
    encode_cursor,
    query_page,
    select_page,
)

START = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)
ROWS = 25


class PageTables(DeclarativeBase):
    metadata = MetaData()


class PageRow(PageTables):
    __tablename__ = "page_rows"

    id: Mapped[str] = mapped_column(primary_key=True)
    created_at: Mapped[datetime] = mapped_column(TIMESTAMP(timezone=True))
    rank: Mapped[int]


KEYS = (PageRow.created_at, PageRow.id)


@pytest.fixture(scope="module")
def tables(database_url: str) -> Iterator[Database]:
    db = Database(database_url, pool_size=1)
    PageTables.metadata.drop_all(db.engine)
    PageTables.metadata.create_all(db.engine)
    yield db
    db.dispose()


@pytest.fixture
def db(tables: Database) -> Database:
    """25 rows; always five share an instant, so that the id must decide."""
    with tables.begin() as session:
        session.execute(delete(PageRow))
        session.add_all(
            PageRow(id=f"row-{n:02}", created_at=START + timedelta(minutes=n // 5), rank=n)
            for n in range(ROWS)
        )
    return tables


def walk(db: Database, limit: int, *, descending: bool = True) -> list[str]:
    row_ids: list[str] = []
    cursor: str | None = None
    while True:
        with db.read() as session:
            page = select_page(
                session,
                select(PageRow),
                keys=KEYS,
                query=PageQuery(limit=limit, cursor=cursor),
                descending=descending,
            )
        assert len(page.rows) <= limit
        row_ids += [row.id for row in page.rows]
        cursor = page.next_cursor
        if cursor is None:
            return row_ids


@pytest.mark.parametrize("limit", [1, 4, 5, 24, 25, 26, 200])
def test_select_page__pages_of_any_size_contain_each_row_once(db: Database, limit: int) -> None:
    assert walk(db, limit) == [f"row-{n:02}" for n in reversed(range(ROWS))]


def test_select_page__supports_ascending_order(db: Database) -> None:
    assert walk(db, 7, descending=False) == [f"row-{n:02}" for n in range(ROWS)]


@pytest.mark.parametrize("limit", [1, 7, 25])
def test_query_page__gives_the_same_pages_as_select_page(db: Database, limit: int) -> None:
    columns = PageRow.__table__.c
    keys = [columns.created_at, columns.id]
    pages = {
        beyond: build_page_sql(
            select(columns.id, columns.created_at), keys=keys, after_cursor=beyond
        )
        for beyond in (False, True)
    }
    row_ids: list[str] = []
    query = PageQuery(limit=limit)
    while True:
        page = query_page(db, pages[query.cursor is not None], {}, keys=keys, query=query)
        assert len(page.rows) <= limit
        row_ids += [row["id"] for row in page.rows]
        if page.next_cursor is None:
            break
        query = PageQuery(limit=limit, cursor=page.next_cursor)
    assert row_ids == walk(db, limit)


def test_select_page__inserted_and_deleted_rows_shift_nothing(db: Database) -> None:
    with db.begin() as session:
        first = select_page(session, select(PageRow), keys=KEYS, query=PageQuery(limit=10))
        session.add(PageRow(id="row-99", created_at=START + timedelta(days=1), rank=99))
        session.delete(first.rows[0])
        session.flush()
        query = PageQuery(limit=10, cursor=first.next_cursor)
        second = select_page(session, select(PageRow), keys=KEYS, query=query)
    assert [row.id for row in second.rows] == [f"row-{n:02}" for n in range(14, 4, -1)]


@pytest.mark.parametrize("values", [[], ["row-1"], [1, "row-1"], ["row-1", START], [START, "a", 1]])
def test_select_page__cursor_of_another_list_is_refused(db: Database, values: list[str]) -> None:
    query = PageQuery(cursor=encode_cursor(values))
    with db.read() as session, pytest.raises(BadCursor, match="start again"):
        select_page(session, select(PageRow), keys=KEYS, query=query)


def test_select_page__hostile_text_in_a_cursor_stays_a_text(db: Database) -> None:
    query = PageQuery(cursor=encode_cursor([START, "'; DROP TABLE page_rows; --"]))
    with db.read() as session:
        assert select_page(session, select(PageRow), keys=KEYS, query=query).rows == []
