"""Purge and deletion of runs."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from benchmarks.table_rows import insert_rows
from mosaico.core import row_windows
from mosaico.core.batch_delete import ClocksDiffer, delete_in_batches, purge_in_batches
from mosaico.core.clock import utc_now
from mosaico.jobs.declarations import DropPurgedRun, DropTraces
from mosaico.jobs.handlers import JobContext
from mosaico.run_store.models import BenchmarkRun
from mosaico.runs import retention
from mosaico.runs.retention import (
    count_runs_before,
    purge_expired_runs,
    purge_runs_before,
    restore_purged_runs,
)
from mosaico.table_list import METADATA
from mosaico.traces.models import Collection
from mosaico.worker import PURGES, _purge
from tests.support.service import JSON, Service, pair
from tests.support.stored import age_purge_marks, age_purged_runs


@pytest.fixture
def runs(service: Service) -> tuple[JSON, JSON]:
    """A run of a benchmark with `keepDays` 7, and one of a benchmark without `keepDays`."""
    service.create_agent()
    service.create_benchmark(keepDays=7)
    service.create_benchmark("bench-002")
    service.upload([pair(1)])
    return service.complete_run(), service.complete_run(benchmarkId="bench-002")


def purge_after(service: Service, days: float) -> int:
    now = utc_now() + timedelta(days=days)
    with service.resources.db.begin() as session:
        return purge_expired_runs(session, now)


def work_a_day_later(service: Service) -> None:
    age_purged_runs(service.resources.db)
    service.work()


def start_drop(service: Service) -> None:
    """Start the jobs that delete purged runs, as a clock of the database that is ahead does."""
    with service.resources.db.begin() as session:
        session.execute(text("UPDATE procrastinate_jobs SET scheduled_at = now()"))
    service.work()


def count(service: Service, table: str) -> int:
    with service.resources.db.engine.connect() as connection:
        return int(connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one())


def test_purge__runs_are_kept_for_keep_days(service: Service, runs: tuple[JSON, JSON]) -> None:
    assert [purge_after(service, days) for days in (6.9, 7.1, 7.1)] == [0, 1, 0]

    purged, kept_run = (service.get(f"/benchmark-runs/{run['id']}") for run in runs)
    assert purged["purgedAt"]
    assert kept_run["purgedAt"] is None


def test_purge__keeps_the_history_and_removes_the_traces(
    service: Service, runs: tuple[JSON, JSON]
) -> None:
    run, other = runs
    path = f"/benchmark-runs/{run['id']}"
    metrics, history = service.get(f"{path}/metrics"), service.get("/kpi-history")

    purge_after(service, 8)
    service.work()
    assert count(service, "trace_results") == 2  # marked, and deleted a day later
    work_a_day_later(service)

    assert service.get(f"{path}/metrics") == metrics
    assert service.get("/kpi-history") == history
    gone = service.client.get(f"/api/v1{path}/results")
    assert gone.status_code == 410
    assert "aggregates" in gone.json()["detail"]
    assert count(service, "trace_results") == 1
    # The other run judges the same traces.
    assert count(service, "collected_traces") == 1
    assert service.get(f"/benchmark-runs/{other['id']}/results")["items"]


def test_purge__removes_collections_without_a_run(
    service: Service, runs: tuple[JSON, JSON]
) -> None:
    assert len(runs) == 2
    tomorrow = utc_now() + timedelta(days=1)
    with service.resources.db.begin() as session:
        assert purge_runs_before(session, tomorrow, utc_now()) == 2
    [upload] = service.get("/local-datasets")["items"]
    service.delete(f"/local-datasets/{upload['id']}")
    work_a_day_later(service)

    assert (count(service, "trace_results"), count(service, "collected_traces")) == (0, 0)


@pytest.mark.parametrize("window_rows", [1, 5_000])
def test_count_runs_before__counts_what_a_purge_would_remove_in_every_window(
    service: Service,
    runs: tuple[JSON, JSON],
    window_rows: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert len(runs) == 2
    monkeypatch.setattr(row_windows, "WINDOW_ROWS", window_rows)
    db, tomorrow = service.resources.db, utc_now() + timedelta(days=1)
    assert count_runs_before(db, tomorrow) == (2, 2)
    assert count_runs_before(db, tomorrow, benchmark_id="bench-002") == (1, 1)
    assert count_runs_before(db, tomorrow - timedelta(days=2)) == (0, 0)
    with db.begin() as session:
        purge_runs_before(session, tomorrow, utc_now(), benchmark_id="bench-002")
    assert count_runs_before(db, tomorrow) == (1, 1)


def test_delete_run__links_of_later_runs_over_the_source_run_end_in_batches(
    service: Service, runs: tuple[JSON, JSON], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "LINKS_PER_BATCH", 2)
    first = runs[0]
    later = [service.complete_run() for _ in range(3)]
    assert {run["sameSourceAs"] for run in later} == {first["id"]}

    service.delete(f"/benchmark-runs/{first['id']}")
    service.work()

    links = [service.get(f"/benchmark-runs/{run['id']}")["sameSourceAs"] for run in later]
    assert links == [None] * 3
    # The next run refers to the first one that is left.
    assert service.complete_run()["sameSourceAs"] == later[0]["id"]


def test_purge__the_next_run_measures_again(service: Service, runs: tuple[JSON, JSON]) -> None:
    tomorrow = utc_now() + timedelta(days=1)
    with service.resources.db.begin() as session:
        purge_runs_before(session, tomorrow, utc_now())
    work_a_day_later(service)

    again = service.complete_run()

    assert again["metricsComputed"] == runs[0]["metricsComputed"]
    assert service.get(f"/benchmark-runs/{again['id']}/results")["items"]


def test_purge__can_be_undone_within_a_day(service: Service, runs: tuple[JSON, JSON]) -> None:
    path = f"/benchmark-runs/{runs[0]['id']}"
    results = service.get(f"{path}/results")
    purge_after(service, 8)
    assert service.client.get(f"/api/v1{path}/results").status_code == 410

    assert restore_purged_runs(service.resources.db) == 1
    work_a_day_later(service)

    assert service.get(f"{path}/results") == results
    assert restore_purged_runs(service.resources.db) == 0


def test_purge__job_that_starts_within_the_day_deletes_nothing_and_waits_again(
    service: Service, runs: tuple[JSON, JSON]
) -> None:
    """The clock of the database jumped forward, and was set back before the job looked at it."""
    purge_after(service, 8)

    start_drop(service)

    assert count(service, "trace_results") == len(runs)
    work_a_day_later(service)
    assert count(service, "trace_results") == 1


def test_drop_purged__clock_of_the_database_that_is_ahead_deletes_nothing(
    service: Service, runs: tuple[JSON, JSON], monkeypatch: pytest.MonkeyPatch
) -> None:
    purge_after(service, 8)
    age_purged_runs(service.resources.db)
    with service.resources.db.read() as session:
        purged_at = session.get_one(BenchmarkRun, runs[0]["id"]).purged_at
    assert purged_at is not None
    job = JobContext(resources=service.resources, pool=service.pool, is_stopping=lambda: False)

    purge = DropPurgedRun(run_id=runs[0]["id"], purged_at=purged_at)

    with monkeypatch.context() as machine:
        machine.setattr(retention, "utc_now", lambda: utc_now() - timedelta(days=60))
        # Not by a worker, which would repeat the job until the clocks agree.
        with pytest.raises(ClocksDiffer):
            retention.drop_purged(job, purge)

    assert count(service, "trace_results") == len(runs)
    service.work()
    assert count(service, "trace_results") == 1


def test_drop_traces__deletes_a_collection_in_batches(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "ROWS_PER_BATCH", 2)
    trace_count = 5
    collection = Collection(source="local", query={}, trace_count=trace_count)
    with service.resources.db.begin() as session:
        session.add(collection)
        session.flush()
        insert_rows(
            session,
            "collected_traces",
            {
                "collection_id": str(collection.id),
                "position": "n - 1",
                "trace_id": "'trace-' || n",
            },
            trace_count,
        )
    left = list[int]()

    def count_traces(session: Session) -> None:
        left.append(session.scalars(text("SELECT count(*) FROM collected_traces")).one())

    resources = replace(service.resources, db=service.resources.db.with_commit_hook(count_traces))
    job = JobContext(resources=resources, pool=service.pool, is_stopping=lambda: False)

    retention.drop_traces(job, DropTraces(collection_id=collection.id))

    # Marked, then two of them at a time, then the collection.
    assert left == [5, 3, 1, 0, 0]
    assert count(service, "collections") == 0


@pytest.mark.parametrize("table", ["collected_traces", "trace_transcripts"])
def test_drop_traces__nothing_looks_for_the_traces_of_a_deleted_collection(table: str) -> None:
    """An index keeps their entries until a VACUUM: a foreign key would read all of them."""
    assert METADATA.tables[table].c.collection_id.foreign_keys == set()


@pytest.mark.parametrize("days", [60, -60])
def test_delete_in_batches__wrong_clock_deletes_nothing(
    service: Service, runs: tuple[JSON, JSON], days: int
) -> None:
    def wrong_clock() -> datetime:
        return utc_now() + timedelta(days=days)

    with pytest.raises(ClocksDiffer, match="differ by"):
        delete_in_batches(service.resources.db, purge_expired_runs, wrong_clock)

    assert service.get(f"/benchmark-runs/{runs[0]['id']}")["purgedAt"] is None


def test_delete_in_batches__time_of_the_database_decides(service: Service) -> None:
    received: list[datetime] = []

    def delete_none(_session: Session, now: datetime) -> int:
        received.append(now)
        return 0

    # Clocks that differ by more than MAX_CLOCK_DIFFERENCE (5 minutes) would stop the purge.
    four_minutes = timedelta(minutes=4)
    before = utc_now()
    delete_in_batches(service.resources.db, delete_none, lambda: utc_now() + four_minutes)
    assert before - timedelta(seconds=1) <= received[0] < before + four_minutes


def purge_times(service: Service) -> list[datetime]:
    """The times for which a purge deleted, one per batch."""
    times: list[datetime] = []

    def delete_none(_session: Session, now: datetime) -> int:
        times.append(now)
        return 0

    purge_in_batches(service.resources.db, "tests", delete_none, utc_now)
    return times


def stored_mark(service: Service) -> datetime:
    with service.resources.db.read() as session:
        mark: datetime = session.execute(text("SELECT marked_at FROM purge_marks")).scalar_one()
        return mark


def test_purge_in_batches__deletes_what_had_expired_a_day_ago(service: Service) -> None:
    # The first call only marks the time: rows that a wrong clock expires can be saved for a day.
    assert purge_times(service) == []
    first_mark = stored_mark(service)
    assert purge_times(service) == []
    assert stored_mark(service) == first_mark

    age_purge_marks(service.resources.db)
    assert purge_times(service) == [first_mark - timedelta(days=1)]
    assert stored_mark(service) > first_mark
    assert purge_times(service) == []


def test_purge_in_batches__mark_of_a_clock_that_was_ahead_deletes_nothing(service: Service) -> None:
    purge_times(service)
    with service.resources.db.begin() as session:
        session.execute(text("UPDATE purge_marks SET marked_at = now() + interval '60 days'"))

    assert purge_times(service) == []
    assert abs(stored_mark(service) - utc_now()) < timedelta(minutes=5)


def test_purge_in_batches__interrupted_purge_goes_on(service: Service) -> None:
    purge_times(service)
    age_purge_marks(service.resources.db)
    mark = stored_mark(service)

    def fail(_session: Session, _now: datetime) -> int:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        purge_in_batches(service.resources.db, "tests", fail, utc_now)
    # The mark moves last, so a purge that is interrupted deletes for the same time again.
    assert purge_times(service) == [mark]


def test_purge__expired_rows_of_each_kind_are_deleted_a_day_later(service: Service) -> None:
    db = service.resources.db
    service.create_agent()
    service.send(
        "POST", "/agents", {"id": "agent-002", "name": "Heron"}, headers={"Idempotency-Key": "a"}
    )
    with db.begin() as session:
        session.execute(text("UPDATE idempotency_keys SET expires_at = now() - interval '1 day'"))

    _purge(service.resources, keep_spans=timedelta(days=7))
    assert count(service, "idempotency_keys") == 1
    _purge(service.resources, keep_spans=timedelta(days=7))
    assert count(service, "idempotency_keys") == 1
    age_purge_marks(db)
    _purge(service.resources, keep_spans=timedelta(days=7))
    assert count(service, "idempotency_keys") == 0
    # The spans are a purge of their own beside the list, because their age is a setting.
    assert count(service, "purge_marks") == len(PURGES) + 1


def test_purge__that_fails_is_logged_and_stops_no_other_one(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_session: Session, _before: datetime) -> int:
        raise PermissionError

    db = service.resources.db
    _purge(service.resources, keep_spans=timedelta(days=7))
    age_purge_marks(db)
    first = next(iter(PURGES))
    monkeypatch.setitem(PURGES, first, refuse)
    _purge(service.resources, keep_spans=timedelta(days=7))
    with db.read() as session:
        left = "SELECT kind FROM purge_marks WHERE marked_at < now() - interval '1 hour'"
        assert session.scalars(text(left)).all() == [first]
    assert [record.levelname for record in caplog.records if first in record.message] == ["ERROR"]
