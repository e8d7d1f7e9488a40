"""Each check of the bash harness: the files and output that it reads, and its result text."""

import pytest

from mosaico.harness.bash.check_registry import load_checks, run_check, score_task
from mosaico.harness.bash.types import Expectation
from mosaico.harness.judge import JudgeScore
from tests.support.bash_eval import call, evidence, task

FILES = {
    "/data": None,
    "/data/a.csv": b"name,age\r\nAda,36\r\n",
    "/data/latin": b"caf\xe9\n",
    "/empty": b"",
}


@pytest.fixture(autouse=True, scope="module")
def _loaded_checks() -> None:
    load_checks()


def check_outcome(
    check: str, *calls: object, weight: float = 1.0, **more: object
) -> tuple[bool, str]:
    check_result = run_check(check, weight, evidence(*calls, files=FILES, **more))  # type: ignore[arg-type]
    assert check_result.check == check
    return check_result.passed, check_result.detail


def test_exit_code__reads_last_call() -> None:
    assert check_outcome("exit_code:0", call(code=1), call(code=0)) == (True, "expected 0, got 0")
    assert check_outcome("exit_code:0", call(code=0), call(code=2)) == (False, "expected 0, got 2")
    assert check_outcome("exit_code:127", call(code=127)) == (True, "expected 127, got 127")


def test_exit_code__without_calls_is_minus_one() -> None:
    assert check_outcome("exit_code:0") == (False, "expected 0, got -1")
    assert check_outcome("exit_code:-1") == (True, "expected -1, got -1")


# Like the original in Rust. `int` of Python reads the space and the
# Arabic digit, and raises for more than 4300 digits.
@pytest.mark.parametrize("value", ["zero", "", " 0", "1.0", "٣", "9" * 5000])
def test_exit_code__invalid_number_is_zero(value: str) -> None:
    assert check_outcome(f"exit_code:{value}", call(code=0)) == (True, "expected 0, got 0")


def test_stdout_contains__searches_each_call_separately() -> None:
    assert check_outcome("stdout_contains:b", call("a"), call("abc")) == (True, "found")
    assert check_outcome("stdout_contains:ab", call("a"), call("b")) == (
        False,
        "'ab' not found in any tool output",
    )


def test_stdout_contains__is_case_sensitive_and_ignores_stderr() -> None:
    assert not check_outcome("stdout_contains:Done", call("done"))[0]
    assert not check_outcome("stdout_contains:done", call("", stderr="done"))[0]


def test_stdout_contains__does_not_strip_text() -> None:
    assert check_outcome("stdout_contains: x", call(" x"))[0]
    assert not check_outcome("stdout_contains: x", call("x"))[0]
    assert check_outcome("stdout_contains:a:b:c", call("a:b:c"))[0]
    assert not check_outcome("stdout_contains:x")[0]


def test_stdout_regex__matches_anywhere() -> None:
    assert check_outcome(r"stdout_regex:\d{4}", call("in 2026, maybe")) == (True, "matched")
    assert check_outcome("stdout_regex:^b", call("ab")) == (False, "pattern '^b' not matched")
    assert check_outcome("stdout_regex:(?i)ERROR", call("an error"))[0]


def test_stdout_regex__dollar_matches_only_at_very_end() -> None:
    # As in RE2 and Rust; `$` of Python also matches before a final line feed.
    assert not check_outcome("stdout_regex:b$", call("ab\n"))[0]
    assert check_outcome("stdout_regex:b$", call("ab"))[0]


# RE2 has no look-around, no back-references and at most 1000 repetitions; the last pattern is one
# character longer than the limit of 10,000.
@pytest.mark.parametrize("pattern", ["(", r"(?=a)", r"(a)\1", "(?<!x)y", "a{1001}", "x" * 10_001])
def test_stdout_regex__unsupported_pattern_fails_with_reason(pattern: str) -> None:
    passed, detail = check_outcome(f"stdout_regex:{pattern}", call("aa"))
    assert not passed
    assert detail.startswith("invalid regex: ")


@pytest.mark.parametrize(
    "pattern",
    [
        r"\<a",
        r"a\>",
        r"\b{start}a",
        "[a&&b]",
        "[]a--b]",
        "[^a~~b]",
        r"[\]&&a]",
        "[x[a-c]]",
        "[[a-z]&&[b]]",
        "[^[a-z]]",
    ],
)
def test_stdout_regex__form_of_rust_with_another_meaning_fails(pattern: str) -> None:
    passed, detail = check_outcome(f"stdout_regex:{pattern}", call("<a&-~ a"))
    assert not passed
    assert detail.startswith("invalid regex: ")


@pytest.mark.parametrize(
    "pattern",
    [r"\\<a", "a&&b", r"\[a&&b\]", r"[a\&&]", "[[:alpha:]]-{2}", "--", r"[\[&]a", "[[{]a"],
)
def test_stdout_regex__same_characters_elsewhere_are_searched(pattern: str) -> None:
    assert check_outcome(f"stdout_regex:{pattern}", call(r"\<a a&&b [a&&b] a--"))[0]


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(.*a){20}$", "(x+x+)+y"])
def test_stdout_regex__catastrophic_pattern_is_decided(pattern: str) -> None:
    """With backtracking this test would practically not end."""
    _, detail = check_outcome(f"stdout_regex:{pattern}", call("a" * 200_000 + "!"))
    assert "invalid regex" not in detail


def test_stderr_empty__fails_when_a_call_wrote_to_it() -> None:
    assert check_outcome("stderr_empty") == (True, "all stderr empty")
    assert check_outcome("stderr_empty", call("out"), call("out"))[0]
    assert check_outcome("stderr_empty", call(), call(stderr="x" * 101)) == (
        False,
        "stderr: " + "x" * 100,
    )


def test_file_exists__accepts_directory_but_dir_exists_refuses_file() -> None:
    assert check_outcome("file_exists:/data") == (True, "exists")
    assert check_outcome("file_exists:/data/a.csv") == (True, "exists")
    assert check_outcome("file_exists:/nope") == (False, "not found")
    assert check_outcome("dir_exists:/data") == (True, "directory exists")
    assert check_outcome("dir_exists:/data/a.csv") == (False, "directory not found")


def test_file_contains__compares_content() -> None:
    assert check_outcome("file_contains:/data/a.csv:Ada,36") == (True, "found in file")
    assert check_outcome("file_contains:/data/a.csv:Bob") == (
        False,
        "'Bob' not found in /data/a.csv",
    )
    # Bytes that are not UTF-8 are read as U+FFFD.
    assert check_outcome("file_contains:/data/latin:caf�")[0]
    assert check_outcome("file_contains:/nope:x") == (False, "cannot read /nope: not found")
    assert check_outcome("file_contains:/data:x") == (False, "cannot read /data: is a directory")


def test_file_line_regex__ignores_carriage_return() -> None:
    assert check_outcome("file_line_regex:/data/a.csv:^Ada,(?:36|37)$") == (
        True,
        "matched file line",
    )
    assert check_outcome("file_line_regex:/data/a.csv:^36") == (
        False,
        "pattern '^36' not matched by any line in /data/a.csv",
    )
    assert check_outcome("file_line_regex:/nope:x") == (False, "cannot read /nope: not found")
    assert check_outcome("file_line_regex:/data/a.csv:(")[1].startswith("invalid regex: ")


def test_file_line_regex__empty_file_has_no_line() -> None:
    # `"".split("\n")` has one empty line, `lines` of Rust none.
    assert not check_outcome("file_line_regex:/empty:^$")[0]


def test_tool_calls__compares_count() -> None:
    tool_call = call()
    assert check_outcome("tool_calls_min:2", tool_call, tool_call) == (True, "expected >= 2, got 2")
    assert check_outcome("tool_calls_min:3", tool_call, tool_call) == (
        False,
        "expected >= 3, got 2",
    )
    assert check_outcome("tool_calls_max:1", tool_call, tool_call) == (
        False,
        "expected <= 1, got 2",
    )
    assert check_outcome("tool_calls_max:2", tool_call, tool_call) == (True, "expected <= 2, got 2")


def test_tool_calls__invalid_number_is_no_limit() -> None:
    assert check_outcome("tool_calls_min:many") == (True, "expected >= 0, got 0")
    # The largest `usize` of the original, whose texts are compared with ours.
    assert check_outcome("tool_calls_max:few", call()) == (True, f"expected <= {2**64 - 1}, got 1")
    assert check_outcome(f"tool_calls_min:{'9' * 5000}") == (True, "expected >= 0, got 0")


def test_llm_judge__without_judge_passes_with_weight_zero() -> None:
    check_result = run_check("llm_judge:is it kind?", 3.0, evidence())
    assert (check_result.passed, check_result.weight) == (True, 0.0)
    assert check_result.detail == "llm_judge not implemented (stub, weight=0)"


def test_llm_judge__passes_from_one_half_and_keeps_weight() -> None:
    judge_score = JudgeScore(score=0.5, reason="kind enough")
    check_result = run_check(
        "llm_judge:is it kind?", 3.0, evidence(judge_scores={"is it kind?": judge_score})
    )
    assert (check_result.passed, check_result.weight, check_result.judge_score) == (
        True,
        3.0,
        judge_score,
    )
    assert check_result.detail == "judged 0.50: kind enough"
    stern = JudgeScore(score=0.49, reason="rude")
    assert not run_check("llm_judge:q", 1.0, evidence(judge_scores={"q": stern})).passed


def test_run_check__unknown_check_fails_and_keeps_weight() -> None:
    check_result = run_check("file_size:/a:3", 2.0, evidence())
    assert (check_result.passed, check_result.detail) == (False, "unknown check type: file_size")
    assert check_result.weight == 2.0


def test_score_task__sums_weights_of_passed_checks() -> None:
    checked_task = task(
        Expectation(check="exit_code:0", weight=0.5),
        Expectation(check="stdout_contains:yes", weight=2.0),
        Expectation(check="llm_judge:well?", weight=7.0),
    )
    score = score_task(checked_task, evidence(call("no")))
    # The judge without a model has no weight: 7 is in neither sum.
    assert (score.score, score.max_score) == (0.5, 2.5)
    assert score.rate() == 0.2
    assert not score.all_passed()


def test_task_score__rate_without_weights_is_one() -> None:
    score = score_task(task("llm_judge:well?"), evidence())
    assert (score.max_score, score.rate(), score.all_passed()) == (0.0, 1.0, True)


def test_task_score__all_passed_ignores_weights() -> None:
    light = task(Expectation(check="exit_code:0", weight=0.0))
    assert not score_task(light, evidence(call(code=1))).all_passed()
