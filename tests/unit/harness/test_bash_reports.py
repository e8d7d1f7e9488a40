"""Reports of a run: correct figures, and no markup or control characters from users' text."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from mosaico.core.errors import UnusableInput
from mosaico.harness.bash.compare import TaskDiagnosis, compare
from mosaico.harness.bash.comparison_report import (
    comparison_report,
    comparison_tables,
)
from mosaico.harness.bash.report_view import REPORTS, render
from mosaico.harness.bash.result_file import file_stem, parse_report, read_report, write_report
from mosaico.harness.bash.summary import summarize_trials
from mosaico.harness.bash.types import EvalReport, EvalResult
from mosaico.harness.reports.view import UNKNOWN
from mosaico.harness.results import AttemptOutcome
from mosaico.llm.conversation import (
    ChatMessage,
    MessageRole,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from tests.support.bash_eval import (
    GPT,
    HAIKU,
    HAIKU_BEFORE,
    OPUS,
    call,
    recorded_report,
    report,
    result,
    task,
    trace,
)

EVIL = '<script>alert("1")</script> | a\nb \x1b[31m'
ONE = task("exit_code:0", "stdout_contains:x", task_id="one")


def evil_report() -> EvalReport:
    conversation = (
        ChatMessage(role=MessageRole.USER, content=(TextBlock(text=EVIL),)),
        ChatMessage(
            role=MessageRole.ASSISTANT,
            content=(ToolUseBlock(id="1", name="bash", input={"commands": EVIL}),),
        ),
        ChatMessage(
            role=MessageRole.TOOL_RESULT,
            content=(ToolResultBlock(tool_use_id="1", content=EVIL, is_error=True),),
        ),
    )
    evil = task(f"stdout_contains:{EVIL}", task_id=EVIL, category=EVIL, description=EVIL)
    errored = EvalResult(task=evil, outcome=AttemptOutcome.INFRA_ERROR, reason=EVIL)
    return report(
        result(evil, False, trace=trace(call(EVIL, code=1, stderr=EVIL), messages=conversation)),
        errored,
        model=EVIL,
    )


class Tags(HTMLParser):
    """Collects the tags and texts of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, _: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_html_report__escapes_foreign_text() -> None:
    page = render(evil_report(), "html")
    tags = Tags(page)
    assert "script" not in tags.tags
    assert any(EVIL in text for text in tags.texts)
    assert "default-src 'none'" in page
    assert "http" not in page.replace("http-equiv", "")


def test_terminal_report__escapes_control_characters() -> None:
    text = render(evil_report(), "terminal")
    assert "\x1b" not in text
    assert "\\x1b[31m" in text


def test_markdown_report__escapes_foreign_text() -> None:
    text = render(evil_report(), "markdown")
    assert re.search(r"(?<!\\)<", text) is None
    row = next(line for line in text.splitlines() if line.startswith("| stdout"))
    # Four cells: no separator comes from the text.
    assert row.replace(r"\|", "").count("|") == 5


def test_json_report__is_read_back_unchanged() -> None:
    evil = evil_report()
    assert parse_report(render(evil, "json").encode(), name="it") == evil


@pytest.mark.parametrize("form", REPORTS)
def test_reports__empty_run_is_rendered(form: str) -> None:
    text = render(report(), form)
    # An empty run has no rate; the original prints that 100 % of its calls succeeded.
    assert form == "markdown-original" or "100" not in text


def test_terminal_report__names_pass_rate_and_overall_rate() -> None:
    # One of one task missed one of two checks.
    text = render(report(result(ONE, True, False)), "terminal")
    assert "Pass rate         0.0 % (0 of 1 tasks met every expectation)" in text
    assert "Overall rate      50.0 % (1 of 2 weighted points)" in text
    assert "[FAIL] one (file_operations) - 1/2" in text
    assert "       stdout_contains:x: d" in text


def test_reports__errored_attempt_has_reason() -> None:
    errored = EvalResult(task=ONE, outcome=AttemptOutcome.INFRA_ERROR, reason="overloaded", trial=1)
    for form in ("terminal", "markdown", "html"):
        text = render(report(result(ONE, True, True), errored), form)
        assert "overloaded" in text
        assert "ERROR" in text
    assert "[ERROR] one #2 (file_operations) - overloaded" in render(report(errored), "terminal")


def test_original_markdown__equals_category_table_of_recorded_run() -> None:
    text = render(recorded_report(HAIKU), "markdown-original")
    assert "**32/37 tasks passed (95%)**" in text
    assert "- **Tool call success**: 121 ok, 29 error (81% success rate)" in text
    assert "| complex_tasks | 3 | 4 | 92% |\n| data_transformation | 4 | 5 | 93% |" in text


def test_write_report__uses_name_of_run(tmp_path: Path) -> None:
    recorded_report = report(provider="openai", model="org/gpt:5", timestamp="2026-02-09T05:45:58Z")
    assert file_stem(recorded_report) == "eval-openai-org-gpt-5-2026-02-09-054558"
    path = tmp_path / "new" / "x.json"
    write_report(recorded_report, path)
    assert read_report(path) == recorded_report
    assert [file.name for file in path.parent.iterdir()] == ["x.json"]


def runs(*outcomes: str, stderr: tuple[str, ...] = ()) -> list[EvalReport]:
    """Runs over the same tasks; each text has a + for a task that passed."""
    stderr_texts = stderr or ("",) * len(outcomes)
    return [
        report(
            *(
                result(
                    task(task_id=str(n)),
                    sign == "+",
                    trace=trace(call(code=1, stderr=stderr_texts[run_index])),
                )
                for n, sign in enumerate(signs)
            ),
            model=str(run_index),
        )
        for run_index, signs in enumerate(outcomes)
    ]


def test_compare__compares_task_by_task() -> None:
    comparison = compare(runs("++--", "+-+-"))
    assert [compared_task.diagnosis for compared_task in comparison.tasks] == [
        TaskDiagnosis.ALL_PASS,
        TaskDiagnosis.MODELS_DIFFER,
        TaskDiagnosis.MODELS_DIFFER,
        TaskDiagnosis.ALL_FAIL,
    ]
    [pair] = comparison.pairs
    assert (pair.result.only_first, pair.result.only_second, pair.result.difference) == (1, 1, 0.0)
    assert comparison.runs[0].tokens_where_all_pass == 110.0
    assert comparison.runs[0].turns_where_all_pass == 2.0


def test_compare__common_error_points_to_sandbox() -> None:
    same = "sed: no such option\n"
    [compared_task] = compare(runs("-", "-", stderr=(same, f"else\n{same}"))).tasks
    assert (compared_task.diagnosis, compared_task.error) == (
        TaskDiagnosis.ALL_FAIL_ALIKE,
        "sed: no such option",
    )


def test_compare__task_counts_with_the_share_of_its_trials() -> None:
    both = report(result(task(), True), result(task(), False, trial=1))
    comparison = compare([both, report(result(task(), True))])
    assert comparison.runs[0].pass_shares == (0.5,)
    assert comparison.tasks[0].passed == (False, True)
    assert (comparison.pairs[0].result.only_second, comparison.pairs[0].result.difference) == (
        1,
        0.5,
    )


def repeated_run(*signs: str) -> EvalReport:
    return report(*(result for n, row in enumerate(signs) for result in trial_results(str(n), row)))


def test_compare__trials_have_one_rate_and_their_statistics() -> None:
    """Means over three tasks: (1/2 + 0 + 1) / 3 = 1/2 and (1 + 1/2 + 2/3) / 3 = 13/18. pass@2 is
    2/3 and (1 + 1 + 1) / 3, pass^2 1/3 and (1 + 0 + 1/3) / 3 = 4/9.
    """
    comparison = compare([repeated_run("+-", "--", "++"), repeated_run("++", "+-", "++-")])
    assert [run.pass_rate for run in comparison.runs] == pytest.approx([1 / 2, 13 / 18])
    assert comparison.pairs[0].result.difference == pytest.approx(13 / 18 - 1 / 2)
    tables = {
        table.title: [tuple(row) for row in table.rows] for table in comparison_tables(comparison)
    }
    assert ("Pass rate", "50.0 %", "72.2 %") in [row[:3] for row in tables["Diagnosis"]]
    assert (
        tables["Pairs: difference of pass rates, paired t test, Holm adjustment"][0][1] == "+22.2"
    )
    passes = tables["Repeated trials: pass@k / pass^k"]
    assert passes[0] == ("1", "50.0 % / 50.0 %", "72.2 % / 72.2 %")
    assert passes[1] == ("2", "66.7 % / 33.3 %", "100.0 % / 44.4 %")
    # Only the last task of the second run has a third trial.
    assert passes[2][:2] == ("3", UNKNOWN)
    category = "file_operations"
    assert tables["Flaky tasks: 3"] == [
        ("0", category, "1/2", "2/2"),
        ("1", category, "0/2", "1/2"),
        ("2", category, "2/2", "2/3"),
    ]
    assert "Fails for all models: none" in tables
    assert tables["Baseline"][0] == ("Attempts passed", "3/6", "5/7")


def test_compare__equally_flaky_task_does_not_fail_for_all() -> None:
    comparison = compare([repeated_run("+-", "--"), repeated_run("-+", "--")])
    assert [compared_task.diagnosis for compared_task in comparison.tasks] == [
        TaskDiagnosis.FLAKY,
        TaskDiagnosis.ALL_FAIL,
    ]
    titles = [table.title for table in comparison_tables(comparison)]
    assert "Fails for all models: 1" in titles
    assert "Tasks in which the models differ: none" in titles


def test_report__has_one_tool_call_success() -> None:
    """Of scored attempts 2 of 3 calls succeed; the calls of an errored one are not counted."""
    errored = EvalResult(
        task=task(task_id="gone"),
        trace=trace(call(), call(), call()),
        outcome=AttemptOutcome.INFRA_ERROR,
        reason="gone",
    )
    run = report(result(task(), True, calls=[call(), call(), call(code=1)]), errored)
    text = render(run, "terminal")
    assert text.count("66.7 %") == 3
    assert "83.3 %" not in text


def test_compare__task_without_score_is_excluded_from_all_runs() -> None:
    errored = EvalResult(task=task(task_id="1"), outcome=AttemptOutcome.INFRA_ERROR, reason="gone")
    first, second = runs("++", "++")
    comparison = compare([first, report(second.results[0], errored)])
    assert [compared_task.task_id for compared_task in comparison.tasks] == ["0"]
    assert [run.excluded_tasks for run in comparison.runs] == [1, 1]


def test_compare__no_common_task_is_refused() -> None:
    with pytest.raises(UnusableInput):
        compare([report(result(task(), True)), report(result(task(prompt="Else."), True))])


def test_compare__recorded_runs_equal_reference() -> None:
    comparison = compare([recorded_report(name) for name in (HAIKU, OPUS, GPT)])
    assert [(p.result.only_first, p.result.only_second) for p in comparison.pairs] == [
        (5, 2),
        (11, 2),
        (10, 4),
    ]
    assert comparison.categories[0].name == "archive_operations"
    # Holm by hand: 0.0127 * 3, then 0.118 * 2, then the largest of 0.236 and 0.289.
    adjusted = [f"{pair.p_adjusted:.3f}" for pair in comparison.pairs]
    assert adjusted == ["0.289", "0.038", "0.236"]


def test_compare__tasks_that_every_run_fails_are_listed() -> None:
    same = "sed: no such option\n"
    comparison = compare(runs("+-", "--", stderr=(same, same)))
    assert "Fails for all models: 1" in comparison_report(comparison)
    assert "check the sandbox: sed: no such option" in comparison_report(comparison)
    assert "Fails for all models: none" in comparison_report(compare(runs("+", "+")))


def trial_results(task_id: str, signs: str) -> list[EvalResult]:
    return [
        result(task(task_id=task_id), sign == "+", trial=number)
        for number, sign in enumerate(signs)
    ]


def test_trials__pass_statistics_by_hand() -> None:
    """Tasks with 3, 2 and 0 of 4 passes: pass@2 is (1 + 5/6 + 0) / 3, pass^2 (1/2 + 1/6 + 0) / 3."""
    run = report(
        *trial_results("steady", "+++-"),
        *trial_results("coin", "+-+-"),
        *trial_results("no", "----"),
    )
    trials = summarize_trials(run)
    assert trials is not None
    assert [(row.task_id, row.passed, row.trials) for row in trials.tasks] == [
        ("steady", 3, 4),
        ("coin", 2, 4),
        ("no", 0, 4),
    ]
    assert trials.flaky == ("steady", "coin")
    assert [row.k for row in trials.passes] == [1, 2, 3, 4]
    assert trials.passes[0].pass_at_k == trials.passes[0].pass_hat_k == pytest.approx(5 / 12)
    assert trials.passes[1].pass_at_k == pytest.approx((1 + 5 / 6) / 3)
    assert trials.passes[1].pass_hat_k == pytest.approx((1 / 2 + 1 / 6) / 3)
    assert trials.passes[3].pass_at_k == pytest.approx(2 / 3)
    assert trials.passes[3].pass_hat_k == 0.0


def test_trials__errored_trials_are_not_counted() -> None:
    errored = EvalResult(task=task(task_id="a"), outcome=AttemptOutcome.INFRA_ERROR, trial=2)
    run = report(*trial_results("a", "+-"), *trial_results("b", "+"), errored)
    trials = summarize_trials(run)
    assert trials is not None
    assert [(row.trials, row.passed) for row in trials.tasks] == [(2, 1), (1, 1)]
    assert [(row.k, row.tasks) for row in trials.passes] == [(1, 2), (2, 1)]


def test_trials__are_shown_in_reports_and_stored() -> None:
    run = report(*trial_results("coin", "+-"), *trial_results("sure", "++"))
    text = render(run, "terminal")
    assert "Trials by task: 1 flaky" in text
    assert re.search(r"coin +file_operations +1/2 +flaky", text)
    assert json.loads(render(run, "json"))["trials"]["flaky"] == ["coin"]
    assert summarize_trials(report(*trial_results("one", "+"))) is None
    assert "Trials by task" not in render(report(*trial_results("one", "+")), "terminal")


def test_compare__edited_tasks_are_excluded() -> None:
    comparison = compare([recorded_report(name) for name in (HAIKU_BEFORE, HAIKU)])
    # Of 25 tasks 6 were edited, and 12 of the 37 were added.
    assert len(comparison.tasks) == 19
    assert [run.excluded_tasks for run in comparison.runs] == [6, 18]
