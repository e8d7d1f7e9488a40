"""Runs as logs of Inspect AI: what `inspect view` needs, read back by our own importer of its logs."""

from pathlib import Path

import pytest

from mosaico.harness.bash.report_view import run_view as bash_view
from mosaico.harness.bash.types import EvalResult
from mosaico.harness.mcp.config import EvaluatorConfig
from mosaico.harness.mcp.report_view import run_view as mcp_view
from mosaico.harness.reports.files import write_reports
from mosaico.harness.reports.inspect_log import inspect_log
from mosaico.harness.reports.view import AttemptStatus, AttemptView, RunReportView
from mosaico.harness.results import AttemptOutcome, ConversationEnding
from mosaico.traces.files.read_options import ReadOptions
from tests.support.bash_eval import call, report, result, task
from tests.support.import_files import Imported
from tests.support.mcp_bench import calls, harness_task, run, says, scripted
from tests.support.mcp_servers import faults
from tests.support.texts import assert_names

pytestmark = pytest.mark.usefixtures("loaded_evaluators")


def mcp_run() -> RunReportView:
    """One task that passes with a call, and one that fails."""
    expected = EvaluatorConfig(expected="hello")
    tasks = [
        harness_task(faults(), name=name, prompt=prompt, evaluator=expected)
        for name, prompt in (("right/one", "Say hello."), ("wrong", "Say it."))
    ]
    turns = [
        calls(("echo", {"text": "hello"}), tokens=(100, 5)),
        says("hello", (120, 6)),
        says("?"),
    ]
    return mcp_view(run(*tasks, model=scripted(*turns), concurrency=1).report)


@pytest.mark.parametrize("name", ["run.eval", "run.json"])
def test_inspect_log__is_read_back(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    write_reports(mcp_run(), junit=None, html=None, inspect=file)
    imported = Imported(file, ReadOptions())
    assert imported.format == "inspect"
    right, wrong = imported.traces
    assert (right.input, right.output, right.scores["passed"]) == ("Say hello.", "hello", 1.0)
    assert (wrong.input, wrong.output, wrong.scores["passed"]) == ("Say it.", "?", 0.0)
    assert (right.input_tokens, right.output_tokens) == (220, 11)
    assert right.item_id is not None
    assert "/" not in right.item_id


def test_inspect_log__attempt_without_a_verdict_has_no_score(tmp_path: Path) -> None:
    file = tmp_path / "bash.eval"
    one, two = (task("exit_code:0", task_id=task_id) for task_id in ("one", "two"))
    failed = EvalResult(task=two, outcome=AttemptOutcome.INFRA_ERROR, reason="no answer")
    view = bash_view(report(result(one, True), failed))
    write_reports(view, junit=None, html=None, inspect=file)
    scored, errored = Imported(file, ReadOptions()).traces
    assert scored.scores["passed"] == 1.0
    assert "passed" not in errored.scores


def attempt(title: str, ending: ConversationEnding | None = None) -> AttemptView:
    return AttemptView(
        task=title, title=title, label="PASS", status=AttemptStatus.PASSED, group="g", case=title,
        duration_s=1.0, ending=ending,
    )  # fmt: skip


def view_of(*attempts: AttemptView, is_complete: bool = True) -> RunReportView:
    return RunReportView(
        program="p", title="t", timestamp="2026-11-01T00:00:00Z", figures=(), tables=(),
        attempts=attempts, is_complete=is_complete,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("ending", "stop_reason"),
    [
        (ConversationEnding.NATURAL, "stop"),
        (ConversationEnding.TRUNCATED, "max_tokens"),
        (ConversationEnding.REFUSAL, "content_filter"),
        (ConversationEnding.CONTEXT_LENGTH, "model_length"),
        (ConversationEnding.TURN_LIMIT, "unknown"),
    ],
)
def test_inspect_log__names_the_ending(ending: ConversationEnding, stop_reason: str) -> None:
    [sample] = inspect_log(view_of(attempt("one", ending)))["samples"]
    assert sample["output"]["choices"][0]["stop_reason"] == stop_reason
    assert sample["metadata"]["ending"] == ending


def test_inspect_log__attempts_of_the_same_name_are_all_read_back(tmp_path: Path) -> None:
    """Two files may have a scenario and a task of the same name."""
    file = tmp_path / "run.eval"
    write_reports(view_of(attempt("a/b"), attempt("a-b")), junit=None, html=None, inspect=file)
    assert len({trace.item_id for trace in Imported(file, ReadOptions()).traces}) == 2


@pytest.mark.parametrize(("is_complete", "status"), [(True, "success"), (False, "cancelled")])
def test_inspect_log__incomplete_run_is_no_success(is_complete: bool, status: str) -> None:
    assert inspect_log(view_of(attempt("a"), is_complete=is_complete))["status"] == status


def test_inspect_log__has_the_output_of_commands() -> None:
    made = result(task(), True, calls=[call("first", stderr="no such file", code=1)])
    [sample] = inspect_log(bash_view(report(made)))["samples"]
    output = next(each["content"] for each in sample["messages"] if each["role"] == "tool")
    assert_names(output, "first", "no such file")
