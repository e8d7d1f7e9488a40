"""Reports of a run: figures, gate, files."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.core.console.files import UnreadableInput
from mosaico.core.reports import escape_cell, unescape_cell
from mosaico.harness.mcp.context_cost import context_costs, tool_usages
from mosaico.harness.mcp.report_view import calls_csv, result_word, run_view, task_table, tasks_csv
from mosaico.harness.mcp.result_file import (
    add_result,
    add_server,
    load_report,
    read_report,
    report_document,
    write_report,
)
from mosaico.harness.mcp.stored_attempt import task_scores
from mosaico.harness.mcp.summary import gate_figures, summarize
from mosaico.harness.mcp.types import AttemptError, ErrorKind, Evaluation, McpReport, TaskResult
from mosaico.harness.reports.files import junit_report
from mosaico.harness.reports.html import html_report
from mosaico.harness.reports.text import terminal_report
from mosaico.harness.result_file import InvalidResultFile, Journal, journal_of
from mosaico.harness.results import AttemptOutcome, HarnessExit, decide_exit
from mosaico.llm.conversation import user_message
from tests.support.mcp_results import (
    FAILED,
    PASSED,
    llm_calls,
    mcp_report,
    result,
    server,
    tool_call,
)

ENDED = {
    AttemptOutcome.INFRA_ERROR: ErrorKind.PROVIDER,
    AttemptOutcome.JUDGE_ERROR: ErrorKind.JUDGE,
    AttemptOutcome.TIMEOUT: ErrorKind.TIMEOUT,
    AttemptOutcome.AGENT_ERROR: ErrorKind.TOOL,
    AttemptOutcome.SKIPPED: ErrorKind.RUN_LIMIT,
}
SCORE = Evaluation(type="judge", passed=None, reason="80 of 100: fine", score=0.8)
ERROR = AttemptError(kind=ErrorKind.SERVER_START, detail="'time' does not start")
# Markup of rich, an emoji name, HTML, the end of CDATA, control characters and a formula.
NASTY = "[/x] [bold]a[/bold] :smile: <b>&</b> ]]> \x00\x1b[31m =1+1"


def erred(task: str = "compare:mcp", **fields: object) -> TaskResult:
    return result(task, outcome=AttemptOutcome.INFRA_ERROR, error=ERROR, evaluations=(), **fields)


def rich_report() -> McpReport:
    return mcp_report(
        result(llm_calls=llm_calls(100), messages=(user_message(NASTY),), cost_usd=0.25),
        result(
            "compare:all-mcps",
            servers=("a", "b"),
            llm_calls=llm_calls(400, 460, 560),
            tool_calls=(tool_call("a", "echo"), tool_call("a", "echo", is_error=True)),
            evaluations=(PASSED, replace(FAILED, reason=NASTY)),
            response=NASTY,
        ),
        erred(),
        servers=(server("a", echo=50, sum=70), server("b", get=30)),
    )


def test_context_figures__equal_specification() -> None:
    # 100 → 160 → 260: it grows by 60 and by 100, on average by 80
    grown = result(llm_calls=llm_calls(100, 160, 260))
    assert (grown.base_context, grown.context_growth_avg) == (100, 80)
    assert (grown.input_tokens, grown.output_tokens) == (520, 30)
    assert [call.cumulative_input for call in grown.llm_calls] == [100, 260, 520]
    once = result(llm_calls=llm_calls(100))
    assert (once.base_context, once.context_growth_avg) == (100, 0)
    unknown = result(llm_calls=llm_calls(100, None))
    assert (unknown.input_tokens, unknown.context_growth_avg) == (None, None)
    direct = result()
    assert (direct.base_context, direct.context_growth_avg) == (None, None)


@pytest.mark.parametrize(
    ("attempt", "word"),
    [
        (result(), "PASS"),
        (result(evaluations=(PASSED, FAILED)), "FAIL"),
        (result(evaluations=()), "-"),
        (result(evaluations=(SCORE,)), "80"),
        (result(evaluations=(SCORE, PASSED)), "PASS"),
        (erred(), "ERROR"),
        (result(outcome=AttemptOutcome.SKIPPED, evaluations=()), "SKIP"),
    ],
)
def test_result_word__of_each_outcome(attempt: TaskResult, word: str) -> None:
    assert result_word(attempt) == word


@pytest.mark.parametrize(
    ("report", "least", "decided"),
    [
        (mcp_report(result()), 1.0, HarnessExit.PASSED),
        (mcp_report(result(), result(evaluations=(FAILED,))), 1.0, HarnessExit.BELOW),
        (mcp_report(result(), result(evaluations=(FAILED,))), 0.5, HarnessExit.PASSED),
        # Even a limit of 0 needs every attempt: an error or a missing attempt is no evidence.
        (mcp_report(result(), erred()), 0.0, HarnessExit.ERRORS),
        (mcp_report(result(), planned=2), 0.0, HarnessExit.ERRORS),
        (mcp_report(result(evaluations=(SCORE,))), 0.0, HarnessExit.ERRORS),
        (mcp_report(result(evaluations=())), 0.0, HarnessExit.ERRORS),
    ],
)
def test_decide_exit__of_each_run(report: McpReport, least: float, decided: HarnessExit) -> None:
    assert decide_exit(gate_figures(report), least) is decided


def test_context_costs__compares_sets_of_servers() -> None:
    none, both = context_costs(rich_report())
    assert (none.servers, none.tools, none.schema_tokens, none.base_context) == ((), 0, 0, 100)
    assert (both.servers, both.tools, both.schema_tokens) == (("a", "b"), 3, 150)
    # 400 → 460 → 560: base 400, growth 80; the base of the first is a quarter of it
    assert (both.base_context, both.context_growth, both.llm_calls) == (400, 80, 3)
    assert (none.share_of_largest, both.share_of_largest) == (0.25, 1.0)
    assert (none.cost_usd, both.cost_usd) == (0.25, None)


def test_context_costs__errors_are_not_judged() -> None:
    """One attempt passed and one is an error: 1/1, as the pass rate of 100 % beside it says."""
    [cost] = context_costs(
        mcp_report(result(llm_calls=llm_calls(100)), erred(llm_calls=llm_calls(100)))
    )
    assert (cost.passed, cost.judged) == (1, 1)


def test_tool_usages__lists_every_tool_largest_first() -> None:
    uses = [(use.server, use.tool, use.calls, use.errors) for use in tool_usages(rich_report())]
    assert uses == [("a", "sum", 0, 0), ("a", "echo", 2, 1), ("b", "get", 0, 0)]


def test_terminal_report__escapes_foreign_markup() -> None:
    text = terminal_report(run_view(rich_report(), verbose=True))
    assert r"[/x] [bold]a[/bold] :smile: <b>&</b> ]]> \x00\x1b[31m =1+1" in text
    assert "\x1b" not in text
    assert "never" in text


def test_task_table__verbose_shows_input_per_call() -> None:
    [_, several, _] = task_table(rich_report(), verbose=True).rows
    assert several[-2:] == ["400 460 560", "80"]
    assert task_table(rich_report()).rows[1] == several[:-2]


def test_html_report__escapes_text_and_has_no_script() -> None:
    page = html_report(run_view(rich_report()))
    assert "<b>&</b>" not in page
    assert "&lt;b&gt;&amp;&lt;/b&gt;" in page
    assert "<script" not in page
    assert "\x00" not in page


def test_junit_report__counts_failures_and_errors() -> None:
    suite = ET.fromstring(junit_report(run_view(rich_report())))
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "3", "failures": "1", "errors": "1", "skipped": "0",
    }  # fmt: skip
    assert [[child.tag for child in case] for case in suite] == [[], ["failure"], ["error"]]


def test_csv__has_columns_of_specification() -> None:
    rows = list(csv.DictReader(io.StringIO(tasks_csv(rich_report()))))
    assert list(rows[0]) == [
        "scenario", "task", "model", "server", "result", "total_input", "total_output",
        "llm_calls", "tool_calls", "duration_s", "cost_usd", "base_context", "context_growth_avg",
    ]  # fmt: skip
    assert [row["result"] for row in rows] == ["PASS", "FAIL", "ERROR"]
    assert [row["context_growth_avg"] for row in rows] == ["0.0", "80.0", ""]
    calls = list(csv.DictReader(io.StringIO(calls_csv(rich_report()))))
    assert [call["cumulative_input"] for call in calls] == ["100", "400", "860", "1420"]


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@a", "\t=1", "  =1", "\r=1"])
def test_escape_cell__formula_gets_apostrophe(cell: str) -> None:
    assert escape_cell(cell) == f"'{cell}"


@given(st.text(alphabet="'=-+@ a\t") | st.text())
def test_escape_cell__every_text_comes_back(cell: str) -> None:
    assert unescape_cell(str(escape_cell(cell))) == cell


def test_escape_cell__numbers_and_plain_text_are_unchanged() -> None:
    assert [escape_cell(cell) for cell in (-1, 2.5, "a=b", "-", "", None)] == [
        -1, 2.5, "a=b", "-", "", None,
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["result.yaml", "result.json"])
def test_mcp_result_file__is_read_back_unchanged(tmp_path: Path, name: str) -> None:
    path = tmp_path / "below" / name
    write_report(rich_report(), path)
    recorded = read_report(path)
    assert recorded.results == rich_report().results
    assert recorded.servers == rich_report().servers
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", "a: &x [1]\nb: *x", "results: [{}]", '{"results": NaN}', "\xff",
     '{"timestamp": "t", "planned": 1, "results": [{"file": "f", "scenario": "s", "tasks": [{}]}]}'],
)  # fmt: skip
def test_mcp_result_file__invalid_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(InvalidResultFile):
        read_report(path)


def test_journal__is_read_up_to_cut_off_line(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    first, second, third = rich_report().results
    begun = mcp_report(first, planned=3, interrupted=True)
    journal = Journal(path, begun)
    add_server(journal, server("a", echo=50))
    add_result(journal, second)
    add_result(journal, third)
    journal.close()
    file = journal_of(path)
    # As a killed process leaves it: the last line is written in part.
    file.write_bytes(file.read_bytes()[:-20])
    assert read_report(path).results == (first, second)
    assert read_report(path).interrupted
    assert read_report(path).servers == (server("a", echo=50),)
    journal.discard()
    with pytest.raises(UnreadableInput):
        read_report(path)


def test_result_file__errors_are_in_our_own_words() -> None:
    document = report_document(mcp_report(result()))
    [task] = document["results"][0]["tasks"]
    task |= {"trial": "x", "outcome": "great", "tags": 5}
    with pytest.raises(InvalidResultFile) as raised:
        load_report(json.loads(json.dumps(document)), name="r.json")
    flaws = {item.pointer: item.detail for item in raised.value.errors}
    assert flaws["/results/0/trial"] == "must be a whole number"
    assert flaws["/results/0/tags"] == "must be a list"
    assert flaws["/results/0/outcome"].startswith("must be 'scored', 'agent_error'")


def attempt_with(outcome: AttemptOutcome, evaluation: Evaluation, number: int) -> TaskResult:
    if outcome is AttemptOutcome.SCORED:
        return result(f"t:{number}", evaluations=(evaluation,))
    error = AttemptError(kind=ENDED[outcome], detail="d")
    return result(f"t:{number}", outcome=outcome, error=error, evaluations=())


def test_summary__errors_are_beside_the_pass_rate() -> None:
    """One of three passes: the agent ended two others; the provider and the judge are no verdict."""
    outcomes = [AttemptOutcome.SCORED, *ENDED]
    report = mcp_report(*(attempt_with(o, PASSED, n) for n, o in enumerate(outcomes)))
    summary = summarize(report)
    assert (summary.passed, summary.failed, summary.errors, summary.missing) == (1, 2, 2, 1)
    assert summary.pass_rate == pytest.approx(1 / 3)
    [rate] = [figure.text for figure in run_view(report).figures if figure.name == "Pass rate"]
    assert rate == "33.3 % (1 passed, 2 failed; 2 of 6 attempts errored and are not scored)"


@given(
    st.lists(
        st.tuples(st.sampled_from([*AttemptOutcome]), st.sampled_from([PASSED, FAILED, SCORE]))
    )
)
def test_summary__pass_rate_is_the_mean_of_the_metric_of_the_service(
    attempts: list[tuple[AttemptOutcome, Evaluation]],
) -> None:
    results = [attempt_with(*attempt, n) for n, attempt in enumerate(attempts)]
    scores = [task_scores(attempt) for attempt in results]
    passed = [score["TASK_PASSED"] for score in scores if "TASK_PASSED" in score]
    rate = summarize(mcp_report(*results)).pass_rate
    assert rate == (pytest.approx(sum(passed) / len(passed)) if passed else None)
