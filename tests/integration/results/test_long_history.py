"""Pages of a long history: the last run of each agent, and the values of KPIs by any filter."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from benchmarks.table_rows import TIME, insert_rows
from mosaico.core.db import Database
from mosaico.core.keyset import PageQuery
from mosaico.kpis.queries import KpiHistoryFilter, KpiOrder, list_kpi_history
from mosaico.overview.queries import read_overview

RUNS = 3_000
BENCHMARKS = 3
KPIS = ("rare", "common")
KPI_NAME = "CASE WHEN n % 100 = 0 THEN 'rare' ELSE 'common' END"
PAGE = PageQuery(limit=10, cursor=None)
NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def long_history(module_database: Database) -> Database:
    """`RUNS` runs of one agent on three benchmarks; the KPI `rare` belongs to every hundredth."""
    with module_database.begin() as session:
        insert_rows(session, "agents", {"id": "'a'"})
        insert_rows(session, "benchmarks", {"id": "'b-' || n", "metrics": "'[]'"}, BENCHMARKS)
        for name in KPIS:
            kpi = {"id": f"'{name}-' || n", "benchmark_id": "'b-' || n", "revision": "1"}
            insert_rows(session, "kpi_definitions", {**kpi, "name": f"'{name}'"}, BENCHMARKS)
        insert_rows(
            session,
            "benchmark_runs",
            {
                "id": "'run-' || n",
                "benchmark_id": f"'b-' || 1 + n % {BENCHMARKS}",
                "agent_id": "'a'",
                "status": "'COMPLETED'",
                "triggered_by": "'MANUAL'",
                "validity": "'VALID'",
                "verdict": "jsonb_build_object('explanation', 'x', 'verdict', CASE WHEN n % 2 = 0 THEN 'IMPROVED' ELSE 'REGRESSED' END)",
                "completed_at": TIME,
                "traces_total": "n",
            },
            RUNS,
        )
        insert_rows(
            session,
            "kpi_history",
            {
                "run_seq": "n",
                "run_id": "'run-' || n",
                "kpi_id": f"{KPI_NAME} || '-' || 1 + n % {BENCHMARKS}",
                "name": KPI_NAME,
                "benchmark_id": f"'b-' || 1 + n % {BENCHMARKS}",
                "agent_id": "'a'",
                "direction": "'HIGHER_IS_BETTER'",
                "validity": "'VALID'",
                "recorded_at": TIME,
            },
            RUNS,
        )
        session.execute(text("ANALYZE"))
    return module_database


def test_overview__has_the_last_run_of_each_agent(long_history: Database) -> None:
    with long_history.read() as session:
        overview = read_overview(session, NOW, NOW)

    assert sorted(cell.run_id for cell in overview.cells) == ["run-2998", "run-2999", "run-3000"]


def test_overview__passes_over_runs_that_have_not_ended(long_history: Database) -> None:
    with Session(long_history.engine) as session:  # nothing is committed
        # One in progress, a rescored one, and one of an archived benchmark.
        session.execute(text("UPDATE benchmark_runs SET status = 'RUNNING' WHERE id = 'run-3000'"))
        session.execute(
            text("UPDATE benchmark_runs SET rescore_of = 'run-1' WHERE id = 'run-2999'")
        )
        session.execute(text("UPDATE benchmarks SET archived = true WHERE id = 'b-2'"))
        overview = read_overview(session, NOW, NOW)

    # The runs 2998, 2999 and 3000 are of the second, third and first benchmark.
    assert sorted(cell.run_id for cell in overview.cells) == ["run-2996", "run-2997"]


@pytest.mark.parametrize("agent", ["a", None])
@pytest.mark.parametrize("sort", ["benchmark", "-benchmark", "kpi", "-kpi"])
def test_kpi_history__of_one_kpi_is_in_the_order_of_time_whatever_it_has_in_common(
    long_history: Database, agent: str | None, sort: KpiOrder
) -> None:
    history_filter = KpiHistoryFilter(
        benchmark_ids=["b-1"], agent_ids=[agent] if agent else [], kpis=["rare"]
    )
    with long_history.read() as session:
        page = list_kpi_history(session, PAGE, history_filter, sort=sort)

    expected = [f"run-{number}" for number in range(300, RUNS + 1, 300)]
    expected = expected[::-1] if sort.startswith("-") else expected
    assert [entry.run_id for entry in page.rows] == expected[: PAGE.limit]
