"""H1 to H4: the overhead of ot-bench per tool call and per model turn, 32 concurrent tasks, and a run
of the service.

H1 and H2 are processor seconds, which other load on the machine does not affect; the server has a
process of its own.
"""

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

from benchmarks.harness_runs import measure_mcp
from benchmarks.result_rows import BenchRow
from mosaico.harness.mcp.agent_loop.run import run_plan
from mosaico.harness.mcp.plan import McpRunPlan, PlannedTask
from mosaico.harness.mcp.types import AttemptEnded, Event
from mosaico.harness.results import AttemptOutcome
from mosaico.llm.conversation import Llm, Turn
from tests.support.mcp_bench import Request, ScriptedModel, calls, direct_task, harness_task, says
from tests.support.mcp_servers import FAULTS, faults

CALLS = 100
CALL_GOAL_SECONDS = 0.001
TURNS = 50
TURN_GOAL_SECONDS = 0.002
IN_FLIGHT = 32
SLOW_TURNS = 5
SLOW_TURN_SECONDS = 0.2
CONCURRENT_GOAL = 1.5
ROUNDS = 3
ARGUMENTS = {"text": "x" * 100}


def measure() -> Iterator[BenchRow]:
    """Three rows with a server without latency on one core, and a run of the service."""
    with one_core():
        yield _call()
        yield _turn()
        yield _concurrent_tasks()
    yield from measure_mcp()


def _call() -> BenchRow:
    theirs = min(asyncio.run(_sdk_seconds()) for _ in range(ROUNDS))
    ours = min(_attempt_seconds() for _ in range(ROUNDS))
    return BenchRow(
        name="H1 a direct call",
        goal=f"≤ {1000 * CALL_GOAL_SECONDS:g} ms over the SDK",
        ratio=(ours - theirs) / CALL_GOAL_SECONDS,
        holds=ours - theirs <= CALL_GOAL_SECONDS,
        note=f"{1000 * ours:.2f} ms of processor time per attempt, {1000 * theirs:.2f} ms per call of the SDK",
    )


async def _sdk_seconds() -> float:
    program = StdioServerParameters(command=sys.executable, args=["-I", "-S", str(FAULTS)])
    async with stdio_client(program) as (reads, writes), ClientSession(reads, writes) as session:
        await session.initialize()
        await session.call_tool("echo", ARGUMENTS)
        began = time.process_time()
        for _ in range(CALLS):
            await session.call_tool("echo", ARGUMENTS)
        return (time.process_time() - began) / CALLS


def _attempt_seconds() -> float:
    """Processor seconds per attempt, without the first one, which starts the server."""
    server = faults()
    tasks = [
        direct_task(server, "echo", name=str(n), arguments=ARGUMENTS, share_servers=True)
        for n in range(CALLS + 1)
    ]
    ended = _run(tasks, ScriptedModel(lambda _: says("")), concurrency=1).processor
    return (ended[-1] - ended[0]) / CALLS


def _turn() -> BenchRow:
    seconds = min(_turn_seconds() for _ in range(ROUNDS))
    return BenchRow(
        name="H2 a turn with a call",
        goal=f"≤ {1000 * TURN_GOAL_SECONDS:g} ms",
        ratio=seconds / TURN_GOAL_SECONDS,
        holds=seconds <= TURN_GOAL_SECONDS,
        note=f"{1000 * seconds:.2f} ms of processor time, including the SDK's call",
    )


def _turn_seconds() -> float:
    server = faults()
    tasks = [
        harness_task(server, name=str(n), max_turns=TURNS, share_servers=True) for n in range(2)
    ]
    endless = ScriptedModel(lambda _: calls(("echo", ARGUMENTS)))
    ended = _run(tasks, endless, concurrency=1).processor
    # The first of two tasks starts the server, and does not count.
    return (ended[-1] - ended[0]) / TURNS


def _concurrent_tasks() -> BenchRow:
    ideal = SLOW_TURNS * SLOW_TURN_SECONDS
    model = SlowModel(_call_until_last_turn)
    server = faults()
    tasks = [harness_task(server, name=str(n), share_servers=True) for n in range(IN_FLIGHT)]
    ran = min(
        (_run(tasks, model, concurrency=IN_FLIGHT) for _ in range(ROUNDS)), key=_total_seconds
    )
    return BenchRow(
        name="H3 tasks at once",
        goal=f"≤ {CONCURRENT_GOAL:g} times one task",
        ratio=_total_seconds(ran) / ideal,
        # Fast, and really at once: tasks in sequence could not be in flight together.
        holds=_total_seconds(ran) <= CONCURRENT_GOAL * ideal and model.most == IN_FLIGHT,
        note=f"{model.most} in flight on one core, {_total_seconds(ran):.2f} s for {ideal:.2f} s of waiting",
    )


def _call_until_last_turn(request: Request) -> Turn:
    request_count = len(request.messages) // 2
    return calls(("echo", ARGUMENTS)) if request_count + 1 < SLOW_TURNS else says("Done.")


@dataclass(slots=True)
class SlowModel(ScriptedModel):
    """A model with latency that counts its concurrent requests."""

    now: int = 0
    most: int = 0

    async def turn(self, *arguments: object) -> Turn:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(SLOW_TURN_SECONDS)
        self.now -= 1
        return await ScriptedModel.turn(self, *arguments)  # type: ignore[arg-type]


@dataclass(slots=True)
class Timed:
    """The start of the first attempt and the end of each, by the clock and by processor time."""

    began: float = 0.0
    ended: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    def listen(self, event: Event) -> None:
        self.began = self.began or time.perf_counter()
        if isinstance(event, AttemptEnded):
            assert event.result.outcome is AttemptOutcome.SCORED
            self.ended.append(time.perf_counter())
            self.processor.append(time.process_time())


def _total_seconds(timed: Timed) -> float:
    return timed.ended[-1] - timed.began


def _run(tasks: list[PlannedTask], model: Llm, *, concurrency: int) -> Timed:
    timed = Timed()
    plan = McpRunPlan(tasks=tuple(tasks), concurrency=concurrency)
    asyncio.run(run_plan(plan, timed.listen, open_llm_model=lambda *_: model))
    return timed


@contextmanager
def one_core() -> Iterator[None]:
    """Limit this process, and those it starts in the block, to one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
