"""A worker does the next step of a job itself; short jobs start before others."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from mosaico.core.resources import Resources
from mosaico.jobs import job_runner
from mosaico.jobs.deaths import POISON_AFTER, JobDeaths
from mosaico.jobs.handlers import MAX_ATTEMPTS, JobContext, JobHandlers
from mosaico.jobs.job_runner import Worker
from mosaico.jobs.outcomes import (
    JobClaim,
    JobFailed,
    JobOutcome,
    JobRetry,
    NextStep,
    record_outcome,
)
from mosaico.jobs.process_pool import ProcessPool
from mosaico.jobs.queries import has_preferred_job
from mosaico.jobs.queue import (
    ALONE_PRIORITY,
    DEATHS,
    RESCUES,
    enqueue,
    enqueue_many,
    split_arguments,
)
from mosaico.jobs.rescue import rescue_jobs
from mosaico.jobs.silent_sessions import SilentSessions
from mosaico.worker import TASKS
from tests.support.service import Service, pair
from tests.support.stored import DatabaseReader
from tests.support.toy_jobs import PaintToy, ReportToy, RingBell, SawToy, WrapToy

# One fewer than make a job poison, and enough to let it run alone.
DEATHS_ALONE = JobDeaths(POISON_AFTER - 1, POISON_AFTER - 1)._asdict()


@pytest.fixture
def session(service_resources: Resources) -> Iterator[Session]:
    with service_resources.db.begin() as session:
        yield session


def claim_job(
    session: Session,
    *,
    attempts: int = 0,
    lock: str | None = None,
    is_short: bool = False,
    counts: Mapping[str, Any] | None = None,
) -> JobClaim:
    """A running job of a worker that died a minute ago."""
    enqueue_many(session, [SawToy()], lock=lock, is_short=is_short)
    add_counts = text("UPDATE procrastinate_jobs SET args = args || CAST(:counts AS jsonb)")
    session.execute(add_counts, {"counts": json.dumps(counts or {})})
    worker_id = session.scalar(
        text(
            "INSERT INTO procrastinate_workers (last_heartbeat)"
            " VALUES (now() - interval '1 minute') RETURNING id"
        )
    )
    session.execute(
        text(
            "UPDATE procrastinate_jobs SET status = 'doing', worker_id = :worker, attempts = :attempts"
        ),
        {"worker": worker_id, "attempts": attempts},
    )
    return stored_claim(session)


def stored_claim(session: Session) -> JobClaim:
    """The only job."""
    query = "SELECT id, task_name, args, attempts, worker_id FROM procrastinate_jobs"
    job_id, name, arguments, attempts, worker_id = session.execute(text(query)).one()
    return JobClaim(
        id=job_id, name=name, arguments=arguments, attempts=attempts, worker_id=worker_id
    )


def next_step(claim: JobClaim) -> NextStep:
    return NextStep(claim, lambda _: True)


def rescue(session: Session) -> None:
    rescued = rescue_jobs(session, JobHandlers(), SilentSessions(), absent_after_s=0, reconnect_s=0)
    assert rescued == 1


def test_next_step__deaths_of_an_earlier_step_do_not_count(session: Session) -> None:
    claim = claim_job(session, attempts=MAX_ATTEMPTS - 1, counts={DEATHS: DEATHS_ALONE})
    session.execute(
        text("UPDATE procrastinate_jobs SET priority = :priority"), {"priority": ALONE_PRIORITY}
    )

    next_step(claim).start(session, PaintToy())
    rescue(session)

    rescued = stored_claim(session)
    assert rescued.name == "toys.paint"
    assert split_arguments(rescued.arguments).deaths == JobDeaths()
    query = "SELECT status::text, lock, priority FROM procrastinate_jobs"
    assert session.execute(text(query)).one() == ("todo", None, 0)


def test_next_step__of_a_short_job_is_not_short(session: Session) -> None:
    claim = claim_job(session, is_short=True)

    next_step(claim).start(session, PaintToy())

    assert session.scalar(text("SELECT priority FROM procrastinate_jobs")) == 0


def test_next_step__errors_of_an_earlier_step_do_not_count(session: Session) -> None:
    # Four attempts: three ended with an error, one with a rescue.
    claim = claim_job(session, attempts=MAX_ATTEMPTS - 1, counts={RESCUES: 1})
    assert claim.retries == MAX_ATTEMPTS - 2

    next_step(claim).start(session, PaintToy())

    started = stored_claim(session)
    assert (started.attempts, started.retries) == (MAX_ATTEMPTS - 1, 0)
    rescue(session)
    assert stored_claim(session).retries == 0


def test_next_step__second_one_of_a_transaction_is_refused(session: Session) -> None:
    step = next_step(claim_job(session))
    step.start(session, PaintToy())

    with pytest.raises(RuntimeError, match=r"toys\.saw has its next job already.*toys\.wrap"):
        step.start(session, WrapToy())

    assert stored_claim(session).name == "toys.paint"


def test_next_step__second_one_after_the_commit_is_refused(service_resources: Resources) -> None:
    with service_resources.db.begin() as session:
        step = next_step(claim_job(session))
        step.start(session, PaintToy())

    with (
        pytest.raises(RuntimeError, match="has its next job already"),
        service_resources.db.begin() as session,
    ):
        step.start(session, WrapToy())


def test_next_step__rolled_back_one_may_be_started_again(service_resources: Resources) -> None:
    with service_resources.db.begin() as session:
        step = next_step(claim_job(session))

    with service_resources.db.begin() as session:
        step.start(session, PaintToy())
        session.rollback()
    assert started_name(step) is None
    with service_resources.db.begin() as session:
        step.start(session, WrapToy())

    assert started_name(step) == "toys.wrap"


@pytest.mark.parametrize(
    "outcome", [JobFailed(code="DATABASE", message="away"), JobRetry(delay_s=60)]
)
def test_next_step__lost_reply_to_the_commit_leaves_the_next_step_in_the_queue(
    service_resources: Resources, outcome: JobOutcome
) -> None:
    """The worker takes the step for failed, because it does not know that it was committed."""
    handlers = JobHandlers()
    handlers.register(SawToy, on_failure=ReportToy)(lambda _job, _saw: None)
    with service_resources.db.begin() as session:
        claim = claim_job(session)
        next_step(claim).start(session, PaintToy())

    # The row is a job of another name by now, which the outcome must not end.
    with service_resources.db.begin() as session:
        assert record_outcome(session, claim, outcome, handlers)

    query = (
        "SELECT task_name, status::text, attempts, scheduled_at <= now() FROM procrastinate_jobs"
    )
    # With the delay and the attempt of the outcome, the next step would pay for a foreign error.
    assert DatabaseReader(service_resources.db.url).all(query) == [("toys.paint", "todo", 0, True)]


def started_name(step: NextStep) -> str | None:
    return step.next_claim.name if step.next_claim else None


def test_next_step__savepoint_is_refused(session: Session) -> None:
    step = next_step(claim_job(session))

    with pytest.raises(RuntimeError, match="savepoint"), session.begin_nested():
        step.start(session, PaintToy())

    assert (stored_claim(session).name, step.next_claim) == ("toys.saw", None)


@pytest.mark.parametrize(
    ("yield_after_s", "expected_order"),
    [(0.0, ["saw", "ring", "paint"]), (3600.0, ["saw", "paint", "ring"])],
)
def test_worker__long_job_lets_a_short_one_pass_before_its_next_step(
    service_resources: Resources,
    metric_pool: ProcessPool,
    monkeypatch: pytest.MonkeyPatch,
    yield_after_s: float,
    expected_order: list[str],
) -> None:
    # A job that has used its slot for YIELD_AFTER_S asks for short jobs before its next step.
    monkeypatch.setattr(job_runner, "YIELD_AFTER_S", yield_after_s)
    handlers, order = JobHandlers(), list[str]()

    @handlers.register(SawToy)
    def saw(job: JobContext, _: SawToy) -> None:
        order.append("saw")
        with job.resources.db.begin() as session:
            enqueue_many(session, [RingBell()], is_short=True)
            job.start_next(session, PaintToy())

    handlers.register(PaintToy)(lambda _job, _paint: order.append("paint"))
    handlers.register(RingBell)(lambda _job, _ring: order.append("ring"))
    with service_resources.db.begin() as session:
        enqueue(session, SawToy())

    # With two slots the bell would ring beside the long job in both cases.
    asyncio.run(Worker(service_resources, handlers, metric_pool, concurrency=1).drain())

    assert order == expected_order
    # The step that lets the bell pass goes back to the queue, which counts no attempt.
    attempts = "SELECT DISTINCT attempts FROM procrastinate_jobs"
    assert DatabaseReader(service_resources.db.url).all(attempts) == [(1,)]


def test_waiting_short_job__is_one_that_this_worker_could_start(
    service_resources: Resources,
) -> None:
    db = service_resources.db
    with db.begin() as session:
        enqueue(session, SawToy())
    assert not has_preferred_job(db, None)
    with db.begin() as session:
        enqueue_many(session, [RingBell()], lock="tower", is_short=True)
    assert has_preferred_job(db, None)
    assert has_preferred_job(db, ["bells"])
    assert not has_preferred_job(db, ["toys"])
    rows = DatabaseReader(db.url)
    # While one job of a lock runs, nobody could start the next one.
    rows.execute("UPDATE procrastinate_jobs SET status = 'doing' WHERE lock = 'tower'")
    with db.begin() as session:
        enqueue_many(session, [RingBell()], lock="tower", is_short=True)
    assert not has_preferred_job(db, None)


def test_worker__deliveries_are_made_before_runs_that_were_started_earlier(
    service: Service,
) -> None:
    # The import of this list has registered the handlers of all jobs.
    assert TASKS
    service.create_agent()
    service.create_benchmark(metrics=["ROUGE"])
    service.upload([pair(1)])
    for _ in range(2):
        service.start_run()
    # Nobody listens at port 1: only the order of the starts counts here.
    endpoint = {"channel": "WEBHOOK", "recipient": "https://127.0.0.1:1/hook"}
    service.post("/notifications/test", endpoint)

    service.work()

    started = DatabaseReader(service.resources.db.url).all(
        "SELECT job.task_name FROM procrastinate_events AS event"
        " JOIN procrastinate_jobs AS job ON job.id = event.job_id"
        " WHERE event.type = 'started' ORDER BY event.id LIMIT 1"
    )
    assert started == [("notifications.deliver",)]
