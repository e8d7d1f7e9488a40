"""H1 to H3: what ot-bench adds to a call of a tool, to a turn of a model, and 32 tasks at once.

The first two are seconds of the processor, which other load on the machine leaves alone; the server
has a process of its own.
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

from app.harness.mcp.plan import PlannedTask, RunPlan
from app.harness.mcp.run import run_plan
from app.harness.mcp.types import AttemptEnded, Event
from app.harness.results import AttemptOutcome
from app.llm.conversation import Llm, Turn
from benchmarks.result_rows import BenchRow
from tests.support.mcp_bench import Request, ScriptedModel, calls, direct_task, harness_task, says
from tests.support.mcp_servers import FAULTS, faults

CALLS = 100
CALL_GOAL_SECONDS = 0.001
TURNS = 50
TURN_GOAL_SECONDS = 0.002
IN_FLIGHT = 32
SLOW_TURNS = 5
SLOW_TURN_SECONDS = 0.2
TOGETHER_GOAL = 1.5
ROUNDS = 3
GIVEN = {"text": "x" * 100}


def measure() -> Iterator[BenchRow]:
    """All three with a server that answers at once, on one core."""
    with one_core():
        yield _call()
        yield _turn()
        yield _together()


def _call() -> BenchRow:
    theirs = min(asyncio.run(_seconds_of_the_sdk()) for _ in range(ROUNDS))
    ours = min(_seconds_of_an_attempt() for _ in range(ROUNDS))
    return BenchRow(
        name="H1 a direct call",
        goal=f"≤ {1000 * CALL_GOAL_SECONDS:g} ms over the SDK",
        ratio=(ours - theirs) / CALL_GOAL_SECONDS,
        holds=ours - theirs <= CALL_GOAL_SECONDS,
        note=f"{1000 * ours:.2f} ms of processor an attempt, {1000 * theirs:.2f} ms the SDK's own call",
    )


async def _seconds_of_the_sdk() -> float:
    program = StdioServerParameters(command=sys.executable, args=["-I", "-S", str(FAULTS)])
    async with stdio_client(program) as (reads, writes), ClientSession(reads, writes) as session:
        await session.initialize()
        await session.call_tool("echo", GIVEN)
        began = time.process_time()
        for _ in range(CALLS):
            await session.call_tool("echo", GIVEN)
        return (time.process_time() - began) / CALLS


def _seconds_of_an_attempt() -> float:
    """From the end of the first attempt, which starts the server, to that of the last."""
    server = faults()
    tasks = [
        direct_task(server, "echo", name=str(n), arguments=GIVEN, share_servers=True)
        for n in range(CALLS + 1)
    ]
    ended = _run(tasks, ScriptedModel(lambda _: says("")), concurrency=1).processor
    return (ended[-1] - ended[0]) / CALLS


def _turn() -> BenchRow:
    seconds = min(_seconds_of_a_turn() for _ in range(ROUNDS))
    return BenchRow(
        name="H2 a turn with a call",
        goal=f"≤ {1000 * TURN_GOAL_SECONDS:g} ms",
        ratio=seconds / TURN_GOAL_SECONDS,
        holds=seconds <= TURN_GOAL_SECONDS,
        note=f"{1000 * seconds:.2f} ms of processor, the SDK's call included",
    )


def _seconds_of_a_turn() -> float:
    server = faults()
    tasks = [
        harness_task(server, name=str(n), max_turns=TURNS, share_servers=True) for n in range(2)
    ]
    endless = ScriptedModel(lambda _: calls(("echo", GIVEN)))
    ended = _run(tasks, endless, concurrency=1).processor
    return (ended[-1] - ended[0]) / TURNS


def _together() -> BenchRow:
    ideal = SLOW_TURNS * SLOW_TURN_SECONDS
    model = SlowModel(_asks_a_while)
    server = faults()
    tasks = [harness_task(server, name=str(n), share_servers=True) for n in range(IN_FLIGHT)]
    ran = min((_run(tasks, model, concurrency=IN_FLIGHT) for _ in range(ROUNDS)), key=_whole)
    return BenchRow(
        name="H3 tasks at once",
        goal=f"≤ {TOGETHER_GOAL:g} times one of them",
        ratio=_whole(ran) / ideal,
        holds=_whole(ran) <= TOGETHER_GOAL * ideal and model.most == IN_FLIGHT,
        note=f"{model.most} in flight on one core, {_whole(ran):.2f} s for {ideal:.2f} s of waiting",
    )


def _asks_a_while(request: Request) -> Turn:
    request_count = len(request.messages) // 2
    return calls(("echo", GIVEN)) if request_count + 1 < SLOW_TURNS else says("Done.")


@dataclass(slots=True)
class SlowModel(ScriptedModel):
    """Takes its time, as models do, and knows how many asked it at once."""

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
    """When the first attempt began, and when each ended: by the clock and by the processor."""

    began: float = 0.0
    ended: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    def listen(self, event: Event) -> None:
        self.began = self.began or time.perf_counter()
        if isinstance(event, AttemptEnded):
            assert event.result.outcome is AttemptOutcome.SCORED
            self.ended.append(time.perf_counter())
            self.processor.append(time.process_time())


def _whole(timed: Timed) -> float:
    return timed.ended[-1] - timed.began


def _run(tasks: list[PlannedTask], model: Llm, *, concurrency: int) -> Timed:
    timed = Timed()
    plan = RunPlan(tasks=tuple(tasks), concurrency=concurrency)
    asyncio.run(run_plan(plan, timed.listen, open_llm_model=lambda *_: model))
    return timed


@contextmanager
def one_core() -> Iterator[None]:
    """Whatever runs or is started meanwhile shares one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
