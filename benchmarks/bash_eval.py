"""B1 to B3: replay of recorded bash commands, the agent loop per model turn, and a service run."""

import asyncio
import time
from collections.abc import Iterator, Sequence

from benchmarks.harness_runs import measure_bash
from benchmarks.result_rows import BenchRow
from mosaico.harness.bash.agent import AttemptLimits, attempt_task
from mosaico.harness.bash.check_registry import load_checks
from mosaico.harness.bash.replay import execute
from mosaico.harness.bash.result_file import read_report
from mosaico.harness.bash.sandbox import Sandbox
from mosaico.harness.bash.types import EvalResult
from mosaico.harness.budget import Budget
from mosaico.llm.scripted import Script, ScriptedLlm
from tests.support.bash_eval import DATA, RECORDINGS, task

REPLAY_GOAL_SECONDS = 2.0
TURN_GOAL_SECONDS = 0.002
TURNS = 9
ATTEMPTS = 50
ROUNDS = 3


def measure() -> Iterator[BenchRow]:
    """Time the recorded commands if the recordings exist, one turn, and a run of the service."""
    load_checks()
    if all((DATA / "runs" / name).exists() for name in RECORDINGS):
        yield _replay()
    yield _turn()
    yield from measure_bash()


def _replay() -> BenchRow:
    reports = [read_report(DATA / "runs" / name) for name in RECORDINGS]
    results = [task_result for report in reports for task_result in report.results]
    calls = sum(task_result.trace.tool_call_count for task_result in results if task_result.trace)
    # The fastest round: the others contain what else the machine did.
    seconds = min(_seconds_of_replay(results) for _ in range(ROUNDS))
    return BenchRow(
        name="B1 replay of the recorded bash commands",
        goal=f"≤ {REPLAY_GOAL_SECONDS:g} s",
        ratio=seconds / REPLAY_GOAL_SECONDS,
        holds=seconds <= REPLAY_GOAL_SECONDS,
        note=f"{seconds:.2f} s for {calls} calls of {len(results)} tasks",
    )


def _seconds_of_replay(results: Sequence[EvalResult]) -> float:
    started = time.perf_counter()
    for task_result in results:
        execute(task_result, Sandbox(task_result.task.files))
    return time.perf_counter() - started


def _turn() -> BenchRow:
    seconds = min(asyncio.run(_seconds_of_a_turn()) for _ in range(ROUNDS))
    return BenchRow(
        name="B2 the agent loop, one turn with one call",
        goal=f"≤ {1000 * TURN_GOAL_SECONDS:g} ms",
        ratio=seconds / TURN_GOAL_SECONDS,
        holds=seconds <= TURN_GOAL_SECONDS,
        note=f"{1000 * seconds:.2f} ms with a model without latency",
    )


async def _seconds_of_a_turn() -> float:
    demo_task = task()
    llm = ScriptedLlm("s", {demo_task.prompt: Script(turns=(("echo hi",),) * TURNS)})
    started = time.perf_counter()
    for _ in range(ATTEMPTS):
        await attempt_task(demo_task, llm, AttemptLimits(), Budget())
    # The last turn is the answer, without a call.
    return (time.perf_counter() - started) / (ATTEMPTS * (TURNS + 1))
