"""Runs the attempts of an agent concurrently, within limits of time, tokens and money."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mosaico.harness.budget import Budget
from mosaico.harness.running_attempts import running_attempt
from mosaico.llm.conversation import known_usage
from mosaico.traces.execution.answers import AgentAnswer, trace_of_answer
from mosaico.traces.execution.items import ItemAttempt
from mosaico.traces.types import Trace, TraceOutcome

ItemAgent: TypeAlias = Callable[[ItemAttempt], Awaitable[AgentAnswer]]
OnTrace: TypeAlias = Callable[[ItemAttempt, Trace], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionLimits:
    """Concurrent attempts, and time limits in seconds of an attempt and of the run (None: none)."""

    concurrency: int = 4
    item_s: float = 600.0
    run_s: float | None = None


async def run_agent(
    agent: ItemAgent,
    attempts: Sequence[ItemAttempt],
    limits: ExecutionLimits,
    budget: Budget,
    on_trace: OnTrace,
) -> None:
    """Make the attempts and report each trace at once; they start in order and may end in another.

    No attempt starts after the budget is exhausted or the run has reached its time. A cancellation
    ends all attempts; the traces reported until then stay valid.
    """
    queue = iter(attempts)
    try:
        async with asyncio.timeout(limits.run_s), asyncio.TaskGroup() as group:
            for _ in range(min(limits.concurrency, len(attempts))):
                group.create_task(_work(agent, queue, limits.item_s, budget, on_trace))
    except TimeoutError:
        return


async def _work(
    agent: ItemAgent,
    queue: Iterator[ItemAttempt],
    item_s: float,
    budget: Budget,
    on_trace: OnTrace,
) -> None:
    while budget.exhausted() is None and (attempt := next(queue, None)) is not None:
        with running_attempt(attempt.label):
            trace = await _make_attempt(agent, attempt, item_s)
        budget.add_reported(known_usage(trace.input_tokens, trace.output_tokens), trace.cost_usd)
        on_trace(attempt, trace)


async def _make_attempt(agent: ItemAgent, attempt: ItemAttempt, item_s: float) -> Trace:
    start_s = time.perf_counter()
    try:
        async with asyncio.timeout(item_s):
            answer = await agent(attempt)
    except TimeoutError:
        answer = AgentAnswer(error=f"no answer within {item_s:g} s", outcome=TraceOutcome.TIMEOUT)
    return trace_of_answer(attempt, answer, (time.perf_counter() - start_s) * 1000)
