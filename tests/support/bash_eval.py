"""Small tasks, traces and files of bash evaluations."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mosaico.harness.bash.check_registry import CheckEvidence, FileKind, UnreadableFile
from mosaico.harness.bash.result_file import read_report
from mosaico.harness.bash.types import (
    AgentTrace,
    EvalReport,
    EvalResult,
    EvalTask,
    Expectation,
    ScoreResult,
    TaskScore,
    ToolCallResult,
)

_DEFAULT_DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"

# Recorded runs are not part of the project; where they are, tests read them.
DATA = Path(os.environ.get("MOSAICO_TEST_DATA", _DEFAULT_DATA)) / "bashkit"

HAIKU = "eval-anthropic-claude-haiku-4-5-20251001-2026-02-09-054558.json"
OPUS = "eval-anthropic-claude-opus-4-6-2026-02-09-142736.json"
GPT = "eval-openai-gpt-5.2-2026-02-09-054424.json"
HAIKU_BEFORE = "eval-anthropic-claude-haiku-4-5-2026-02-08-061414.json"
GPT_BEFORE = "eval-openai-gpt-5.2-2026-02-08-061445.json"
SONNET = "eval-anthropic-claude-sonnet-4-20250514-2026-02-17-230312.json"
RECORDINGS = (HAIKU, OPUS, GPT, HAIKU_BEFORE, GPT_BEFORE, SONNET)


def recorded(name: str) -> Path:
    """A recorded run; the test is skipped where the recordings are not."""
    path = DATA / "runs" / name
    if not path.exists():
        pytest.skip(f"the recording {name} is not here")
    return path


def recorded_report(name: str) -> EvalReport:
    """What a recorded run holds; reports never change, so one reading serves all tests."""
    return _read(recorded(name))


_read = cache(read_report)


def dataset_file(name: str) -> Path:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"the dataset {name} is not here")
    return path


@dataclass(frozen=True, slots=True)
class MemoryFiles:
    """Files that nobody has to make: a path that maps to None is a directory."""

    contents: Mapping[str, bytes | None] = field(default_factory=dict)

    def kind(self, path: str) -> FileKind | None:
        if path not in self.contents:
            return None
        return FileKind.DIRECTORY if self.contents[path] is None else FileKind.FILE

    def read(self, path: str) -> bytes:
        content = self.contents.get(path)
        if content is None:
            raise UnreadableFile("not found" if path not in self.contents else "is a directory")
        return content


def call(
    stdout: str = "", *, code: int = 0, stderr: str = "", commands: str = "x"
) -> ToolCallResult:
    return ToolCallResult(commands=commands, stdout=stdout, stderr=stderr, exit_code=code)


def evidence(
    *calls: ToolCallResult, files: Mapping[str, bytes | None] | None = None, **more: Any
) -> CheckEvidence:
    return CheckEvidence(calls=calls, files=MemoryFiles(files or {}), **more)


def task(*checks: str | Expectation, task_id: str = "t", **more: Any) -> EvalTask:
    fields: dict[str, Any] = {
        "category": "file_operations",
        "description": "A small task",
        "prompt": "Do it.",
        **more,
    }
    expectations = tuple(
        check if isinstance(check, Expectation) else Expectation(check=check)
        for check in checks or ("exit_code:0",)
    )
    return EvalTask(id=task_id, expectations=expectations, **fields)


def trace(*calls: ToolCallResult, **more: Any) -> AgentTrace:
    fields: dict[str, Any] = {
        "messages": (),
        "turns": len(calls) + 1,
        "natural_stop": True,
        "total_input_tokens": 100,
        "total_output_tokens": 10,
        "duration_ms": 1000,
        **more,
    }
    return AgentTrace(
        tool_calls=calls,
        tool_call_count=len(calls),
        last_tool_response=calls[-1] if calls else None,
        **fields,
    )


def result(
    eval_task: EvalTask, *passed: bool, calls: Sequence[ToolCallResult] = (), **more: Any
) -> EvalResult:
    """A scored attempt whose expectations passed or not, in their order."""
    results = tuple(
        ScoreResult(check=expectation.check, passed=ok, detail="d", weight=expectation.weight)
        for expectation, ok in zip(eval_task.expectations, passed, strict=True)
    )
    score = TaskScore(
        task_id=eval_task.id,
        results=results,
        score=sum(entry.weight for entry in results if entry.passed),
        max_score=sum(entry.weight for entry in results),
    )
    fields: dict[str, Any] = {"trace": trace(*calls), **more}
    return EvalResult(task=eval_task, score=score, **fields)


def report(*results: EvalResult, **more: Any) -> EvalReport:
    fields: dict[str, Any] = {
        "provider": "scripted",
        "model": "m",
        "timestamp": "2026-11-22T01:02:03Z",
        "max_turns": 10,
        **more,
    }
    return EvalReport(results=results, **fields)
