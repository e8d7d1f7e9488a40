"""Equal traces are stored once and outlive the run that collected them."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from sqlalchemy.orm import Session

from app.core.clock import utc_now
from app.core.resources import Resources
from app.jobs.declarations import BeginRun, CollectTraces, DropTraces, FailRun
from app.jobs.handlers import NO_JOB, JobContext, WorkerStopping
from app.runs import pipeline, retention
from app.runs.collection import append_page
from app.runs.leases import RunLease, acquire_run_lease
from app.traces.registry import TRACE_SOURCES, SourceSpec, TracePage, TraceQuery
from app.traces.sources import local
from app.traces.types import Trace
from tests.support.metric_calls import PAIRS, RUNS, CountingPool, counts
from tests.support.processes import until
from tests.support.service import JSON, Service
from tests.support.stored import DatabaseReader

WAITING = """
    SELECT count(*) FROM pg_stat_activity
    WHERE wait_event_type = 'Lock' AND datname = current_database()
"""


def test_collection__traces_about_to_be_deleted_are_not_taken_over(
    counting_service: Service, rows: DatabaseReader
) -> None:
    counting_service.create_benchmark(metrics=["ROUGE"])
    old = counting_service.complete_run()
    counting_service.delete(f"{RUNS}/{old['id']}")
    # Its traces are still there: the job that deletes them waits beside the new run's.
    assert rows.value("SELECT count(*) FROM collected_traces") == 5

    run = counting_service.complete_run()

    assert (run["status"], counts(run)) == ("COMPLETED", (4, 0))
    assert rows.value("SELECT count(*) FROM collected_traces") == 5
    assert rows.value("SELECT count(*) FROM collections") == 1


@dataclass(frozen=True, slots=True)
class Race:
    """A run that takes over the traces of another run while that is deleted."""

    service: Service
    donor: JSON
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
        [page] = TRACE_SOURCES.get("local").open(service.resources).pages(query, None)
        return cls(service, donor, heir, lease, page)

    def delete(self, session: Session) -> None:
        retention.delete_run(session, self.donor["id"])

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
    counting_service.create_benchmark(metrics=["ROUGE"])
    race = Race.of(counting_service)
    # The smaller ID is that of the donor, whose traces the heir keeps.
    collection_id = rows.value("SELECT min(id) FROM collections")
    heir = race.run(race.take_over, race.delete)
    assert (heir["status"], counts(heir)) == ("COMPLETED", (4, 0))
    assert rows.all("SELECT id FROM collections") == [(collection_id,)]
    assert rows.value("SELECT count(*) FROM collected_traces") == 5


def test_collection__traces_being_deleted_are_not_taken_over(
    counting_service: Service, rows: DatabaseReader
) -> None:
    counting_service.create_benchmark(metrics=["ROUGE"])
    race = Race.of(counting_service)
    # The larger ID is that of the heir, which has to store the traces of its own.
    collection_id = rows.value("SELECT max(id) FROM collections")
    heir = race.run(race.delete, race.take_over)
    assert (heir["status"], counts(heir)) == ("COMPLETED", (4, 0))
    assert rows.all("SELECT id FROM collections") == [(collection_id,)]
    assert rows.value("SELECT count(*) FROM collected_traces") == 5


def test_delete_in_batches__resumes_after_an_interruption(
    counting_service: Service, rows: DatabaseReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "ROWS_PER_BATCH", 2)
    counting_service.create_benchmark(metrics=["ROUGE"])
    run = counting_service.complete_run()
    collection_id = rows.value("SELECT id FROM collections")
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

    assert rows.value("SELECT count(*) FROM collected_traces") == 3
    counting_service.work()
    for table in ("collections", "collected_traces", "trace_results"):
        assert rows.value(f"SELECT count(*) FROM {table}") == 0


def test_collection__equal_traces_under_another_name_are_stored_once(
    counting_service: Service,
    pool: CountingPool,
    rows: DatabaseReader,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local, "PAGE_SIZE", 3)
    counting_service.create_benchmark(metrics=["ROUGE"])
    counting_service.complete_run()
    monkeypatch.setattr(local, "PAGE_SIZE", 2)  # pages do not matter, only what is on them
    counting_service.upload(PAIRS, run_name="run-2")
    pool.take_counts()

    run = counting_service.complete_run()

    assert (pool.take_counts(), run["runName"]) == ({}, "run-2")
    assert rows.value("SELECT count(*) FROM collected_traces") == 5
    assert rows.value("SELECT count(*) FROM collections") == 1


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
        assert pool.take_counts() == {"ROUGE": 5}
    counting_service.upload(PAIRS[::-1], run_name="backwards")
    counting_service.complete_run()
    assert pool.take_counts() == {"ROUGE": 5}


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
    assert (ImmutableSource.reads, run["tracesTotal"], counts(run)) == (3, 2, (0, 2))
    assert rows.value("SELECT count(*) FROM collections") == 1


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
