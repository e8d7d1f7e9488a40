"""`ot-bench run` without its command line: from a plan to a report."""

import asyncio
import os
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import chain

from mosaico.core.masking import secret_masker
from mosaico.harness.budget import Budget
from mosaico.harness.mcp.agent_loop.attempt import AttemptContext, run_attempt
from mosaico.harness.mcp.agent_loop.attempt_record import TraceSink, discard_trace
from mosaico.harness.mcp.agent_loop.model_pool import ModelPool, OpenModel, open_model
from mosaico.harness.mcp.plan import McpRunPlan, PlannedAttempt
from mosaico.harness.mcp.secrets import mask_event
from mosaico.harness.mcp.servers.pool import ServerPool, ServerTracker
from mosaico.harness.mcp.servers.server import ServerEnvironment
from mosaico.harness.mcp.types import (
    AttemptBegan,
    AttemptEnded,
    AttemptKey,
    Event,
    Listener,
    McpReport,
    TaskResult,
    Traced,
)
from mosaico.harness.running_attempts import running_attempt
from mosaico.llm.folder_cache import TurnCache


async def run_plan(
    plan: McpRunPlan,
    listener: Listener,
    *,
    server_environment: ServerEnvironment | None = None,
    open_llm_model: OpenModel = open_model,
    budget: Budget | None = None,
    cache: TurnCache | None = None,
) -> McpReport:
    """Make every missing attempt and send its result to the listener at once.

    Secrets are masked in results and traced lines. Attempts that remain when the `budget` of the run
    is exhausted are skipped. A cancellation ends
    all attempts and their servers at once. Raises: MissingKey, before the first request.
    """
    environment = server_environment or ServerEnvironment(path=os.environ.get("PATH", os.defpath))
    masked_values = environment.secret_values | plan.secret_values | plan.host_values
    environment = replace(environment, secret_values=masked_values)
    queues = plan.missing_queues()
    attempts = [attempt for queue in queues for attempt in queue if attempt.task.refusal is None]
    tracker = ServerTracker(listener, plan.known_servers)
    context = AttemptContext(
        servers=ServerPool(attempts, environment, tracker),
        models=ModelPool([attempt.task for attempt in attempts], open_llm_model, cache),
        prices=plan.prices,
        budget=budget or Budget(),
    )
    results = {result.key: result for result in plan.completed_results}

    mask = secret_masker(plan.secret_values)

    def notify(event: Event) -> None:
        masked_event = mask_event(event, mask)
        if isinstance(masked_event, AttemptEnded):
            results[masked_event.result.key] = masked_event.result
        listener(masked_event)

    # Each is closed, also when the run is cancelled while another one is.
    async with AsyncExitStack() as resources:
        resources.push_async_callback(context.models.close)
        resources.push_async_callback(context.servers.close)
        await _run_queues(plan, queues, context, notify)
    return _report(plan, results, tracker)


async def _run_queues(
    plan: McpRunPlan,
    queues: list[list[PlannedAttempt]],
    context: AttemptContext,
    listener: Listener,
) -> None:
    queue = iter(queues)
    async with asyncio.TaskGroup() as group:
        for _ in range(min(plan.concurrency, len(queues))):
            group.create_task(_run_attempts(queue, context, listener, trace=plan.trace))


async def _run_attempts(
    queues: Iterable[list[PlannedAttempt]],
    context: AttemptContext,
    listener: Listener,
    *,
    trace: bool,
) -> None:
    for attempt in chain.from_iterable(queues):
        listener(AttemptBegan(key=attempt.key))
        trace_sink = _trace_to(attempt.key, listener) if trace else discard_trace
        with running_attempt(attempt.label):
            result = await run_attempt(attempt, context, trace_sink)
        listener(AttemptEnded(result=result))


def _trace_to(key: AttemptKey, listener: Listener) -> TraceSink:
    return lambda line: listener(Traced(key=key, line=line))


def _report(
    plan: McpRunPlan, results: dict[AttemptKey, TaskResult], tracker: ServerTracker
) -> McpReport:
    planned = [attempt.key for attempt in plan.attempts()]
    return McpReport(
        timestamp=plan.timestamp,
        planned=len(planned),
        results=tuple(results[key] for key in planned if key in results),
        servers=tracker.facts(),
        settings=plan.settings,
    )
