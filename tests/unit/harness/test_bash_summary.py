"""Summary figures of a run and its health profile."""

import json
from dataclasses import asdict, replace

import pytest

from mosaico.harness.bash.report_view import run_view
from mosaico.harness.bash.result_file import json_report, parse_report, read_report
from mosaico.harness.bash.run_health import profile
from mosaico.harness.bash.summary import count_adapted, count_repeated, summarize
from mosaico.harness.bash.types import EvalReport, EvalResult
from mosaico.harness.judge import JudgeScore
from mosaico.harness.result_file import InvalidResultFile
from mosaico.harness.results import AttemptOutcome
from tests.support.bash_eval import (
    GPT,
    HAIKU,
    RECORDINGS,
    call,
    recorded,
    recorded_report,
    report,
    result,
    task,
    trace,
)
from tests.support.texts import assert_names

TWO = task("exit_code:0", "stdout_contains:x", task_id="two")
ONE = task("exit_code:0", task_id="one", category="scripting")


def test_summarize__computes_all_figures() -> None:
    # Task two: one of two checks, two calls of which one failed, 3 turns. Task one: passed.
    summary = summarize(
        report(
            result(TWO, True, False, calls=[call(code=1), call()]),
            result(ONE, True, calls=[call()], trace=trace(call(), natural_stop=False)),
        )
    )
    assert (summary.total_tasks, summary.total_passed, summary.pass_rate) == (2, 1, 0.5)
    assert (summary.total_score, summary.total_max_score) == (2.0, 3.0)
    assert summary.overall_rate == 2 / 3
    assert (summary.total_tool_calls, summary.tool_calls_ok, summary.tool_calls_error) == (3, 2, 1)
    assert summary.tool_call_success_rate == 2 / 3
    assert (summary.total_turns, summary.avg_turns_per_task) == (5, 2.5)
    assert (summary.natural_stops, summary.natural_stop_rate) == (1, 0.5)
    assert (summary.total_input_tokens, summary.total_output_tokens) == (200, 20)
    assert (summary.total_duration_ms, summary.avg_duration_ms) == (2000, 1000.0)
    assert {name: category.rate for name, category in summary.by_category.items()} == {
        "file_operations": 0.5,
        "scripting": 1.0,
    }


def test_summarize__errored_attempt_is_counted_beside_rates() -> None:
    errored = EvalResult(task=TWO, outcome=AttemptOutcome.INFRA_ERROR, reason="overloaded")
    summary = summarize(report(result(ONE, True), errored))
    assert (summary.total_tasks, summary.tasks_scored, summary.tasks_errored) == (2, 1, 1)
    assert summary.error_reasons == {"overloaded": 1}
    assert (summary.pass_rate, summary.overall_rate) == (1.0, 1.0)
    assert (summary.total_score, summary.total_max_score) == (1.0, 1.0)
    lines = dict(run_view(report(result(ONE, True), errored)).figures)
    assert_names(lines["Pass rate"], "100.0 %", "1 of 1 scored", "1 of 2 attempted have no score")


def test_summarize__usage_of_errored_attempt_counts() -> None:
    half = trace(call())
    errored = EvalResult(task=ONE, outcome=AttemptOutcome.INFRA_ERROR, reason="gone", trace=half)
    summary = summarize(report(errored))
    assert (summary.total_input_tokens, summary.total_duration_ms) == (100, 1000)
    assert (summary.total_tool_calls, summary.total_turns, summary.natural_stops) == (0, 0, 0)


def test_summarize__skipped_attempts_are_not_attempted() -> None:
    skipped = EvalResult(task=TWO, outcome=AttemptOutcome.SKIPPED, reason="interrupted")
    summary = summarize(report(result(ONE, True), skipped))
    assert (summary.total_tasks, summary.tasks_skipped, summary.pass_rate) == (1, 1, 1.0)
    assert summary.skip_reasons == {"interrupted": 1}


def test_summarize__empty_run_has_no_rates() -> None:
    summary = summarize(report())
    assert (summary.pass_rate, summary.overall_rate, summary.natural_stop_rate) == (None,) * 3
    # Unlike the other rates: the original prints 100 % without calls.
    assert summary.tool_call_success_rate == 1.0
    assert summary.avg_turns_per_task == 0.0


def test_summarize__missing_tokens_are_counted_as_unknown() -> None:
    # Some servers report no usage; a sum that takes it for zero would look cheap.
    silent = trace(total_input_tokens=None, total_output_tokens=None)
    summary = summarize(report(result(ONE, True), result(ONE, True, trace=silent, trial=1)))
    assert (summary.total_input_tokens, summary.tasks_without_usage) == (100, 1)
    assert summary.total_cost_usd is None


def test_summarize__judge_usage_is_separate() -> None:
    judged = result(ONE, True)
    assert judged.score is not None
    judge_score = JudgeScore(score=1.0, reason="r", input_tokens=7, output_tokens=3, cost_usd=0.5)
    judged_check = replace(
        judged.score.results[0], judge_score=judge_score
    )  # a task may repeat a question
    summary = summarize(
        report(replace(judged, score=replace(judged.score, results=(judged_check, judged_check))))
    )
    assert (summary.judge_input_tokens, summary.judge_output_tokens) == (7, 3)
    assert (summary.judge_cost_usd, summary.total_cost_usd) == (0.5, None)
    assert summary.total_input_tokens == 100


def test_summarize__counts_adapted_and_repeated_commands() -> None:
    repeated_trace = trace(
        call(code=1, commands="a"), call(code=1, commands="a"), call(code=0, commands="b")
    )
    # After a failure the same command is a repetition, another one an adaptation.
    assert (count_repeated(repeated_trace), count_adapted(repeated_trace)) == (1, 1)


@pytest.mark.parametrize("name", RECORDINGS)
def test_summarize__recorded_runs_equal_recorded_summary(name: str) -> None:
    path = recorded(name)
    summary = asdict(summarize(read_report(path)))
    document = json.loads(path.read_bytes())["summary"]
    assert {key: summary[key] for key in document} == document


@pytest.mark.parametrize("name", RECORDINGS)
def test_result_file__recorded_run_is_read_back_unchanged(name: str) -> None:
    before = recorded_report(name)
    text = json_report(before).encode()
    assert parse_report(text, name="written") == before


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"{", "is not valid JSON"),
        (b"[]", "is not a result"),
        (b'{"provider": "p"}', "is not a result"),
        (b'{"max_turns": NaN}', "NaN is not valid JSON"),
        (b"[" * 200_000, "is not valid JSON"),
        (b"\xff\xfe", "is not valid JSON"),
    ],
)
def test_result_file__invalid_file_is_refused(raw: bytes, message: str) -> None:
    with pytest.raises(InvalidResultFile, match=message):
        parse_report(raw, name="it")


def trait_results(run_report: EvalReport) -> list[bool | None]:
    return [trait.met for trait in profile(run_report, summarize(run_report)).traits]


def test_profile__passing_run_with_few_turns_is_healthy() -> None:
    good = report(result(ONE, True, calls=[call()]))
    assert profile(good, summarize(good)).is_healthy
    assert profile(good, summarize(good)).signals == []


def test_profile__thresholds_are_exclusive() -> None:
    # 9 of 10 points are 90 %, which is not above 90 %; 4 of 5 calls likewise; half of the tasks are
    # not most of them; 5 turns are not under 5.
    results = [
        result(
            replace(ONE, id=str(n)),
            n > 0,
            trace=trace(*[call()] * 4, call(code=1), turns=5, natural_stop=n < 5),
        )
        for n in range(10)
    ]
    assert trait_results(report(*results)) == [False, False, False, False, True]


def test_profile__looping_task_is_not_healthy() -> None:
    # A task that meets its checks and is stopped by --max-turns 4.
    looping = report(result(ONE, True, trace=trace(*[call()] * 4, turns=4, natural_stop=False)))
    loop_profile = profile(looping, summarize(looping))
    assert [trait.name for trait in loop_profile.traits if not trait.met] == [
        "natural stop on most tasks"
    ]
    assert [signal.name for signal in loop_profile.signals] == [
        "natural stop on fewer than 75 % of the tasks"
    ]


def test_friction__shows_in_calls_categories_and_turns() -> None:
    # One of two calls, none of one task in the category, and one turn above 7.
    stuck = report(result(ONE, False, trace=trace(call(code=1), call(), turns=8)))
    names = [signal.name for signal in profile(stuck, summarize(stuck)).signals]
    assert names == ["tool call success < 75 %", "a category below 50 %", "turns per task > 7"]


def test_friction__ignores_provider_errors() -> None:
    gone = EvalResult(task=ONE, outcome=AttemptOutcome.INFRA_ERROR, reason="503: down")
    run = report(gone)
    assert profile(run, summarize(run)).signals == []
    assert trait_results(run) == [None, None, None, None, None, None]


def test_friction__failed_tasks_with_twice_the_tokens() -> None:
    # 220 tokens of the failed one over 110 of the passed one.
    # Long texts take tokens, too: below 5 turns the failed task was not retried.
    dear = trace(call(), total_input_tokens=200, total_output_tokens=20, turns=5)
    run = report(result(ONE, True), result(replace(ONE, id="b"), False, trace=dear))
    signals = profile(run, summarize(run)).signals
    assert [signal.name for signal in signals] == ["many tokens, few passes"]
    assert "2.0 times" in signals[0].measured


def test_friction__many_tokens_in_few_turns_are_no_retries() -> None:
    dear = trace(call(), total_input_tokens=200, total_output_tokens=20, turns=2)
    run = report(result(ONE, True), result(replace(ONE, id="b"), False, trace=dear))
    assert profile(run, summarize(run)).signals == []


def test_profile__recorded_runs_equal_reference() -> None:
    # Haiku: 94.6 % of the points, 31 of 37 natural stops, 4.84 turns, calls 80.7 %, no category
    # below 91 %.
    haiku = recorded_report(HAIKU)
    assert trait_results(haiku) == [True, True, True, True, True]
    assert profile(haiku, summarize(haiku)).is_healthy
    gpt = recorded_report(GPT)
    summary = profile(gpt, summarize(gpt))
    assert [trait.met for trait in summary.traits] == [False, False, True, True, False]
    assert {signal.name for signal in summary.signals} >= {
        "tool call success < 75 %",
        "a category below 50 %",
    }
    assert any("archive_operations 16.7 %" in signal.measured for signal in summary.signals)
