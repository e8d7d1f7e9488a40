"""Keyset pagination on a real table."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import TIMESTAMP, MetaData, delete, select
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from mosaico.core import keyset
from mosaico.core.db import Database
from mosaico.core.keyset import (
    BadCursor,
    PageQuery,
    encode_cursor,
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


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyset, "BATCH_ROWS", 4)


def search(db: Database, limit: int, ranks: set[int], *, descending: bool) -> list[list[str]]:
    """The pages of a search for the rows of some ranks."""
    pages: list[list[str]] = []
    query = PageQuery(limit=limit)
    while True:
        with db.read() as session:
            page = select_page(
                session,
                select(PageRow),
                keys=KEYS,
                query=query,
                descending=descending,
                conditions=[PageRow.rank.in_(ranks)],
            )
        pages.append([row.id for row in page.rows])
        if page.next_cursor is None:
            return pages
        query = PageQuery(limit=limit, cursor=page.next_cursor)


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("ranks", [set[int](), {0}, {24}, {3, 4, 5, 11, 12, 23}, set(range(ROWS))])
@pytest.mark.parametrize("limit", [1, 2, 5, 30])
def test_select_page__search_finds_each_match_once_and_fills_its_pages(
    db: Database, limit: int, ranks: set[int], descending: bool
) -> None:
    pages = search(db, limit, ranks, descending=descending)

    row_ids = [row_id for page in pages for row_id in page]
    assert row_ids == [f"row-{n:02}" for n in sorted(ranks, reverse=descending)]
    # Only the last page may have less.
    assert all(len(page) == limit for page in pages[:-1])


@pytest.mark.usefixtures("small_batches")
def test_select_page__search_without_time_continues_at_its_cursor(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyset, "SEARCH_TIME_S", -1.0)

    pages = search(db, 5, {1, 24}, descending=True)

    # Seven windows of four rows, the first of which has row 24 and the sixth one row 1.
    assert pages == [["row-24"], [], [], [], [], ["row-01"], []]
