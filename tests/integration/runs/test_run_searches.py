"""Searches of runs against a plain query: any filter, order, page size and batch size."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import ColumnElement, func, insert, or_, select, update
from sqlalchemy.orm import Session

from mosaico.agents.models import Agent
from mosaico.benchmarks.config_types import WriteBackConfig
from mosaico.benchmarks.models import Benchmark
from mosaico.core import keyset
from mosaico.core.db import Database
from mosaico.core.keyset import BadCursor, PageQuery, encode_cursor
from mosaico.core.resources import Resources
from mosaico.run_store import run_list
from mosaico.run_store.models import COMPLETED_KEY, TRACES_KEY, VERDICT_KEY, BenchmarkRun
from mosaico.run_store.run_list import RunListFilter, count_runs, search_runs
from tests.support.replays import write_or_replay

NOW = datetime(2026, 11, 23, 6, tzinfo=UTC)
# Two have the same name in another case; one has no run.
AGENTS = {"a-1": "Zebra", "a-2": "bot", "a-3": "Bot", "a-4": "idle", "a-5": "ant"}
BENCHMARKS = {"b-1": {"name": "bot check"}, "b-2": {}, "b-3": {"name": " "}}
TRIGGERS = ["MANUAL", "SCHEDULED", "WEBHOOK"]
RUNS = 40


@pytest.fixture
def runs(service_resources: Resources) -> Database:
    """Runs of some agents and benchmarks, with equal sort keys in many of them."""
    with service_resources.db.begin() as session:
        write_or_replay(session, "searched runs", NOW, partial(write_runs, session))
    return service_resources.db


def write_runs(session: Session) -> None:
    numbers = random.Random(7)
    session.execute(insert(Agent), [{"id": key, "name": name} for key, name in AGENTS.items()])
    for key, metadata in BENCHMARKS.items():
        session.add(Benchmark(id=key, metadata_=metadata, metrics=[], write_back=WriteBackConfig(), min_coverage=0.0, max_error_share=1.0))  # fmt: skip
    session.flush()
    for number in range(RUNS):
        run = BenchmarkRun(
            id=f"run-{number}",
            agent_id=numbers.choice(["a-1", "a-2", "a-3", "a-5"]),
            benchmark_id=numbers.choice(list(BENCHMARKS)),
            status=numbers.choice(["COMPLETED", "FAILED"]),
            triggered_by=numbers.choice(TRIGGERS),
            validity=numbers.choice(["VALID", "INVALID"]),
            error_message=numbers.choice([None, "a bot failed"]),
            run_name=numbers.choice([None, "ant", "nightly"]),
            traces_total=numbers.choice([None, 1, 2]),
            schedule_id=numbers.choice([None, "s-1"]),
            created_at=NOW + timedelta(seconds=number // 4),
            completed_at=numbers.choice([None, NOW]),
        )
        session.add(run)
        # In the order of the numbers.
        session.flush()


def sort_columns(sort: str) -> list[ColumnElement[Any]]:
    """The plain order: by name, then by ID of the owner, then in the order of creation."""
    keys: dict[str, list[Any]] = {
        "created": [],
        "completed": [COMPLETED_KEY],
        "agent": [func.lower(Agent.name), Agent.id],
        "benchmark": [
            func.lower(
                func.coalesce(
                    func.nullif(func.trim(Benchmark.metadata_["name"].astext), ""), Benchmark.id
                )
            ),
            Benchmark.id,
        ],
        "status": [BenchmarkRun.status],
        "verdict": [VERDICT_KEY],
        "traces": [TRACES_KEY],
    }
    return [
        key.desc() if sort.startswith("-") else key.asc()
        for key in (*keys[sort.removeprefix("-")], BenchmarkRun.seq)
    ]


def list_plainly(session: Session, run_filter: RunListFilter, sort: str) -> list[str]:
    statement = (
        select(BenchmarkRun.id)
        .join(Agent, Agent.id == BenchmarkRun.agent_id)
        .join(Benchmark, Benchmark.id == BenchmarkRun.benchmark_id)
        .order_by(*sort_columns(sort))
    )
    columns: dict[Any, Sequence[str]] = {
        BenchmarkRun.agent_id: run_filter.agent_ids,
        BenchmarkRun.benchmark_id: run_filter.benchmark_ids,
        BenchmarkRun.status: run_filter.statuses,
        BenchmarkRun.schedule_id: run_filter.schedule_ids,
        BenchmarkRun.triggered_by: run_filter.triggers,
        BenchmarkRun.validity: run_filter.validities,
        VERDICT_KEY: run_filter.verdicts,
    }
    for column, values in columns.items():
        if values:
            statement = statement.where(column.in_(values))
    if run_filter.since:
        statement = statement.where(BenchmarkRun.created_at >= run_filter.since)
    if run_filter.until:
        statement = statement.where(BenchmarkRun.created_at < run_filter.until)
    if run_filter.text:
        pattern = f"%{run_filter.text}%"
        searched = (
            BenchmarkRun.id, BenchmarkRun.run_name, BenchmarkRun.error_message, Agent.id, Agent.name,
            Benchmark.id, Benchmark.metadata_["name"].astext,
        )  # fmt: skip
        statement = statement.where(or_(*(column.ilike(pattern) for column in searched)))
    return list(session.scalars(statement))


def read_pages(db: Database, run_filter: RunListFilter, sort: str, limit: int) -> list[list[str]]:
    pages: list[list[str]] = []
    query = PageQuery(limit=limit)
    while True:
        with db.read() as session:
            page = search_runs(session, run_filter, sort, query)
        pages.append([run["id"] for run in page.rows])
        if page.next_cursor is None:
            return pages
        query = PageQuery(limit=limit, cursor=page.next_cursor)


def random_filter(numbers: random.Random) -> RunListFilter:
    """Half of the filters select nothing."""
    since = NOW + timedelta(seconds=numbers.randint(0, 9))
    return RunListFilter.unchecked(
        agent_ids=numbers.choice([[], [], ["a-1"], ["a-2", "a-3"], ["a-4"]]),
        benchmark_ids=numbers.choice([[], [], ["b-1"], ["b-1", "b-3"]]),
        statuses=numbers.choice([[], [], ["FAILED"], ["FAILED", "COMPLETED"]]),
        schedule_ids=numbers.choice([[], [], [], ["s-1"]]),
        triggers=numbers.choice([[], [], ["WEBHOOK"], ["MANUAL", "WEBHOOK"]]),
        validities=numbers.choice([[], [], ["INVALID"]]),
        verdicts=numbers.choice([[], [], [], ["INVALID"]]),
        since=numbers.choice([None, None, since]),
        until=numbers.choice([None, None, NOW + timedelta(seconds=9)]),
        text=numbers.choice([None, None, "bot", "ant", "run-3", "b-", "nothing"]),
    )


# Each seed is 24 filters. Three have met every kind of search; `make prove` looks for rare pairs.
@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.prove) for seed in range(3, 12))]
)
def test_search_runs__pages_are_those_of_a_plain_query(
    runs: Database, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    numbers = random.Random(seed)
    for _ in range(24):
        monkeypatch.setattr(keyset, "BATCH_ROWS", numbers.randint(1, 60))
        # Negative: each page has one batch.
        monkeypatch.setattr(keyset, "SEARCH_TIME_S", numbers.choice([-1.0, 60.0]))
        run_filter = random_filter(numbers)
        sort = numbers.choice(["", "-"]) + numbers.choice(list(run_list.SORT_KEYS))
        limit = numbers.randint(1, 45)
        with runs.read() as session:
            expected = list_plainly(session, run_filter, sort)

        pages = read_pages(runs, run_filter, sort, limit)

        assert [run_id for page in pages for run_id in page] == expected, (run_filter, sort, limit)
        assert all(len(page) <= limit for page in pages)


@pytest.mark.parametrize("batch_rows", [3, 8, 1_000])
def test_count_runs__is_that_of_a_plain_query(
    runs: Database, monkeypatch: pytest.MonkeyPatch, batch_rows: int
) -> None:
    monkeypatch.setattr(keyset, "BATCH_ROWS", batch_rows)
    monkeypatch.setattr(run_list, "COUNT_TIME_S", 60.0)
    numbers = random.Random(batch_rows)
    for _ in range(20):
        run_filter = random_filter(numbers)
        with runs.read() as session:
            expected = len(list_plainly(session, run_filter, "created"))
            assert count_runs(session, run_filter) == (expected, True), run_filter


def test_count_runs__stops_at_its_limit(runs: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyset, "BATCH_ROWS", 3)
    monkeypatch.setattr(run_list, "COUNT_TIME_S", 60.0)
    monkeypatch.setattr(run_list, "MAX_COUNTED", RUNS - 1)
    with runs.read() as session:
        assert count_runs(session, RunListFilter()) == (RUNS - 1, False)
        assert count_runs(session, RunListFilter(text="run")) == (RUNS - 1, False)

    monkeypatch.setattr(run_list, "MAX_COUNTED", RUNS)
    with runs.read() as session:
        assert count_runs(session, RunListFilter()) == (RUNS, True)
        assert count_runs(session, RunListFilter(text="run")) == (RUNS, True)


def test_count_runs__without_time_counts_one_batch(
    runs: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyset, "BATCH_ROWS", 3)
    monkeypatch.setattr(run_list, "COUNT_TIME_S", -1.0)
    with runs.read() as session:
        assert count_runs(session, RunListFilter(text="run")) == (3, False)
        assert count_runs(session, RunListFilter(text="nothing")) == (0, False)


def test_search_runs__an_owner_renamed_between_pages_is_listed_at_its_new_place(
    runs: Database,
) -> None:
    with runs.read() as session:
        page = search_runs(session, RunListFilter(), "agent", PageQuery(limit=1))
    # The runs of "ant" come first; they are last as "zz".
    assert page.rows[0]["agent_id"] == "a-5"
    with runs.begin() as session:
        session.execute(update(Agent).where(Agent.id == "a-5").values(name="zz"))
    with runs.read() as session:
        following = PageQuery(limit=200, cursor=page.next_cursor)
        rows = search_runs(session, RunListFilter(), "agent", following).rows
        expected = list_plainly(session, RunListFilter(), "agent")

    assert [run["id"] for run in rows] == expected


def test_search_runs__an_owner_renamed_after_all_its_runs_hides_no_other(
    runs: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_filter = RunListFilter(text="run")
    # A page ends after the runs of one owner.
    with runs.read() as session:
        run_count = len(list_plainly(session, RunListFilter(agent_ids=["a-5"]), "agent"))
        page = search_runs(session, run_filter, "agent", PageQuery(limit=run_count))
        expected = list_plainly(session, run_filter, "agent")[len(page.rows) :]
    assert {run["agent_id"] for run in page.rows} == {"a-5"}
    # The new name comes before that in the cursor.
    with runs.begin() as session:
        session.execute(update(Agent).where(Agent.id == "a-5").values(name="aaa"))

    following: list[str] = []
    query = PageQuery(limit=200, cursor=page.next_cursor)
    while True:
        with runs.read() as session:
            page = search_runs(session, run_filter, "agent", query)
        following += [run["id"] for run in page.rows]
        if page.next_cursor is None:
            break
        query = PageQuery(limit=200, cursor=page.next_cursor)

    assert following == expected


@pytest.mark.parametrize(
    "values",
    [["a", 1], ["a", "a-1"], [1, "a-1", 1], ["a", "a-1", "1"], ["a", "a-1", 1, 1], []],
)
def test_search_runs__cursor_of_another_order_is_refused(
    runs: Database, values: list[str | int]
) -> None:
    query = PageQuery(cursor=encode_cursor(values))
    with runs.read() as session, pytest.raises(BadCursor):
        search_runs(session, RunListFilter(), "agent", query)


@pytest.mark.parametrize("seq", [2**63 - 1, -(2**63), 0])
@pytest.mark.parametrize("sort", ["agent", "-agent"])
def test_search_runs__numbers_at_the_limits_are_cursors(
    runs: Database, sort: str, seq: int
) -> None:
    query = PageQuery(limit=200, cursor=encode_cursor(["bot", "a-2", seq]))
    with runs.read() as session:
        rows = search_runs(session, RunListFilter(text="run"), sort, query).rows

    assert len(rows) <= RUNS
