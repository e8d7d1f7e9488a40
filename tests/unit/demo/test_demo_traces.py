"""The committed traces come from the agent, are valid uploads, and tell a plain story."""

import json
import re
from collections import Counter
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from demo.agent import HANDBOOK, read_questions, record
from demo.retrieval import read_handbook
from demo.tools import SETTINGS
from mosaico.traces.types import TraceOutcome
from tests.support.references import IN_ONE_PROCESS, Reference

pytestmark = IN_ONE_PROCESS
rouge_scorer = Reference("rouge_score.rouge_scorer")

DEMO = HANDBOOK.parent
QUESTIONS = read_questions(DEMO / "questions.jsonl")
SETTINGS_OF_RUNS = {"run-1": "good", "run-2": "degraded"}
FIELDS = {
    *("traceId", "itemId", "trial", "input", "expectedOutput", "output", "outcome", "tags"),
    *("inputTokens", "outputTokens", "costUsd", "latencyMs", "toolCalls", "scores"),
}


def path_of(run_name: str) -> Path:
    return DEMO / "traces" / f"{run_name}.jsonl"


def traces_of(run_name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path_of(run_name).read_text("utf-8").splitlines()]


def mean_rouge_l(traces: list[dict[str, Any]]) -> float:
    """Mean F1 as a run reports it: an agent's failure is 0, an infrastructure error is left out."""
    scorer = rouge_scorer.RougeScorer(["rougeL"])
    return fmean(
        scorer.score(trace["expectedOutput"], trace["output"] or "")["rougeL"].fmeasure
        for trace in traces
        if trace["outcome"] != "infra_error"
    )


@pytest.mark.parametrize(("run_name", "setting"), SETTINGS_OF_RUNS.items())
def test_demo_traces__agent_reproduces_committed_files(run_name: str, setting: str) -> None:
    written = record(QUESTIONS, SETTINGS[setting], run_name=run_name).encode()

    # Compared by `==` outside the assert: a difference of 200 kB is of no use to a reader.
    same = written == path_of(run_name).read_bytes()
    assert same, f"run `python -m demo.agent` with --setting {setting} and commit {run_name}.jsonl"


def test_demo_questions__ids_are_unique() -> None:
    assert len(QUESTIONS) >= 210
    assert len({question.id for question in QUESTIONS}) == len(QUESTIONS)
    assert len({question.question for question in QUESTIONS}) == len(QUESTIONS)


def test_demo_questions__section_is_in_current_handbook() -> None:
    current = {section.key for section in read_handbook(HANDBOOK) if not section.retired}

    # Also no section without a question: nothing would show that its retrieval fails.
    assert {question.section for question in QUESTIONS} == current


def test_demo_questions__numbers_of_answer_are_in_section() -> None:
    texts = {section.key: section.text for section in read_handbook(HANDBOOK)}
    unsupported = [
        question.id
        for question in QUESTIONS
        # Some answers to hard questions are computed: their numbers are in no section.
        if "hard" not in question.tags
        and not numbers_in(question.answer) <= numbers_in(texts[question.section])
    ]

    assert unsupported == []


def numbers_in(text: str) -> set[str]:
    return set(re.findall(r"\d+(?:\.\d+)?", text))


def test_demo_handbook__headings_are_unique() -> None:
    slugs = [section.slug for section in read_handbook(HANDBOOK) if not section.retired]

    assert len(slugs) == len(set(slugs)) >= 50


@pytest.mark.parametrize("run_name", SETTINGS_OF_RUNS)
def test_demo_traces__service_accepts_every_line(run_name: str) -> None:
    for trace in traces_of(run_name):
        outcome = TraceOutcome(trace["outcome"])
        failed = outcome is not TraceOutcome.SCORED
        assert set(trace) == FIELDS | ({"error"} if failed else set()), trace["traceId"]
        assert (trace["output"] is None) == failed
        assert set(trace["scores"]) == (set() if failed else {"Groundedness"})
        assert all(0 <= score <= 1 for score in trace["scores"].values())
        assert trace["latencyMs"] >= sum(call["latencyMs"] for call in trace["toolCalls"])
        assert all(
            set(call) == {"name", "arguments", "ok", "latencyMs"} for call in trace["toolCalls"]
        )


def test_demo_traces__both_runs_have_same_items_and_different_trace_ids() -> None:
    first, second = traces_of("run-1"), traces_of("run-2")

    question_ids = [question.id for question in QUESTIONS]
    assert [trace["itemId"] for trace in first] == question_ids
    assert [trace["itemId"] for trace in second] == question_ids
    assert len({trace["traceId"] for trace in first + second}) == 2 * len(question_ids)


@pytest.mark.parametrize("run_name", SETTINGS_OF_RUNS)
def test_demo_traces__both_runs_are_valid(run_name: str) -> None:
    outcomes = [TraceOutcome(trace["outcome"]) for trace in traces_of(run_name)]

    # Above the default `max_error_share` of 5 % a run is invalid,
    # and the demonstration shows no verdict.
    assert fmean(outcome.is_missing for outcome in outcomes) < 0.05
    assert sum(outcome is TraceOutcome.INFRA_ERROR for outcome in outcomes) <= 2


def test_demo_traces__second_run_is_clearly_worse() -> None:
    first, second = traces_of("run-1"), traces_of("run-2")

    assert mean_rouge_l(first) >= 0.45
    assert mean_rouge_l(second) <= 0.85 * mean_rouge_l(first)
    assert mean_latency_ms(second) > 1.5 * mean_latency_ms(first)


def mean_latency_ms(traces: list[dict[str, Any]]) -> float:
    return fmean(trace["latencyMs"] for trace in traces)


def failed_calls(traces: list[dict[str, Any]]) -> int:
    return sum(not call["ok"] for trace in traces for call in trace["toolCalls"])


def test_demo_readme__figures_match_the_files() -> None:
    runs = [traces_of(run_name) for run_name in SETTINGS_OF_RUNS]
    outcomes = [Counter(trace["outcome"] for trace in traces) for traces in runs]
    rows: dict[str, list[str]] = {
        f"`{name}`": [str(count[name]) for count in outcomes]
        for name in ("scored", "agent_error", "timeout", "infra_error")
    }
    rows["failed tool calls"] = [str(failed_calls(traces)) for traces in runs]
    rows["mean latency (ms)"] = [f"{mean_latency_ms(traces):.0f}" for traces in runs]
    rows["mean ROUGE-L F1, an agent failure counting 0"] = [
        f"{mean_rouge_l(traces):.3f}" for traces in runs
    ]

    readme = (DEMO / "README.md").read_text("utf-8")

    table_rows = {
        name: f"| {name} | {first} | {second} |" for name, (first, second) in rows.items()
    }
    assert [name for name, row in table_rows.items() if row not in readme] == []
    assert f"{len(QUESTIONS)} questions" in readme
