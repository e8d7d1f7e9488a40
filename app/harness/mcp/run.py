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
    events: Listener,
    *,
    surroundings: Surroundings | None = None,
    opening: OpenModel = open_model,
    budget: Budget | None = None,
) -> McpReport:
    """Make every attempt that is missing, so many at once, and tell each result as it comes.

    `budget` bounds all of them together: once it is used up what is left is skipped. A cancel ends all of them at once, with their servers: what was told until then is what there
    is. Raises: MissingKey, before anything is asked.
    """
    around = surroundings or Surroundings(path=os.environ.get("PATH", os.defpath))
    around = replace(around, hidden=around.hidden | plan.hidden)
    queues = plan.queues()
    missing = [attempt for queue in queues for attempt in queue]
    met = Acquaintance(events, plan.servers)
    workshop = Workshop(
        servers=Servers(missing, around, met),
        models=Models([attempt.task for attempt in missing], opening),
        prices=plan.prices,
        budget=budget or Budget(),
    )
    results = {result.key: result for result in plan.done}

    def tell(event: Event) -> None:
        if isinstance(event, AttemptEnded):
            results[event.result.key] = event.result
        events(event)

    try:
        await _make_all(plan, queues, workshop, tell)
    finally:
        await workshop.servers.close()
        await workshop.models.close()
    return _report(plan, results, met)


async def _make_all(
    plan: Plan, queues: list[list[Attempt]], workshop: Workshop, tell: Listener
) -> None:
    waiting = iter(queues)
    async with asyncio.TaskGroup() as group:
        for _ in range(min(plan.concurrency, len(queues))):
            group.create_task(_make_each(waiting, workshop, tell, trace=plan.trace))


async def _make_each(
    waiting: Iterable[list[Attempt]], workshop: Workshop, tell: Listener, *, trace: bool
) -> None:
    for attempt in chain.from_iterable(waiting):
        tell(AttemptBegan(key=attempt.key))
        traced = _tracing(attempt.key, tell) if trace else untraced
        tell(AttemptEnded(result=await make_attempt(attempt, workshop, traced)))


def _tracing(key: AttemptKey, tell: Listener) -> Trace:
    return lambda line: tell(Traced(key=key, line=line))


def _report(plan: Plan, results: dict[AttemptKey, TaskResult], met: Acquaintance) -> McpReport:
    planned = [attempt.key for attempt in plan.attempts()]
    return McpReport(
        timestamp=plan.timestamp,
        planned=len(planned),
        results=tuple(results[key] for key in planned if key in results),
        servers=met.facts(),
        settings=plan.settings,
    )
