"""`ot-bench run` without its command line: from a plan to a report."""

import asyncio
import os
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain

from app.harness.budget import Budget
from app.harness.mcp.looping.attempt import Workshop, make_attempt
from app.harness.mcp.looping.models import Models, OpenModel, open_model
from app.harness.mcp.looping.work import Trace, untraced
from app.harness.mcp.plan import Attempt, Plan
from app.harness.mcp.servers import Acquaintance, Servers
from app.harness.mcp.sessions import Surroundings
from app.harness.mcp.types import (
    AttemptBegan,
    AttemptEnded,
    AttemptKey,
    Event,
    Listener,
    McpReport,
    TaskResult,
    Traced,
)


async def run_plan(
    plan: Plan,
    listener: Listener,
    *,
    surroundings: Surroundings | None = None,
    opening: OpenModel = open_model,
    budget: Budget | None = None,
) -> McpReport:
    """Make every missing attempt and send its result to the listener at once.

    Attempts that remain when the `budget` of the run is exhausted are skipped. A cancellation ends
    all attempts and their servers at once. Raises: MissingKey, before the first request.
    """
    environment = surroundings or Surroundings(path=os.environ.get("PATH", os.defpath))
    environment = replace(environment, hidden=environment.hidden | plan.hidden)
    queues = plan.queues()
    missing = [attempt for queue in queues for attempt in queue]
    met = Acquaintance(listener, plan.servers)
    workshop = Workshop(
        servers=Servers(missing, environment, met),
        models=Models([attempt.task for attempt in missing], opening),
        prices=plan.prices,
        budget=budget or Budget(),
    )
    results = {result.key: result for result in plan.done}

    def notify(event: Event) -> None:
        if isinstance(event, AttemptEnded):
            results[event.result.key] = event.result
        listener(event)

    try:
        await _run_queues(plan, queues, workshop, notify)
    finally:
        await workshop.servers.close()
        await workshop.models.close()
    return _report(plan, results, met)


async def _run_queues(
    plan: Plan, queues: list[list[Attempt]], workshop: Workshop, listener: Listener
) -> None:
    queue = iter(queues)
    async with asyncio.TaskGroup() as group:
        for _ in range(min(plan.concurrency, len(queues))):
            group.create_task(_run_attempts(queue, workshop, listener, trace=plan.trace))


async def _run_attempts(
    queues: Iterable[list[Attempt]], workshop: Workshop, listener: Listener, *, trace: bool
) -> None:
    for attempt in chain.from_iterable(queues):
        listener(AttemptBegan(key=attempt.key))
        traced = _tracing(attempt.key, listener) if trace else untraced
        listener(AttemptEnded(result=await make_attempt(attempt, workshop, traced)))


def _tracing(key: AttemptKey, listener: Listener) -> Trace:
    return lambda line: listener(Traced(key=key, line=line))


def _report(plan: Plan, results: dict[AttemptKey, TaskResult], met: Acquaintance) -> McpReport:
    planned = [attempt.key for attempt in plan.attempts()]
    return McpReport(
        timestamp=plan.timestamp,
        planned=len(planned),
        results=tuple(results[key] for key in planned if key in results),
        servers=met.facts(),
        settings=plan.settings,
    )
