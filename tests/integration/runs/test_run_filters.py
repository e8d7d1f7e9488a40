"""Filters, text search and order of the list of runs."""

from datetime import UTC, datetime

import pytest

from mosaico.core import keyset
from mosaico.core.keyset import PageQuery
from mosaico.core.web import csv_files
from mosaico.run_store import queries, trace_list
from mosaico.run_store.trace_list import TraceListFilter, search_traces
from tests.support.page_data import BENCHMARKS, write_month, write_names, write_run
from tests.support.service import Service, pointers

NOW = datetime(2026, 11, 23, 6, tzinfo=UTC)


@pytest.fixture(params=[None, 2], ids=["one-window", "windows-of-two"], autouse=True)
def _window(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many rows a statement of a search reads."""
    if request.param is not None:
        monkeypatch.setattr(keyset, "BATCH_ROWS", request.param)
        monkeypatch.setattr(queries, "SEARCHED_TRACES", request.param)
        monkeypatch.setattr(trace_list, "SEARCHED_TRACES", request.param)


# Once, for a test that sets the sizes itself or searches nothing.
in_one_window = pytest.mark.parametrize("_window", [None], indirect=True, ids=["one-window"])


@pytest.fixture(scope="module")
def month(module_service: Service) -> Service:
    """Two nights of three agents; in the last one a run regressed and one is invalid. No test of this file
    changes them.
    """
    with module_service.resources.db.begin() as session:
        write_month(session, nights=2, now=NOW)
    return module_service


def ids(service: Service, **filters: object) -> list[str]:
    return [run["id"] for run in service.list_items("/benchmark-runs", limit=3, **filters)]


def test_list_runs__filters_accept_lists_of_values(month: Service) -> None:
    assert set(ids(month, benchmarkId=["support", "tickets"], agentId=["sql", "triage"])) == {
        f"run-{pair}-{night}"
        for pair in ("sql-support", "sql-tickets", "triage-tickets")
        for night in (0, 1)
    }
    assert ids(month, triggeredBy="MANUAL") == ["run-in-progress"]
    # Two nights of seven pairs, and the run in progress.
    assert len(ids(month, triggeredBy=["MANUAL", "SCHEDULED"])) == 15
    assert ids(month, triggeredBy="WEBHOOK") == []


def test_list_runs__verdict_and_validity(month: Service) -> None:
    assert ids(month, verdict="REGRESSED") == ["run-billing-support-0"]
    assert set(ids(month, verdict=["REGRESSED", "IMPROVED"])) == {
        "run-billing-support-0",
        "run-sql-warehouse-0",
    }
    assert ids(month, validity="INVALID") == ["run-triage-tickets-0"]
    # All of the 14 finished runs but one; the run in progress has no validity yet.
    assert len(ids(month, validity="VALID")) == 13


def test_list_runs__text_is_a_part_of_an_id_a_name_or_an_error(month: Service) -> None:
    assert set(ids(month, text="BILLING-supp")) == {
        "run-billing-support-0",
        "run-billing-support-1",
    }
    assert ids(month, text="100%") == []
    assert set(ids(month, text="sql copilot")) == set(ids(month, agentId="sql"))
    assert set(ids(month, text="Triage, nightly")) == set(ids(month, benchmarkId="tickets"))


def test_list_runs__sort_is_kept_over_pages(month: Service) -> None:
    agents = [run["agentId"] for run in month.list_items("/benchmark-runs", limit=4, sort="agent")]
    assert agents == sorted(agents)
    assert len(agents) == 15
    # Names as they are shown: "Support, nightly" of `support` stands before "Triage, nightly" of `tickets`.
    benchmarks = [
        run["benchmarkId"] for run in month.list_items("/benchmark-runs", sort="-benchmark")
    ]
    assert list(dict.fromkeys(benchmarks)) == ["tickets", "support", "warehouse"]
    assert ids(month, sort="created") == ids(month)[::-1]
    assert ids(month, sort="-created", text="run") == ids(month)


def test_list_runs__of_a_schedule(service: Service) -> None:
    with service.resources.db.begin() as session:
        write_names(session)
        for number, schedule_id in enumerate(("nightly", "weekly", None)):
            [benchmark_id, *_] = BENCHMARKS
            run = write_run(session, f"run-{number}", "sql", benchmark_id, NOW, value=0.5)
            run.schedule_id = schedule_id
    assert ids(service, scheduleId="nightly") == ["run-0"]
    assert set(ids(service, scheduleId=["nightly", "weekly"])) == {"run-0", "run-1"}
    assert service.get("/benchmark-runs/run-0")["scheduleId"] == "nightly"


def test_list_results__filters_select_items_texts_and_values(month: Service) -> None:
    path = "/benchmark-runs/run-billing-support-0/results"

    def items(**filters: object) -> list[str]:
        return [row["itemId"] for row in month.list_items(path, limit=20, **filters)]

    # Ten items fail in each of three trials.
    assert items(metric="EXACT_MATCH", below=0.5) == [f"case-{n // 3:03}" for n in range(30)]
    assert items(itemId="case-003") == ["case-003"] * 3
    assert items(text="CASE-05", metric="EXACT_MATCH", below=0.5) == []
    assert set(items(text="CASE-05")) == {f"case-05{n}" for n in range(8)}
    assert items(metric="EXACT_MATCH", state="missing") == items(state="failed") == []
    month.expect_problem(422, "GET", path, params={"metric": "NO_METRIC", "below": 1})


@in_one_window
def test_runs_csv__has_every_match_of_a_search_with_short_pages(
    month: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyset, "BATCH_ROWS", 1)
    # Negative: each page ends after one batch, as in a table that is too large for the time.
    monkeypatch.setattr(keyset, "SEARCH_TIME_S", -1.0)
    # Two full pages.
    monkeypatch.setattr(csv_files, "MAX_ROWS", 400)

    csv = month.client.get("/api/v1/benchmark-runs.csv?text=run").text

    assert len(csv.splitlines()) == 1 + 15


@pytest.mark.parametrize("limit", [1, 7])
def test_search_traces__finds_each_match_once(month: Service, limit: int) -> None:
    with month.resources.db.read() as session:
        run = queries.get_run(session, "run-billing-support-0")
        trace_filter = TraceListFilter(metric="EXACT_MATCH", below=0.5)
        positions, query = [], PageQuery(limit=limit)
        while True:
            page = search_traces(session, run, trace_filter, query)
            positions += [trace.position for trace in page.rows]
            if page.next_cursor is None:
                break
            query = PageQuery(limit=limit, cursor=page.next_cursor)

    assert positions == list(range(30))


@in_one_window
@pytest.mark.parametrize(
    ("name", "value"),
    [("sort", "loudness"), ("verdict", "BAD"), ("triggeredBy", "MOON"), ("validity", "MAYBE")],
)
def test_list_runs__unknown_values_are_rejected(service: Service, name: str, value: str) -> None:
    problem = service.expect_problem(422, "GET", "/benchmark-runs", params={name: value})
    assert pointers(problem)[0] in {name, "0"}
