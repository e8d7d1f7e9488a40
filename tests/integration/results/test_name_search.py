"""The search by name: agents, benchmarks, KPIs, alert rules, schedules and runs, in bounded batches."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import pytest
from sqlalchemy.orm import Session

from benchmarks.table_rows import insert_rows
from mosaico.core import keyset
from mosaico.core.db import Database
from mosaico.core.keyset import BadCursor
from mosaico.overview.schemas import SearchGroup, SearchKind
from mosaico.overview.search import MAX_MATCHES, search_names
from tests.support.service import Service

# In two cases, with equal names: "Bot 0", "bot 1", "Bot 2", "bot 0", …
NAME: Final = "CASE WHEN n % 2 = 1 THEN 'Bot ' ELSE 'bot ' END || n % 3"
ROWS: Final = 25
TABLES: Final = {
    SearchKind.AGENT: ("agents", {"id": "'a-' || n", "archived": "n = 5"}),
    SearchKind.BENCHMARK: (
        "benchmarks",
        {
            "id": "'b-' || n",
            "metrics": "'[]'",
            "archived": "n = 5",
            "metadata": f"CASE WHEN n > 3 THEN jsonb_build_object('name', {NAME}) ELSE '{{}}' END",
        },
    ),
    SearchKind.KPI: (
        "kpi_definitions",
        {
            "id": "'k-' || n",
            # That of the last ones is archived.
            "benchmark_id": "CASE WHEN n > 20 THEN 'b-5' ELSE 'b-' || n END",
            "name": f"CASE WHEN n > 20 THEN 'bot ' || n ELSE {NAME} END",
            "revision": "1",
            "retired_at": "CASE WHEN n = 6 THEN now() END",
        },
    ),
    SearchKind.ALERT_RULE: ("alert_rules", {"id": "'r-' || n", "benchmark_id": "'b-1'", "agent_id": "NULL"}),
    SearchKind.SCHEDULE: ("schedule_configs", {"id": "'s-' || n", "benchmark_id": "'b-1'", "agent_id": "'a-1'"}),
}  # fmt: skip


@pytest.fixture(scope="module")
def names(module_database: Database) -> Database:
    """`ROWS` rows of each kind; some are archived or retired, three benchmarks have no name."""
    with module_database.begin() as session:
        for table, columns in TABLES.values():
            named = columns if table == "benchmarks" else {"name": NAME, **columns}
            insert_rows(session, table, named, ROWS)
    return module_database


@pytest.fixture
def slow_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search reads one batch of each kind."""
    monkeypatch.setattr(keyset, "SEARCH_TIME_S", -1.0)
    monkeypatch.setattr(keyset, "BATCH_ROWS", 2)


def expected_name(prefix: str, number: int) -> str:
    name = f"{'Bot' if number % 2 else 'bot'} {number % 3}"
    if prefix == "k" and number > 20:
        return f"bot {number}"
    return f"b-{number}" if prefix == "b" and number <= 3 else name


def expected_ids(kind: SearchKind, part: str) -> list[str]:
    """The listed rows with a part in the ID or the name, by name without regard to case, then by ID."""
    prefix = TABLES[kind][1]["id"][1]
    hidden = {
        SearchKind.AGENT: {5},
        SearchKind.BENCHMARK: {5},
        SearchKind.KPI: {5, 6, *range(21, ROWS + 1)},
    }.get(kind, set())
    rows = [(expected_name(prefix, n).lower(), f"{prefix}-{n}") for n in range(1, ROWS + 1) if n not in hidden]  # fmt: skip
    return [id_ for name, id_ in sorted(rows) if part in name or part in id_]


def read_groups(session: Session, part: str, kind: SearchKind) -> Iterator[SearchGroup]:
    cursor = None
    while True:
        groups = search_names(session, part, kind, cursor).groups
        yield from groups
        if not groups or groups[0].next_cursor is None:
            return
        cursor = groups[0].next_cursor


def group_of(groups: list[SearchGroup], kind: SearchKind) -> SearchGroup:
    return next(group for group in groups if group.kind is kind)


@pytest.mark.parametrize("kind", list(TABLES))
@pytest.mark.parametrize("part", ["bot", "bot 2", "-1", "nothing"])
def test_search_names__pages_are_those_of_a_plain_query(
    names: Database, monkeypatch: pytest.MonkeyPatch, kind: SearchKind, part: str
) -> None:
    numbers = random.Random(part)
    for batch_rows in (1, 4, 100):
        monkeypatch.setattr(keyset, "BATCH_ROWS", batch_rows)
        monkeypatch.setattr(keyset, "SEARCH_TIME_S", numbers.choice([-1.0, 60.0]))
        with names.read() as session:
            pages = list(read_groups(session, part, kind))

        assert [match.id for page in pages for match in page.matches] == expected_ids(kind, part)
        assert all(len(page.matches) <= MAX_MATCHES for page in pages)


def test_search_names__first_of_each_kind_come_in_the_order_of_names(names: Database) -> None:
    with names.read() as session:
        groups = search_names(session, "BOT 0").groups

    # The multiples of 3, in either case; no run is stored.
    assert [group.kind for group in groups] == list(TABLES)
    agents = group_of(groups, SearchKind.AGENT)
    assert [match.id for match in agents.matches] == [
        "a-12", "a-15", "a-18", "a-21", "a-24", "a-3", "a-6", "a-9"
    ]  # fmt: skip
    assert agents.next_cursor is None
    kpis = group_of(groups, SearchKind.KPI)
    # KPI 6 is retired; the benchmark of those from 21 on is archived; b-3 has no name.
    assert [(match.id, match.benchmark_name) for match in kpis.matches] == [
        ("k-12", "bot 0"), ("k-15", "Bot 0"), ("k-18", "bot 0"), ("k-3", "b-3"), ("k-9", "Bot 0")
    ]  # fmt: skip


@pytest.mark.usefixtures("slow_search")
def test_search_names__kind_that_was_not_read_to_its_end_is_named(names: Database) -> None:
    with names.read() as session:
        groups = search_names(session, "nothing").groups
        # Its two first names are read.
        first = group_of(search_names(session, "a-12").groups, SearchKind.AGENT)

    assert [group.kind for group in groups] == list(TABLES)
    assert all(group.matches == [] and group.next_cursor for group in groups)
    assert [match.id for match in first.matches] == ["a-12"]
    assert first.next_cursor is not None


@pytest.mark.parametrize("key", [[7], [7, "id"], [datetime(2026, 1, 1, tzinfo=UTC), "id"]])
def test_search_names__cursor_of_another_list_is_refused(
    names: Database, key: list[keyset.CursorValue]
) -> None:
    with names.read() as session, pytest.raises(BadCursor):
        search_names(session, "bot", SearchKind.AGENT, keyset.encode_cursor(key))


def test_search__cursor_without_its_kind_is_refused(service: Service) -> None:
    problem = service.expect_problem(422, "GET", "/overview/search?text=bot&cursor=WzFd")
    assert [error["pointer"] for error in problem["errors"]] == ["cursor"]


@pytest.mark.usefixtures("slow_search")
def test_search_page__only_match_opens_when_every_kind_was_read_to_its_end(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        service.create_agent(id=f"agent-{number}", name=f"Robot {number}")
    path, headers = "/search?text=robot+0", {"Accept": "text/html"}

    page = service.client.get(path, headers=headers)
    assert page.status_code == 200
    assert "The search stopped before the last name; more may match." in page.text
    assert "kind=AGENT&amp;cursor=" in page.text

    monkeypatch.setattr(keyset, "SEARCH_TIME_S", 60.0)
    page = service.client.get(path, headers=headers)
    assert (page.status_code, page.headers["location"]) == (303, "/agents/agent-0")


@pytest.mark.usefixtures("slow_search")
def test_search_page__continued_search_ends(service: Service) -> None:
    for number in range(3):
        service.create_agent(id=f"agent-{number}", name=f"Robot {number}")
    [group] = service.get("/overview/search", text="nothing")["groups"]
    assert (group["kind"], group["matches"]) == ("AGENT", [])
    following = {"kind": "AGENT", "cursor": group["nextCursor"]}

    assert service.get("/overview/search", text="nothing", **following) == {"groups": []}
    page = service.client.get("/search", params={"text": "nothing", **following})
    assert "Nothing else has this text" in page.text
    # One match of a part of the names is not the only one.
    page = service.client.get("/search", params={"text": "robot 2", **following})
    assert (page.status_code, "Robot 2" in page.text) == (200, True)


@pytest.mark.usefixtures("slow_search")
def test_search__names_of_any_length_are_cursors(service: Service) -> None:
    """A cursor holds the name; that of a benchmark may be longer than an entry of an index."""
    # Random characters: Postgres would compress equal ones until they fit into an index.
    characters = random.Random(7)
    name = "".join(chr(characters.randrange(0x20000, 0x2A000)) for _ in range(9_000))
    for number in range(3):
        service.create_agent(id=f"a-{number}", name="\U0001f916" * 200)
        service.create_benchmark(id=f"b-{number}", metadata={"name": f"{name}{number}"})

    groups = service.get("/overview/search", text="nothing")["groups"]
    assert [group["kind"] for group in groups] == ["AGENT", "BENCHMARK"]
    for group in groups:
        query = {"text": "nothing", "kind": group["kind"], "cursor": group["nextCursor"]}
        assert service.get("/overview/search", **query) == {"groups": []}
