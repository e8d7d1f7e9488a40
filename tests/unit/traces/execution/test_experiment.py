"""Running an agent over items: the plan, the limits, the traces and the result file."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mosaico.harness.commands.run_command import run_interruptible
from mosaico.harness.limits import BudgetLimits
from mosaico.harness.result_file import IncompatibleRun, InvalidResultFile, journal_of
from mosaico.traces.execution.answers import AgentAnswer, trace_of_answer
from mosaico.traces.execution.experiment import (
    ExecutionPlan,
    execute_plan,
    summarize_execution,
)
from mosaico.traces.execution.items import (
    ItemAttempt,
    UnusableDataset,
    fingerprint_of,
    item_of_document,
    items_of,
    plan_attempts,
)
from mosaico.traces.execution.record import ExecutionRecorder
from mosaico.traces.execution.runner import ExecutionLimits
from mosaico.traces.files.ndjson import iter_traces
from mosaico.traces.types import DatasetItem, Trace, TraceOutcome

NOW = datetime(2026, 11, 22, 2, tzinfo=UTC)
ITEMS = [
    DatasetItem(id=name, input=f"What is {name}?", expected_output=name, tags=("category:x",))
    for name in ("a", "b", "c")
]


class RecordingAgent:
    """Answers with the ID of the item, and remembers the attempts; `answers` replace an answer."""

    def __init__(self, answers: Mapping[str, AgentAnswer] | None = None) -> None:
        self.labels: list[str] = []
        self.answers = answers or {}

    async def __call__(self, attempt: ItemAttempt) -> AgentAnswer:
        self.labels.append(attempt.label)
        return self.answers.get(attempt.label, AgentAnswer(fields={"output": attempt.item.id}))


def run(
    folder: Path, agent: RecordingAgent, resume: Path | None = None, **settings: Any
) -> ExecutionRecorder:
    settings = {"agent_name": "bot", "dataset_name": "q.csv", "items": ITEMS, **settings}
    limits = settings.pop("limits", ExecutionLimits(concurrency=1))
    plan = ExecutionPlan(agent=agent, save=folder, limits=limits, resume=resume, **settings)
    return execute_plan(plan, NOW, run_interruptible)


def read(path: Path) -> list[Trace]:
    with path.open("rb") as file:
        return list(iter_traces(file))


def failed(outcome: TraceOutcome) -> AgentAnswer:
    return AgentAnswer(error="broken", outcome=outcome)


def test_run__makes_every_trial_and_writes_traces_in_planned_order(tmp_path: Path) -> None:
    agent = RecordingAgent()
    recorder = run(tmp_path, agent, trials=2, limits=ExecutionLimits(concurrency=3))
    assert sorted(agent.labels) == ["a", "a #2", "b", "b #2", "c", "c #2"]
    traces = read(recorder.path)
    assert recorder.path.name == "q-2026-11-22-020000.jsonl"
    assert [trace.trace_id for trace in traces] == ["a#0", "b#0", "c#0", "a#1", "b#1", "c#1"]
    assert [(trace.input, trace.expected_output, trace.output) for trace in traces[:1]] == [
        ("What is a?", "a", "a")
    ]
    assert traces[0].tags == ("category:x",)
    assert traces[0].latency_ms is not None
    assert not journal_of(recorder.path).exists()


def test_resumed_run__repeats_only_what_was_not_finished(tmp_path: Path) -> None:
    agent = RecordingAgent(
        {
            "a": failed(TraceOutcome.AGENT_ERROR),
            "b": failed(TraceOutcome.INFRA_ERROR),
            "c": failed(TraceOutcome.TIMEOUT),
        }
    )
    first = run(tmp_path, agent)
    assert [attempt.label for attempt in first.missing()] == ["b"]
    second_agent = RecordingAgent()
    second = run(tmp_path, second_agent, resume=first.path)
    assert second.path == first.path
    assert second_agent.labels == ["b"]
    outcomes = [(trace.item_id, str(trace.outcome)) for trace in read(second.path)]
    assert outcomes == [("a", "agent_error"), ("b", "scored"), ("c", "timeout")]
    assert not journal_of(second.path).exists()


def test_resumed_run__of_complete_file_makes_new_trials_and_edited_items(tmp_path: Path) -> None:
    first = run(tmp_path, RecordingAgent())
    agent = RecordingAgent()
    edited = [replace(ITEMS[0], expected_output="A"), *ITEMS[1:]]
    second = run(tmp_path, agent, resume=first.path, items=edited, trials=2)
    assert agent.labels == ["a", "a #2", "b #2", "c #2"]
    assert len(read(second.path)) == 6


def test_journal__torn_last_line_is_repeated(tmp_path: Path) -> None:
    """As after a power loss in the middle of a line."""
    first = run(tmp_path, RecordingAgent({"c": failed(TraceOutcome.INFRA_ERROR)}))
    journal = journal_of(first.path)
    lines = journal.read_bytes().splitlines(keepends=True)
    assert len(lines) == 4
    # The head and the first attempt are complete.
    journal.write_bytes(b"".join(lines[:2]) + lines[2][: len(lines[2]) // 2])
    agent = RecordingAgent()
    run(tmp_path, agent, resume=first.path)
    assert agent.labels == ["b", "c"]


@pytest.mark.parametrize("setting", [{"agent_name": "other"}, {"dataset_name": "other.csv"}])
def test_resumed_run__of_another_agent_or_dataset_is_refused(
    tmp_path: Path, setting: dict[str, str]
) -> None:
    first = run(tmp_path, RecordingAgent({"a": failed(TraceOutcome.INFRA_ERROR)}))
    with pytest.raises(IncompatibleRun):
        run(tmp_path, RecordingAgent(), resume=first.path, **setting)


def test_resumed_run__of_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.jsonl").write_text("{}\n")
    with pytest.raises(InvalidResultFile):
        run(tmp_path, RecordingAgent(), resume=tmp_path / "other.jsonl")


def test_budget__ends_the_run_and_counts_earlier_attempts(tmp_path: Path) -> None:
    paid = {name: AgentAnswer(fields={"output": "x", "costUsd": 0.4}) for name in "abc"}
    first_agent, second_agent = RecordingAgent(paid), RecordingAgent(paid)
    # After 0.4 USD a second attempt may begin; what it costs is known only afterwards.
    first = run(tmp_path, first_agent, budget=BudgetLimits(cost_usd=0.5))
    assert first_agent.labels == ["a", "b"]
    assert summarize_execution(first)["costUsd"] == pytest.approx(0.8)
    run(tmp_path, second_agent, resume=first.path, budget=BudgetLimits(cost_usd=0.8))
    assert second_agent.labels == []
    run(tmp_path, second_agent, resume=first.path, budget=BudgetLimits(cost_usd=1))
    assert second_agent.labels == ["c"]


def test_run_limit__stops_attempts_that_are_in_progress(tmp_path: Path) -> None:
    class Waiting(RecordingAgent):
        async def __call__(self, attempt: ItemAttempt) -> AgentAnswer:
            self.labels.append(attempt.label)
            return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    recorder = run(tmp_path, Waiting(), limits=ExecutionLimits(concurrency=2, run_s=0.01))
    assert recorder.traces == []
    assert len(recorder.missing()) == 3


def trace_of(answer: AgentAnswer) -> Trace:
    return trace_of_answer(ItemAttempt(ITEMS[0], 0), answer, 5.0)


def test_answer__reports_everything_but_its_identity() -> None:
    fields = {
        "output": "x",
        "inputTokens": 1,
        "outputTokens": 2,
        "latencyMs": 7,
        "toolCalls": [{"name": "search", "ok": True}],
        "scores": {"TASK_PASSED": 1},
        "tags": ["new"],
    }
    trace = trace_of(AgentAnswer(fields=fields))
    assert (trace.item_id, trace.input_tokens, trace.output_tokens) == ("a", 1, 2)
    assert (trace.latency_ms, trace.tags) == (7, ("category:x", "new"))
    assert trace.tool_calls is not None
    assert trace.tool_calls[0].name == "search"
    assert trace.scores == {"TASK_PASSED": 1}


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({"output": "x", "error": "no tool"}, TraceOutcome.AGENT_ERROR),
        ({"outcome": "infra_error", "error": "provider away"}, TraceOutcome.INFRA_ERROR),
        ({"output": "x", "costUsd": -1}, TraceOutcome.AGENT_ERROR),
    ],
)
def test_answer__error_or_invalid_field_is_a_failure(
    fields: dict[str, Any], outcome: TraceOutcome
) -> None:
    trace = trace_of(AgentAnswer(fields=fields))
    assert trace.outcome is outcome
    assert trace.error


def test_items__id_with_two_inputs_is_refused() -> None:
    traces = [trace_of(AgentAnswer()), replace(trace_of(AgentAnswer()), input="other")]
    with pytest.raises(UnusableDataset, match="'a' occurs with two inputs"):
        items_of(traces, "d")


def test_items__dataset_without_inputs_is_refused() -> None:
    with pytest.raises(UnusableDataset):
        items_of([replace(trace_of(AgentAnswer()), input=None)], "d")


def test_items__of_langfuse_have_json_texts_and_metadata() -> None:
    document = {
        "id": "i",
        "input": {"q": [1, "é"]},
        "expectedOutput": None,
        "metadata": {"topic": "t", "level": 3, "nested": {}},
    }
    item = item_of_document(document)
    assert json.loads(item.input) == {"q": [1, "é"]}
    assert (item.expected_output, item.attributes) == (None, {"topic": "t", "level": "3"})


def test_fingerprint__changes_with_an_edited_item() -> None:
    edited = [replace(ITEMS[0], input="other"), *ITEMS[1:]]
    fingerprints = {fingerprint_of(plan_attempts(items, 1)) for items in (ITEMS, ITEMS, edited)}
    assert len(fingerprints) == 2
