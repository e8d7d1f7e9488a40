"""A worker that was frozen past its lease, and wakes up, writes nothing; the next holder does."""

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest
from sqlalchemy.orm import Session

from mosaico.core.clock import utc_now
from mosaico.jobs.handlers import HANDLERS, NO_JOB
from mosaico.jobs.job_runner import Worker
from mosaico.jobs.outcomes import JobClaim
from mosaico.jobs.queue import split_arguments
from mosaico.runs import pipeline, shards
from mosaico.runs.collection import append_page
from mosaico.runs.leases import RunEnded, RunLease, acquire_run_lease
from mosaico.traces.registry import TracePage
from mosaico.traces.types import Trace
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
    # No worker stands still in a collection: one that has ended is set back.
    rows.execute("UPDATE benchmark_runs SET status = 'RUNNING'")
    rows.execute("DELETE FROM collected_traces")
    rows.execute("UPDATE collections SET completed_at = NULL, trace_count = 0")
    return run_id


def acquire(service: Service, run_id: str) -> RunLease:
    lease = acquire_run_lease(service.resources.db, run_id, NO_JOB)
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


def test_append_page__records_progress_unless_nothing_was_stored(
    service: Service, collecting_run: str
) -> None:
    """A job that kills its workers while its source waits or repeats a page must still end."""
    progress: list[Session] = []
    lease = acquire(service, collecting_run)
    page = TracePage(traces=(Trace(trace_id="t", item_id="t"),), cursor="1")

    def store_page(page: TracePage) -> int:
        with service.resources.db.begin() as session:
            append_page(session, lease, page, utc_now(), progress.append)
        return len(progress)

    assert store_page(page) == 1
    assert store_page(page) == 1
    assert store_page(TracePage(traces=(), cursor="1")) == 1
    assert store_page(TracePage(traces=(), cursor="2")) == 2


def test_append_page__worker_that_rescued_the_job_writes_with_its_new_lease(
    service: Service, collecting_run: str
) -> None:
    """A worker that wakes up may rescue the job of the other, suspended worker: the third lease is
    the only one under which a page is stored.
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


STEPS = ("runs.begin", "runs.collect", "score.shard", "runs.finish")


class StepByStep:
    """A worker that does one step of a run at a time."""

    def __init__(self, service: Service) -> None:
        self._rows = DatabaseReader(service.resources.db.url)
        self._worker = Worker(service.resources, HANDLERS, service.pool, concurrency=1)
        self._worker_id = self._rows.value(
            "INSERT INTO procrastinate_workers DEFAULT VALUES RETURNING id"
        )
        self.claim: JobClaim | None = None

    def fetch(self, name: str) -> None:
        """Take the one job of this name."""
        [row] = self._rows.all(
            "UPDATE procrastinate_jobs SET status = 'doing', worker_id = %s"
            " WHERE status = 'todo' AND task_name = %s RETURNING id, task_name, args, attempts",
            self._worker_id,
            name,
        )
        self.claim = JobClaim(
            id=row[0], name=row[1], arguments=row[2], attempts=row[3], worker_id=self._worker_id
        )

    def do_step(self) -> None:
        assert self.claim is not None
        never_stops = cast("Any", SimpleNamespace(should_abort=lambda: False))
        claim, self.claim = self.claim, None
        self._worker._run_claimed(never_stops, claim, split_arguments(claim.arguments).arguments)

    def lose_job(self) -> None:
        """What a rescue does with the job of a worker that looks dead."""
        assert self.claim is not None
        self._rows.all(
            "SELECT procrastinate_retry_job_v2(%s, now(), NULL, NULL, NULL)::text", self.claim.id
        )


@pytest.mark.parametrize(
    ("frozen_before", "module", "wakes_in"),
    # A function of each step that the other calls under its lease.
    [
        ("runs.collect", shards, "find_fingerprint"),
        ("score.shard", pipeline, "measure_shard"),
        ("runs.collect", pipeline, "compute_result"),
    ],
)
def test_frozen_worker__whose_job_another_has_does_not_stop_the_run(
    service: Service,
    monkeypatch: pytest.MonkeyPatch,
    frozen_before: str,
    module: ModuleType,
    wakes_in: str,
) -> None:
    """If it voided the lease of the other and could not go on, no worker would end the run."""
    service.create_agent()
    service.create_benchmark(metrics=["ROUGE"])
    service.upload([pair(1)])
    run_id = str(service.start_run()["id"])
    frozen, other = StepByStep(service), StepByStep(service)
    position = STEPS.index(frozen_before)
    for name in STEPS[:position]:
        frozen.fetch(name)
        frozen.do_step()
    frozen.fetch(frozen_before)
    frozen.lose_job()
    original: Callable[..., object] = getattr(module, wakes_in)

    def wake_meanwhile(*arguments: object, **options: object) -> object:
        if frozen.claim is not None:
            frozen.do_step()
        return original(*arguments, **options)

    monkeypatch.setattr(module, wakes_in, wake_meanwhile)
    for name in STEPS[position:]:
        other.fetch(name)
        other.do_step()
    assert frozen.claim is None
    assert service.get(f"/benchmark-runs/{run_id}")["status"] == "COMPLETED"
