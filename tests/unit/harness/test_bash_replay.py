"""Replay of recorded commands in a fresh sandbox; the figures depend on the pinned bashkit."""

from dataclasses import replace
from typing import Any

import pytest

from mosaico.harness.bash.check_registry import load_checks, split_check
from mosaico.harness.bash.replay import replay, rescore
from mosaico.harness.bash.summary import summarize
from mosaico.harness.bash.types import EvalReport
from mosaico.harness.result_file import InvalidResultFile
from tests.support.bash_eval import (
    GPT,
    GPT_BEFORE,
    HAIKU,
    HAIKU_BEFORE,
    OPUS,
    RECORDINGS,
    SONNET,
    call,
    recorded_report,
    report,
    result,
    task,
)


@pytest.fixture(autouse=True, scope="module")
def _loaded_checks() -> None:
    load_checks()


# Recorded without the files of the sandbox that they read.
FILE_CHECKS = frozenset({"file_exists", "dir_exists", "file_contains", "file_line_regex"})
WRITER = task("file_contains:/a:hello", "stdout_contains:hi", "exit_code:0")


def recording() -> EvalReport:
    """A recorded run: the model wrote a file and printed a greeting."""
    calls = [call(commands="echo hello > /a"), call("hi\n", commands="echo hi")]
    return report(result(WRITER, True, True, True, calls=calls))


def test_replay__same_outcome_agrees() -> None:
    again = replay(recording())
    assert again.agreement.checks == (3, 3)
    assert again.agreement.tasks == (1, 1)
    assert again.agreement.exit_codes == (2, 2)
    assert again.agreement.changed == ()
    assert [attempt_result.detail for attempt_result in again.report.results[0].score.results] == [  # type: ignore[union-attr]
        "found in file",
        "found",
        "expected 0, got 0",
    ]


def test_replay__changed_check_is_listed() -> None:
    old = recording()
    calls = (call(commands="echo bye > /a", code=3), old.results[0].trace.tool_calls[1])  # type: ignore[union-attr]
    trace = replace(old.results[0].trace, tool_calls=calls)  # type: ignore[type-var]
    again = replay(replace(old, results=(replace(old.results[0], trace=trace),)))
    assert [change.recorded.check for change in again.agreement.changed] == [
        "file_contains:/a:hello"
    ]
    assert again.agreement.exit_codes == (1, 2)
    assert again.agreement.tasks == (0, 1)


def test_replay__unstable_checks_are_not_counted() -> None:
    # A check of a digit may pass by the clock, so a difference says nothing about the sandbox.
    checked_task = task("stdout_contains:3", "exit_code:0")
    old = report(result(checked_task, True, True, calls=[call("3", commands="echo x")]))
    again = replay(old).agreement
    assert again.tasks == (1, 1)
    assert again.checks == (1, 1)
    assert [change.is_unstable for change in again.changed] == [True]


def test_rescore__uses_recorded_calls_and_new_files() -> None:
    old = recording()
    printed = replace(old.results[0].trace.tool_calls[1], commands="echo never")  # type: ignore[union-attr]
    calls = (old.results[0].trace.tool_calls[0], printed)  # type: ignore[union-attr]
    trace = replace(old.results[0].trace, tool_calls=calls)  # type: ignore[type-var]
    changed = replace(old, results=(replace(old.results[0], trace=trace),))
    assert rescore(changed).agreement.checks == (3, 3)
    assert replay(changed).agreement.checks == (2, 3)


def limited(**sandbox: Any) -> dict[str, Any]:
    """The settings of a run with these limits of its sandbox."""
    return {"limits": {"task": {"sandbox": sandbox}}}


def test_replay__uses_recorded_limits() -> None:
    """The recorded limit is 2 of the 4 commands; the replay refuses the third command again."""
    checked_task = task("exit_code:1")
    recorded_report = report(
        result(checked_task, True, calls=[call(commands="true; true; true; true", code=1)]),
        settings=limited(max_commands=2),
    )
    assert replay(recorded_report).agreement.exit_codes == (1, 1)
    assert replay(replace(recorded_report, settings={})).agreement.exit_codes == (0, 1)


@pytest.mark.parametrize(
    "sandbox",
    [{"timeout_s": -1}, {"timeout_s": 1e300}, {"max_memory": 2**70}, {"max_commands": "x"}],
)
def test_replay__invalid_recorded_limits_are_refused(sandbox: dict[str, Any]) -> None:
    with pytest.raises(InvalidResultFile, match="limits of the sandbox"):
        replay(report(settings=limited(**sandbox)))


@pytest.mark.parametrize("name", RECORDINGS)
def test_run_check__recorded_calls_give_recorded_results(name: str) -> None:
    before = recorded_report(name)
    after = rescore(before).report
    for old, new in zip(before.results, after.results, strict=True):
        assert old.score
        assert new.score
        for was, now in zip(old.score.results, new.score.results, strict=True):
            if split_check(was.check).name not in FILE_CHECKS:
                assert (was.passed, was.detail, was.weight) == (now.passed, now.detail, now.weight)


@pytest.mark.parametrize(
    ("name", "expected", "ok", "failed"),
    [
        (HAIKU, (34, 180.0), 148, 2),
        (OPUS, (32, 174.0), 193, 5),
        (GPT, (30, 164.0), 106, 2),
        (HAIKU_BEFORE, (25, 106.0), 91, 2),
        (GPT_BEFORE, (22, 95.0), 101, 2),
        (SONNET, (3, 8.0), 4, 0),
    ],
)
def test_replay__recorded_runs_equal_reference(
    name: str, expected: tuple[int, float], ok: int, failed: int
) -> None:
    again = replay(recorded_report(name))
    summary = summarize(again.report)
    assert (summary.tool_calls_ok, summary.tool_calls_error) == (ok, failed)
    assert (summary.total_passed, summary.total_score) == expected
