"""The job of an awaited run: forward the request to the agent, then poll until its run is complete."""

import json
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy.orm import Session

from mosaico.agents.queries import get_agent
from mosaico.agents.service import reveal_run_url
from mosaico.core.encryption import Secret
from mosaico.core.errors import Unavailable
from mosaico.core.resources import Resources
from mosaico.notifications.types import DeliveryFailed, DeliverySucceeded
from mosaico.notifications.webhook_client import post
from mosaico.notifications.webhook_signatures import signed_headers
from mosaico.run_store.rules import TriggerType
from mosaico.runs.source_runs import ListedRun
from mosaico.traces.registry import CollectionFailed
from mosaico.triggers import polling, queries, service
from mosaico.triggers.models import AwaitedRun
from mosaico.triggers.queries import SubscriptionKey
from mosaico.triggers.rules import RunRequest
from mosaico.triggers.secrets import list_secret_texts


class ForwardedRequest(NamedTuple):
    """A signed request to the agent; `message_id` is the same in every attempt."""

    url: Secret
    message_id: str
    body: bytes
    secrets: list[Secret]


class AwaitedStep(NamedTuple):
    """The next step of an awaited run."""

    target: polling.PollTarget
    request: ForwardedRequest
    known_runs: dict[str, datetime | None] | None
    is_forwarded: bool


def take_step(res: Resources, key: tuple[str, str, str]) -> None:
    """Do what an awaited run needs next; the tick of the worker enqueues the look after it.

    Each step is stored before the next one. A worker that is killed in between repeats its step: the
    agent can get the request again, with the same `webhook-id`.
    Raises: `Unavailable` when the agent does not accept the request; the job is retried.
    """
    with res.db.read() as session:
        step = _find_step(session, key, res)
    if step is None:
        return
    try:
        if step.known_runs is None:
            # Before the request: what exists now is not the run that is asked for.
            runs = polling.list_all_runs(step.target, res)
            known_runs = {run.id: run.ended_at for run in runs}
            _store(res, key, known_runs=known_runs)
            take_step(res, key)
        elif not step.is_forwarded:
            _forward(res, key, step.request)
        else:
            _start_or_wait(res, key, _find_new_runs(res, step.target, step.known_runs))
    except CollectionFailed as error:
        end_waiting(res, key, error.detail)


def end_waiting(res: Resources, key: tuple[str, str, str], reason: str) -> None:
    """Settle the event of an awaited run that will not be evaluated."""
    with res.db.begin() as session:
        awaited = session.get(AwaitedRun, key, with_for_update=True)
        if awaited is None:
            return
        session.delete(awaited)
        event = queries.get_event(session, key[0], for_update=True)
        text = f"{awaited.benchmark_id}, {awaited.agent_id}: {reason}"
        reasons = [earlier for earlier in (event.reason, text) if earlier]
        service.settle_event(session, event, res.clock(), reasons=reasons)


def _find_step(session: Session, key: tuple[str, str, str], res: Resources) -> AwaitedStep | None:
    awaited = session.get(AwaitedRun, key)
    if awaited is None:
        return None
    event, now = queries.get_event(session, awaited.event_id), res.clock()
    subscription = SubscriptionKey(awaited.benchmark_id, awaited.agent_id)
    target = polling.make_target(session, subscription, res, pattern="*")
    agent = get_agent(session, awaited.agent_id)
    secrets = list_secret_texts(session, awaited.benchmark_id, res.secrets, now)
    body: dict[str, Any] = {
        "type": event.type,
        "data": {
            "eventId": event.id,
            "benchmarkId": awaited.benchmark_id,
            "agentId": awaited.agent_id,
            "datasetName": event.subject,
            "projectId": event.details.get("projectId"),
        },
    }
    return AwaitedStep(
        target,
        ForwardedRequest(
            url=reveal_run_url(agent, res.secrets) or Secret(""),
            message_id=f"{event.id}/{awaited.benchmark_id}/{awaited.agent_id}",
            body=json.dumps(body, separators=(",", ":")).encode(),
            secrets=secrets,
        ),
        awaited.known_runs,
        awaited.forwarded_at is not None,
    )


def _find_new_runs(
    res: Resources, target: polling.PollTarget, known_runs: dict[str, datetime | None]
) -> list[ListedRun]:
    """The complete runs that began after the agent was asked; also under the ID of a known run."""
    listed = polling.list_complete_runs(target, res)
    changed = [run for run in listed if polling.is_changed(run, known_runs)]
    newest = polling.find_newest_runs(target, res, changed)
    return polling.select_new_runs(changed, newest, known_runs)


def _forward(res: Resources, key: tuple[str, str, str], request: ForwardedRequest) -> None:
    now = res.clock()
    headers = signed_headers(request.message_id, now, request.body, request.secrets)
    outcome = post(res, request.url.reveal(), request.body, headers, now)
    if isinstance(outcome, DeliverySucceeded):
        _store(res, key, forwarded_at=now, polled_at=now)
    elif isinstance(outcome, DeliveryFailed):
        raise Unavailable(f"the runUrl of the agent rejected the request: {outcome.detail}")
    else:
        end_waiting(res, key, f"runUrl of the agent: {outcome.detail}")


def _start_or_wait(res: Resources, key: tuple[str, str, str], new_runs: list[ListedRun]) -> None:
    with res.db.begin() as session:
        awaited = session.get(AwaitedRun, key, with_for_update=True)
        if awaited is None:
            return
        now = res.clock()
        if new_runs:
            session.delete(awaited)
            event = queries.get_event(session, awaited.event_id, for_update=True)
            request = RunRequest(awaited.benchmark_id, awaited.agent_id, new_runs[0].selector)
            service.start_runs(
                session, event, [request], TriggerType.WEBHOOK, now, default_reason=""
            )
            return
        if now < awaited.ends_at:
            return
    end_waiting(res, key, "the agent accepted the request, but the dataset has no complete new run")


def _store(res: Resources, key: tuple[str, str, str], **columns: Any) -> None:
    with res.db.begin() as session:
        awaited = session.get(AwaitedRun, key, with_for_update=True)
        if awaited is not None:
            for name, value in columns.items():
                setattr(awaited, name, value)
