"""Repetitions of suspicious runs that the agent makes: the signed request, then looks for its run.

The run of the service is PENDING meanwhile. Every end of it decides the alerts that wait for it.
"""

import json
from datetime import timedelta
from typing import Final, NamedTuple

from sqlalchemy.orm import Session

from mosaico.agents.queries import get_agent
from mosaico.agents.service import reveal_run_url
from mosaico.alerts.confirmations import CONFIRM_TIMEOUT
from mosaico.core.encryption import Secret
from mosaico.core.errors import AppError, Unavailable
from mosaico.core.resources import Resources
from mosaico.jobs.declarations import BeginRun, LookForRun
from mosaico.jobs.queue import enqueue
from mosaico.notifications.types import DeliveryFailed, DeliverySucceeded
from mosaico.notifications.webhook_client import post
from mosaico.notifications.webhook_signatures import signed_headers
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.plan import RunPlan
from mosaico.run_store.queries import get_run
from mosaico.run_store.rules import RunStatus
from mosaico.runs.plan_builder import more_trials, trace_query
from mosaico.runs.service import fail_run, lock_pending
from mosaico.traces.queries import count_trials
from mosaico.traces.registry import TRACE_SOURCES, TraceQuery
from mosaico.triggers.secrets import list_secret_texts

LOOK_EVERY: Final = timedelta(minutes=2)
_TIMEOUT_HOURS: Final = CONFIRM_TIMEOUT.total_seconds() / 3600
# An agent that returns it has understood that the new run must have this name.
RUN_NAME_HEADER: Final = "mosaico-run-name"


class NotRepeated(AppError):
    """The agent did not repeat the run; correct the cause in the message. Its first run counts as it is."""

    code = "NOT_REPEATED"


class RepetitionRequest(NamedTuple):
    """The request to the agent; the ID of the run is its `webhook-id` in every attempt."""

    run_name: str
    url: Secret | None
    body: bytes
    secrets: list[Secret]
    is_late: bool

    @property
    def obstacle(self) -> str | None:
        """Return the reason why the agent is not asked; None if it can be."""
        if self.is_late:
            return f"no worker sent the request to the agent within {_TIMEOUT_HOURS:g} hours"
        if self.url is None:
            return "the agent has no runUrl any more"
        return None if self.secrets else "the benchmark has no webhook secret any more"


def ask_agent(res: Resources, run_id: str) -> None:
    """Ask the agent to make a run again. A worker that is killed before the next step is stored asks
    again, with the same `webhook-id`.

    Raises: `Unavailable` when the agent does not accept the request; the job is retried.
    """
    with res.db.read() as session:
        run = _find_waiting(session, run_id)
        request = None if run is None else _make_request(session, run, res)
    if request is None:
        return
    refusal = request.obstacle or _send(res, run_id, request)
    with res.db.begin() as session:
        if refusal is not None:
            fail_run(session, run_id, NotRepeated.code, refusal, res.clock())
        elif lock_pending(session, run_id) is not None:
            _look_later(session, run_id, res)


def look_for_run(res: Resources, run_id: str) -> None:
    """Begin the run when the agent has made it; otherwise look again, or give up."""
    with res.db.read() as session:
        run = _find_waiting(session, run_id)
        target = None if run is None else _make_query(session, run, res)
    if target is None:
        return
    is_made = _is_made(res, *target)
    with res.db.begin() as session:
        locked = lock_pending(session, run_id)
        if locked is None:
            return
        if is_made:
            enqueue(session, BeginRun(run_id=run_id))
        elif res.clock() < locked.created_at + CONFIRM_TIMEOUT:
            _look_later(session, run_id, res)
        else:
            reason = (
                "the agent accepted the request, but created no complete run "
                f"{locked.run_name!r} within {_TIMEOUT_HOURS:g} hours"
            )
            fail_run(session, run_id, NotRepeated.code, reason, res.clock())


def _find_waiting(session: Session, run_id: str) -> BenchmarkRun | None:
    """The run while it waits for the agent; None when it has ended, began or was deleted."""
    run = session.get(BenchmarkRun, run_id)
    return run if run is not None and run.status == RunStatus.PENDING else None


def _is_made(res: Resources, source: str, query: TraceQuery) -> bool:
    """Return whether the source has the run. A source that is away may have it at the next look."""
    has_run = TRACE_SOURCES.get(source).has_run
    assert has_run is not None, "planned only where the source can tell"
    try:
        return has_run(res, query)
    except Unavailable:
        return False


def _send(res: Resources, run_id: str, request: RepetitionRequest) -> str | None:
    """Return the reason why the agent will not make the run; None if it will. Raises:
    `Unavailable`.
    """
    now = res.clock()
    headers = signed_headers(run_id, now, request.body, request.secrets)
    assert request.url is not None, "otherwise it is an obstacle"
    outcome = post(res, request.url.reveal(), request.body, headers, now)
    if isinstance(outcome, DeliveryFailed):
        raise Unavailable(f"the runUrl of the agent rejected the request: {outcome.detail}")
    if not isinstance(outcome, DeliverySucceeded):
        return f"runUrl of the agent: {outcome.detail}"
    if outcome.headers.get(RUN_NAME_HEADER) == request.run_name:
        return None
    return (
        f"the answer of runUrl has no header {RUN_NAME_HEADER} with the run name {request.run_name!r};"
        " send it to make runs again, or set confirmRuns of the alert rules to false"
    )


def _make_query(session: Session, run: BenchmarkRun, res: Resources) -> tuple[str, TraceQuery]:
    plan = _repeated_plan(session, run).model_copy(update={"run_name": run.run_name})
    return plan.source, trace_query(session, plan, res)


def _make_request(session: Session, run: BenchmarkRun, res: Resources) -> RepetitionRequest:
    assert run.run_name is not None, "a repetition has its name from the beginning"
    now, plan = res.clock(), _repeated_plan(session, run)
    repeated = get_run(session, run.confirms or "")
    trials = count_trials(session, repeated.collection_id) if repeated.collection_id else 1
    body = {
        "type": "repetition",
        "data": {
            "requestId": run.id,
            "runName": run.run_name,
            "benchmarkId": run.benchmark_id,
            "agentId": run.agent_id,
            "datasetName": plan.dataset_ref,
            "trials": more_trials(trials),
        },
    }
    return RepetitionRequest(
        run_name=run.run_name,
        url=reveal_run_url(get_agent(session, run.agent_id), res.secrets),
        body=json.dumps(body, separators=(",", ":")).encode(),
        secrets=list_secret_texts(session, run.benchmark_id, res.secrets, now),
        is_late=now >= run.created_at + CONFIRM_TIMEOUT,
    )


def _repeated_plan(session: Session, run: BenchmarkRun) -> RunPlan:
    return get_run(session, run.confirms or "").begun_plan


def _look_later(session: Session, run_id: str, res: Resources) -> None:
    start_at = res.clock() + LOOK_EVERY
    enqueue(session, LookForRun(run_id=run_id), start_at=start_at)
