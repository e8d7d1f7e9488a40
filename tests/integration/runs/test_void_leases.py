"""A worker that was frozen past its lease, and wakes up, writes nothing; the next holder does."""

import pytest

from app.core.clock import utc_now
from app.runs.collection import append_page
from app.runs.leases import RunEnded, RunLease, acquire_run_lease
from app.traces.registry import TracePage
from app.traces.types import Trace
from tests.support.service import Service, pair
from tests.support.stored import DatabaseReader

TRACES = "SELECT count(*) FROM collected_traces"


@pytest.fixture
def collecting_run(service: Service) -> str:
    """The ID of a run that is collecting, with an empty collection."""
    service.create_agent()
    service.create_benchmark(metrics=["ROUGE"])
    service.upload([pair(1)])
    run_id = str(service.complete_run()["id"])
    rows = DatabaseReader(service.resources.db.url)
    rows.execute("UPDATE benchmark_runs SET status = 'RUNNING'")
    rows.execute("DELETE FROM collected_traces")
    rows.execute("UPDATE collections SET completed_at = NULL, trace_count = 0")
    return run_id


def acquire(service: Service, run_id: str) -> RunLease:
    lease = acquire_run_lease(service.resources.db, run_id)
    assert lease is not None
    return lease


def store(service: Service, lease: RunLease, trace_id: str) -> None:
    page = TracePage(traces=(Trace(trace_id=trace_id, item_id=trace_id),), cursor=trace_id)
    with service.resources.db.begin() as session:
        append_page(session, lease, page, utc_now())


def test_append_page__void_lease_writes_nothing(service: Service, collecting_run: str) -> None:
    rows = DatabaseReader(service.resources.db.url)
    frozen = acquire(service, collecting_run)
    store(service, frozen, "first")
    other = acquire(service, collecting_run)

    with pytest.raises(RunEnded):
        store(service, frozen, "after-the-lease")
    assert rows.value(TRACES) == 1
    store(service, other, "second")
    assert rows.value(TRACES) == 2


def test_append_page__worker_that_rescued_the_job_writes_with_its_new_lease(
    service: Service, collecting_run: str
) -> None:
    """The 1,000 traces instead of 500 that a test counted once: the woken worker rescued the job of
    the other, suspended worker, and its further page was stored under a third lease.
    """
    rows = DatabaseReader(service.resources.db.url)
    leases = [acquire(service, collecting_run) for _ in range(3)]

    assert [lease.fencing_token for lease in leases] == sorted(
        {lease.fencing_token for lease in leases}
    )
    for void in leases[:2]:
        with pytest.raises(RunEnded):
            store(service, void, "void")
    store(service, leases[2], "third")
    assert rows.value(TRACES) == 1
