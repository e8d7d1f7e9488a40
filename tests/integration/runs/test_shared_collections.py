"""Equal traces are stored once and outlive the run that collected them."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from sqlalchemy.orm import Session

from mosaico.core.clock import utc_now
from mosaico.core.resources import Resources
from mosaico.jobs.declarations import BeginRun, CollectTraces, DropTraces, FailRun
from mosaico.jobs.handlers import NO_JOB, JobContext, WorkerStopping
from mosaico.runs import pipeline, retention
from mosaico.runs.collection import append_page, collect_run
from mosaico.runs.leases import RunEnded, RunLease, acquire_run_lease
from mosaico.traces.registry import TRACE_SOURCES, SourceSpec, TracePage, TraceQuery
from mosaico.traces.types import Trace
from mosaico.traces.uploads.service import revision_of
from tests.support.metric_calls import PAIRS, RUNS, CountingPool, counts
from tests.support.paged_source import PagedSource
from tests.support.processes import until
from tests.support.service import JSON, Service
from tests.support.stored import DatabaseReader

PAGED = "paged"
COLLECTIONS = "SELECT count(*) FROM collections WHERE source = 'paged'"
TRACES = """
    SELECT count(*) FROM collected_traces JOIN collections ON id = collection_id WHERE source = 'paged'
"""
WAITING = """
    SELECT count(*) FROM pg_stat_activity
    WHERE wait_event_type = 'Lock' AND datname = current_database()
"""


@pytest.fixture(autouse=True)
def paged_source(monkeypatch: pytest.MonkeyPatch) -> None:
    register_paged(monkeypatch, page_size=2000)


def register_paged(monkeypatch: pytest.MonkeyPatch, *, page_size: int) -> None:
    """A source whose runs collect the traces of an upload: those of the source `local` take them over."""

    def open_paged(resources: Resources) -> PagedSource:
        return PagedSource(resources=resources, page_size=page_size)

    monkeypatch.setitem(TRACE_SOURCES._items, PAGED, SourceSpec(open=open_paged))


def test_collection__traces_about_to_be_deleted_are_stored_once(
    counting_service: Service, rows: DatabaseReader
) -> None:
    counting_service.create_benchmark(metrics=["ROUGE"], source=PAGED)
    old = counting_service.complete_run()
    counting_service.delete(f"{RUNS}/{old['id']}")
    # Its traces are still there: the job that deletes them waits beside the new run's.
    assert rows.value(TRACES) == 5

    run = counting_service.complete_run()

    assert (run["status"], counts(run)) == ("COMPLETED", (9, 0))
    assert rows.value(TRACES) == 5
    assert rows.value(COLLECTIONS) == 1


@dataclass(frozen=True, slots=True)
class Race:
    """A run that takes over the traces of a deleted run while these are deleted."""

    service: Service
    collection_id: int
    heir: JSON
    lease: RunLease
    page: TracePage

    @classmethod
    def of(cls, service: Service) -> "Race":
        donor, heir = service.complete_run(), service.start_run()
        job = JobContext(resources=service.resources, pool=service.pool, is_stopping=lambda: False)
        pipeline.begin(job, BeginRun(run_id=heir["id"]))
        lease = acquire_run_lease(service.resources.db, heir["id"], NO_JOB)
        assert lease is not None
        query = TraceQuery(dataset_ref="support", run_name=None)
        [page] = TRACE_SOURCES.get(PAGED).open(service.resources).pages(query, None)
        rows = DatabaseReader(service.resources.db.url)
        collection_id = rows.value(
            "SELECT collection_id FROM benchmark_runs WHERE id = %s", donor["id"]
        )
        # The job that deletes its traces waits until the end of the race.
        service.delete(f"{RUNS}/{donor['id']}")
        return cls(service, collection_id, heir, lease, page)

    def drop(self, session: Session) -> None:
        retention.mark_unused(session, self.collection_id)

    def take_over(self, session: Session) -> None:
        append_page(session, self.lease, self.page, utc_now())

    def run(self, first: Callable[[Session], None], second: Callable[[Session], None]) -> JSON:
        """Both at once, the second waiting for the first; the heir when all is done."""
        db, rows = self.service.resources.db, DatabaseReader(self.service.resources.db.url)

        def do_second() -> None:
            with db.begin() as session:
                second(session)

        with ThreadPoolExecutor() as threads:
            with db.begin() as session:
                first(session)
                other = threads.submit(do_second)
                until(lambda: rows.value(WAITING) > 0)
            other.result()
        self.service.work()
        return self.service.get(f"{RUNS}/{self.heir['id']}")


def test_collection__traces_being_taken_over_are_not_deleted(
    counting_service: Service, rows: DatabaseReader
) -> None:
    counting_service.create_benchmark(metrics=["ROUGE"], source=PAGED)
    race = Race.of(counting_service)
    heir = race.run(race.take_over, race.drop)
    assert (heir["status"], counts(heir)) == ("COMPLETED", (9, 0))
    assert collection_ids(rows) == [race.collection_id]
    assert rows.value(TRACES) == 5


def test_collection__traces_being_deleted_are_not_taken_over(
    counting_service: Service, rows: DatabaseReader
) -> None:
    counting_service.create_benchmark(metrics=["ROUGE"], source=PAGED)
    race = Race.of(counting_service)
    heir = race.run(race.drop, race.take_over)
    assert (heir["status"], counts(heir)) == ("COMPLETED", (9, 0))
    # The heir had to store the traces of its own.
    assert collection_ids(rows) == [race.lease.collection_id]
    assert rows.value(TRACES) == 5


def test_collection__of_a_stale_lease_that_another_worker_replaced_ends_the_run(
    counting_service: Service,
) -> None:
    counting_service.create_benchmark(metrics=["ROUGE"])
    run = counting_service.start_run()
    job = JobContext(
        resources=counting_service.resources, pool=counting_service.pool, is_stopping=lambda: False
    )
    pipeline.begin(job, BeginRun(run_id=run["id"]))
    stale = acquire_run_lease(counting_service.resources.db, run["id"], NO_JOB)
    assert stale is not None
    # The other worker takes the collection of the upload over and deletes the empty one.
    pipeline.collect_traces(job, CollectTraces(run_id=run["id"]))

    with pytest.raises(RunEnded):
        collect_run(job, stale)


def collection_ids(rows: DatabaseReader) -> list[int]:
    return [row[0] for row in rows.all("SELECT id FROM collections WHERE source = 'paged'")]


def test_delete_in_batches__resumes_after_an_interruption(
    counting_service: Service, rows: DatabaseReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "ROWS_PER_BATCH", 2)
    counting_service.create_benchmark(metrics=["ROUGE"], source=PAGED)
    run = counting_service.complete_run()
    [collection_id] = collection_ids(rows)
    counting_service.delete(f"{RUNS}/{run['id']}")
    # The job looks before each batch: it stops after the first two of five traces.
    stops: Iterator[bool] = iter([False, True])
    job = JobContext(
        resources=counting_service.resources,
        pool=counting_service.pool,
        is_stopping=lambda: next(stops),
    )

    with pytest.raises(WorkerStopping):
        retention.drop_traces(job, DropTraces(collection_id=collection_id))

    assert rows.value(TRACES) == 3
    counting_service.work()
    for count in (COLLECTIONS, TRACES, "SELECT count(*) FROM trace_results"):
        assert rows.value(count) == 0


def test_upload__its_runs_have_its_traces(counting_service: Service, rows: DatabaseReader) -> None:
    counting_service.create_benchmark(metrics=["ROUGE"])
    runs = [counting_service.complete_run() for _ in range(2)]
    [upload] = counting_service.get("/local-datasets")["items"]
    states = "SELECT id, revision, trace_count FROM collections"
    [(collection_id, *state)] = rows.all(states)
    assert state == [revision_of(collection_id), 5]

    # Whoever is left has them: the upload, then a run, at last nobody.
    counting_service.delete(f"{RUNS}/{runs[0]['id']}")
    counting_service.work()
    assert len(rows.all(states)) == 1
    counting_service.delete(f"/local-datasets/{upload['id']}")
    counting_service.work()
    assert len(counting_service.list_items(f"{RUNS}/{runs[1]['id']}/results")) == 5
    counting_service.delete(f"{RUNS}/{runs[1]['id']}")
    counting_service.work()
    assert rows.all(states) == []
    assert rows.value("SELECT count(*) FROM collected_traces") == 0


def test_upload__deleted_while_its_run_starts_fails_the_run(
    counting_service: Service, rows: DatabaseReader
) -> None:
    counting_service.create_benchmark(metrics=["ROUGE"])
    [upload] = counting_service.get("/local-datasets")["items"]
    counting_service.delete(f"/local-datasets/{upload['id']}")
    counting_service.upload(PAIRS, run_name="run-2")
    # The collection of the upload disappears between its look-up and the transaction of the run.
    rows.execute("UPDATE collections SET completed_at = NULL")

    run = counting_service.complete_run()

    assert (run["status"], run["errorCode"]) == ("FAILED", "RUN_NOT_FOUND")


def test_collection__equal_traces_under_another_name_are_stored_once(
    counting_service: Service,
    pool: CountingPool,
    rows: DatabaseReader,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    register_paged(monkeypatch, page_size=3)
    counting_service.create_benchmark(metrics=["ROUGE"], source=PAGED)
    counting_service.complete_run()
    register_paged(monkeypatch, page_size=2)  # pages do not matter, only what is on them
    counting_service.upload(PAIRS, run_name="run-2")
    pool.take_counts()

    run = counting_service.complete_run()

    assert (pool.take_counts(), run["runName"]) == ({}, "run-2")
    assert rows.value(TRACES) == 5
    assert rows.value(COLLECTIONS) == 1


def test_collection__traces_with_any_difference_are_stored_separately(
    counting_service: Service, pool: CountingPool
) -> None:
    counting_service.create_benchmark(metrics=["ROUGE"])
    counting_service.complete_run()
    changes: list[JSON] = [{"input": "?"}, {"latencyMs": 1}, {"traceId": "t-0"}]
    for name, change in enumerate(changes):
        counting_service.upload([*PAIRS[:4], {**PAIRS[4], **change}], run_name=f"changed-{name}")
        pool.take_counts()
        counting_service.complete_run()
        assert pool.take_counts() == {"ROUGE": 5, "ERROR_RATE": 5}
    counting_service.upload(PAIRS[::-1], run_name="backwards")
    counting_service.complete_run()
    assert pool.take_counts() == {"ROUGE": 5, "ERROR_RATE": 5}


class ImmutableSource:
    """A source whose second page is never read when the service holds the traces already."""

    reads = 0

    def pages(self, _query: TraceQuery, _cursor: str | None) -> Iterator[TracePage]:
        for cursor in ("more", None):
            ImmutableSource.reads += 1
            traces = (Trace(trace_id=f"t-{cursor}", item_id="i", output="x", expected_output="x"),)
            yield TracePage(traces=traces, cursor=cursor, total=2, revision="v1")


def _open_immutable(_: Resources) -> ImmutableSource:
    return ImmutableSource()


def test_collection__an_immutable_source_is_not_read_again(
    counting_service: Service, rows: DatabaseReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ImmutableSource, "reads", 0)
    monkeypatch.setattr(TRACE_SOURCES, "get", lambda _: SourceSpec(open=_open_immutable))
    counting_service.create_benchmark(metrics=["ROUGE"])
    counting_service.complete_run()
    assert ImmutableSource.reads == 2
    run = counting_service.complete_run()
    assert (ImmutableSource.reads, run["tracesTotal"], counts(run)) == (3, 2, (0, 4))
    assert rows.value("SELECT count(*) FROM collections WHERE revision = 'v1'") == 1


def fail_after_collecting(service: Service) -> JSON:
    run = service.start_run()
    job = JobContext(resources=service.resources, pool=service.pool, is_stopping=lambda: False)
    pipeline.begin(job, BeginRun(run_id=run["id"]))
    pipeline.collect_traces(job, CollectTraces(run_id=run["id"]))
    pipeline.on_failure(
        job,
        FailRun(
            run_id=run["id"], code="POISON", message="the job ended its workers; see their logs"
        ),
    )
    service.work()
    return run


def test_retry_run__takes_over_the_collected_traces(
    counting_service: Service, rows: DatabaseReader
) -> None:
    counting_service.create_benchmark(metrics=["ROUGE"])
    failed = fail_after_collecting(counting_service)
    [upload] = counting_service.get("/local-datasets")["items"]
    # Without the upload the retry cannot collect: it has only the traces of the failed run.
    counting_service.delete(f"/local-datasets/{upload['id']}")

    again = counting_service.post(f"{RUNS}/{failed['id']}/retry")
    counting_service.work()

    run = counting_service.get(f"{RUNS}/{again['id']}")
    assert (run["status"], run["tracesProcessed"], run["runName"]) == ("COMPLETED", 5, "run-1")
    assert rows.value("SELECT count(*) FROM collections") == 1
    counting_service.delete(f"{RUNS}/{failed['id']}")
    counting_service.work()
    assert len(counting_service.list_items(f"{RUNS}/{run['id']}/results")) == 5


@pytest.mark.parametrize(
    ("path", "change"),
    [("/agents/agent-001", {"name": "Heron"}), ("/benchmarks/bench-001", {"datasetRef": "other"})],
)
def test_retry_run__collects_again_when_the_selection_changed(
    counting_service: Service, path: str, change: JSON
) -> None:
    counting_service.create_benchmark(metrics=["ROUGE"])
    failed = fail_after_collecting(counting_service)
    [upload] = counting_service.get("/local-datasets")["items"]
    counting_service.delete(f"/local-datasets/{upload['id']}")
    counting_service.patch(path, change)

    again = counting_service.post(f"{RUNS}/{failed['id']}/retry")
    counting_service.work()

    run = counting_service.get(f"{RUNS}/{again['id']}")
    assert (run["status"], run["errorCode"]) == ("FAILED", "DATASET_NOT_FOUND")
