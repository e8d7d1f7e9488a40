"""`mosaico.run_experiment`: sync and async tasks, datasets, failures, limits and resumption."""

import asyncio
import contextvars
import threading
from pathlib import Path
from typing import Any

import pytest

import mosaico
from mosaico import DatasetItem
from mosaico.traces.types import TraceOutcome

ROWS = [
    {"id": "sum", "question": "1+1?", "answer": "2"},
    {"id": "capital", "question": "Italy?", "answer": "Rome"},
]
ANSWERS = {"1+1?": "2", "Italy?": "Milan"}


def answer(item: DatasetItem) -> str:
    return ANSWERS[item.input]


async def answer_async(item: DatasetItem) -> dict[str, Any]:
    await asyncio.sleep(0)
    return {"output": ANSWERS[item.input], "costUsd": 0.5}


def test_run_experiment__sync_and_async_tasks_give_the_same_traces(tmp_path: Path) -> None:
    sync = mosaico.run_experiment(answer, ROWS, trials=2, save=tmp_path)
    asynchronous = mosaico.run_experiment(answer_async, ROWS, trials=2, save=tmp_path)
    for experiment in (sync, asynchronous):
        assert [trace.output for trace in experiment.traces] == ["2", "Milan"] * 2
        assert experiment.missing == []
        assert mosaico.score(experiment.traces, metrics=["ACCURACY"])["ACCURACY"] == 0.5
        assert mosaico.score(experiment.path, metrics=["ACCURACY"])["ACCURACY"] == 0.5
    assert sum(trace.cost_usd or 0 for trace in asynchronous.traces) == 2


def test_run_experiment__reads_file_and_items(tmp_path: Path) -> None:
    file = tmp_path / "q.csv"
    file.write_text("id,question,answer\nsum,1+1?,2\n")
    items = [DatasetItem(id="sum", input="1+1?", expected_output="2")]
    for dataset in (file, str(file), items):
        experiment = mosaico.run_experiment(answer, dataset, save=tmp_path)
        assert [(trace.item_id, trace.expected_output) for trace in experiment.traces] == [
            ("sum", "2")
        ]


def test_run_experiment__works_where_a_loop_runs(tmp_path: Path) -> None:
    # A notebook runs its cells in a loop, in which `asyncio.run` raises an error.
    async def cell() -> mosaico.Trace:
        return mosaico.run_experiment(answer_async, ROWS, save=tmp_path).traces[0]

    assert asyncio.run(cell()).output == "2"


def test_run_experiment__task_sees_context_of_caller(tmp_path: Path) -> None:
    variable = contextvars.ContextVar[str]("variable")
    variable.set("of the caller")
    experiment = mosaico.run_experiment(lambda _: variable.get(), ROWS, save=tmp_path)
    assert {trace.output for trace in experiment.traces} == {"of the caller"}


@pytest.mark.parametrize(
    ("returned", "output"), [(None, ""), ("", ""), (7, "7"), (["a"], '["a"]'), (1.5, "1.5")]
)
def test_run_experiment__every_answer_is_a_text(
    tmp_path: Path, returned: object, output: str
) -> None:
    experiment = mosaico.run_experiment(lambda _: returned, ROWS, save=tmp_path)
    assert {trace.output for trace in experiment.traces} == {output}


def fail(item: DatasetItem) -> str:
    raise ConnectionError("429 Too Many Requests") if item.id == "sum" else KeyError(1)


def test_run_experiment__exception_is_a_failure_and_resumed_if_not_of_the_agent(
    tmp_path: Path,
) -> None:
    failed = mosaico.run_experiment(fail, ROWS, save=tmp_path)
    outcomes = [(trace.outcome, trace.error) for trace in failed.traces]
    assert outcomes == [
        (TraceOutcome.INFRA_ERROR, "ConnectionError: 429 Too Many Requests"),
        (TraceOutcome.AGENT_ERROR, "KeyError: 1"),
    ]
    assert failed.missing == ["sum"]
    calls = 0

    def fail_again(item: DatasetItem) -> str:
        nonlocal calls
        calls += 1
        return answer(item)

    # The name of the function is that of the agent, and a run of another agent is not resumed.
    fail_again.__qualname__ = fail.__qualname__
    resumed = mosaico.run_experiment(fail_again, ROWS, resume=failed.path)
    assert (calls, resumed.missing, resumed.path) == (1, [], failed.path)


def test_run_experiment__task_that_hangs_is_timeout(tmp_path: Path) -> None:
    released = threading.Event()
    try:
        experiment = mosaico.run_experiment(
            lambda _: released.wait(), ROWS, item_seconds=0.02, save=tmp_path
        )
    finally:
        released.set()
    assert {trace.outcome for trace in experiment.traces} == {TraceOutcome.TIMEOUT}
