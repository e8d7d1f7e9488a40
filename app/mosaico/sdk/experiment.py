"""Runs a function as the agent over a dataset: `mosaico.run_experiment`."""

import asyncio
import inspect
import os
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from mosaico.core.clock import utc_now
from mosaico.core.console.table import format_cell
from mosaico.core.errors import Invalid
from mosaico.core.parameter_names import UserInterface, messages_for
from mosaico.harness.limits import BudgetLimits
from mosaico.sdk.inputs import Results, open_reader, source_of, warn_ignored
from mosaico.sdk.tables import html_of
from mosaico.traces.error_rules import outcome_of_error
from mosaico.traces.execution.answers import AgentAnswer, checked_fields
from mosaico.traces.execution.datasets import load_items
from mosaico.traces.execution.experiment import ExecutionPlan, execute_plan
from mosaico.traces.execution.items import ItemAttempt, items_of
from mosaico.traces.execution.runner import ExecutionLimits
from mosaico.traces.files.imported_values import text_of
from mosaico.traces.types import DatasetItem, Trace, TraceOutcome

Task: TypeAlias = Callable[[DatasetItem], Any]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Experiment:
    """A run of a task: the result file, the traces in planned order, and what was not finished.

    `missing` names the attempts that could not be made or were not reached; run again with
    `resume=experiment.path` to make them.
    """

    path: Path
    traces: Sequence[Trace]
    missing: Sequence[str] = ()

    def __repr__(self) -> str:
        missing = f", {len(self.missing)} missing" if self.missing else ""
        return f"{len(self.traces)} attempts{missing} in {self.path}"

    def _repr_html_(self) -> str:
        rows = [
            [trace.trace_id, str(trace.outcome), format_cell(trace.output or trace.error)]
            for trace in self.traces
        ]
        return html_of(f"{len(rows)} attempts", ("attempt", "outcome", "answer"), rows)


def run_experiment(
    task: Task,
    dataset: Results | Sequence[DatasetItem],
    *,
    trials: int = 1,
    concurrency: int = 4,
    item_seconds: float = 600.0,
    run_seconds: float | None = None,
    run_tokens: int | None = None,
    run_usd: float | None = None,
    save: str | os.PathLike[str] = ".",
    resume: str | os.PathLike[str] | None = None,
    columns: Mapping[str, str] | None = None,
    langfuse: bool = False,
    progress: bool = True,
) -> Experiment:
    """Run a task once per item and trial, and store every answer as soon as it is there.

    `task` gets a `DatasetItem` (`id`, `input`, `expected_output`) and returns the answer: a text, or a
    mapping such as `{"output": "Rome", "costUsd": 0.01}`. It may be a coroutine function; any other
    function runs in a thread. An exception is a failure of the agent, except where its message
    names a rate limit, the network or a key. `item_seconds` limits an attempt; the thread of a task
    that does not return goes on in the background.

    `dataset` is a file, `langfuse:NAME`, the name of an upload, rows, a data frame, or items; `columns`
    names columns by field. `save` is the folder of the result file. No attempt starts after
    `run_seconds`, or when the attempts have reported `run_tokens` or `run_usd`. `langfuse` also writes
    the finished attempts as an experiment, with the keys in LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY.
    Without `progress` nothing is printed to standard error while it runs.
    Raises: `MosaicoError`, such as `UnusableDataset` for a dataset without inputs.
    """
    export = _exporter() if langfuse else None
    name = os.fspath(dataset) if isinstance(dataset, str | os.PathLike) else "dataset"
    plan = ExecutionPlan(
        agent=_agent_of(task),
        agent_name=f"{task.__module__}.{getattr(task, '__qualname__', type(task).__qualname__)}",
        items=_items_of(dataset, name, columns),
        dataset_name=name,
        trials=trials,
        limits=ExecutionLimits(concurrency=concurrency, item_s=item_seconds, run_s=run_seconds),
        budget=BudgetLimits(tokens=run_tokens, cost_usd=run_usd),
        save=Path(save),
        resume=None if resume is None else Path(resume),
        shows_progress=progress,
    )
    recorder = execute_plan(plan, utc_now(), _run)
    if export is not None:
        export(recorder.traces, plan)
    missing = [attempt.label for attempt in recorder.missing()]
    return Experiment(path=recorder.path, traces=recorder.traces, missing=missing)


@messages_for(UserInterface.PYTHON)
def _items_of(
    dataset: Results | Sequence[DatasetItem], name: str, columns: Mapping[str, str] | None
) -> Sequence[DatasetItem]:
    remarks: list[str] = []
    reader = open_reader(remarks, columns, None)
    items: Sequence[DatasetItem]
    if isinstance(dataset, str | os.PathLike):
        items = load_items(name, reader)
    elif isinstance(dataset, Sequence) and all(isinstance(item, DatasetItem) for item in dataset):
        items = [item for item in dataset if isinstance(item, DatasetItem)]
    else:
        rows: Any = dataset
        with reader.open_items(source_of(rows, name)) as traces:
            items = items_of(traces, name)
    warn_ignored(remarks)
    return items


def _exporter() -> Callable[[Sequence[Trace], ExecutionPlan], None]:
    """A function that writes traces to Langfuse; its keys are read before the first attempt is paid for.

    Raises: `MissingKey`.
    """
    # The SDK of Langfuse takes long to import.
    from mosaico.harness.langfuse_export import langfuse_project
    from mosaico.runs.failing_items import export_execution

    project = langfuse_project(os.environ)

    def export(traces: Sequence[Trace], plan: ExecutionPlan) -> None:
        export_execution(
            traces,
            project,
            dataset_name=plan.dataset_name,
            agent_name=plan.agent_name,
            now=utc_now(),
        )

    return export


def _run(coroutine: Coroutine[Any, Any, None]) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(coroutine)
        return
    # In a notebook a loop runs already, and a thread has one loop only.
    with ThreadPoolExecutor(1, "experiment") as pool:
        pool.submit(copy_context().run, asyncio.run, coroutine).result()


def _agent_of(task: Task) -> Callable[[ItemAttempt], Coroutine[Any, Any, AgentAnswer]]:
    async def run_attempt(attempt: ItemAttempt) -> AgentAnswer:
        try:
            if inspect.iscoroutinefunction(task):
                return _answer_of(await task(attempt.item))
            returned = await _call_in_thread(task, attempt.item)
            return _answer_of(await returned if inspect.isawaitable(returned) else returned)
        except Exception as error:  # noqa: BLE001 - whatever the user's function raises
            return _failure_of(error)

    return run_attempt


async def _call_in_thread(task: Task, item: DatasetItem) -> Any:
    """What the task returns. The thread is a daemon: a task that hangs does not keep the process."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Callable[[], Any]] = loop.create_future()

    def send(result: Callable[[], Any]) -> None:
        if not outcome.done():
            outcome.set_result(result)

    def work() -> None:
        try:
            returned = task(item)
        except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
            raised = error
            result: Callable[[], Any] = lambda: _raise(raised)  # noqa: E731
        else:
            result = lambda: returned  # noqa: E731
        # The loop is closed when the attempt was given up.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(send, result)

    threading.Thread(target=copy_context().run, args=(work,), daemon=True).start()
    return (await outcome)()


def _raise(error: BaseException) -> Any:
    raise error


def _answer_of(returned: Any) -> AgentAnswer:
    try:
        fields = returned if isinstance(returned, Mapping) else {"output": text_of(returned)}
        return AgentAnswer(fields=checked_fields(fields))
    except Invalid as error:
        return AgentAnswer(error=error.detail, outcome=TraceOutcome.AGENT_ERROR)


def _failure_of(error: Exception) -> AgentAnswer:
    message = f"{type(error).__name__}: {error}"
    return AgentAnswer(error=message, outcome=outcome_of_error(message))
