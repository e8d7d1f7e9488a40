"""Findings of the dataset linter."""

import json

import pytest

from mosaico.harness.bash.check_registry import load_checks
from mosaico.harness.bash.dataset import lint, parse_dataset, read_dataset
from mosaico.harness.lint import LintSeverity
from tests.support.bash_eval import dataset_file


@pytest.fixture(autouse=True, scope="module")
def _loaded_checks() -> None:
    load_checks()


def lint_checks(*checks: str) -> list[tuple[LintSeverity, str]]:
    task = {
        "id": "t",
        "category": "c",
        "prompt": "p",
        "expectations": [{"check": check} for check in checks],
    }
    findings = lint(parse_dataset([json.dumps(task).encode()]))
    return [(finding.severity, finding.text) for finding in findings]


def test_lint__valid_checks_have_no_findings() -> None:
    good = (
        "exit_code:0",
        "stdout_contains:total: 42 apples",
        "stdout_regex:^total: [0-9]+ apples$",
        "stderr_empty",
        "file_contains:/a:b",
        "file_line_regex:/a:^b$",
        "dir_exists:/a",
        "tool_calls_min:2",
        "llm_judge:well done?",
    )
    assert lint_checks(*good) == []


def test_lint__unknown_check_is_error_with_suggestion() -> None:
    [(severity, text)] = lint_checks("stdout_contain:x")
    assert severity is LintSeverity.ERROR
    assert "no check is named 'stdout_contain'. Did you mean stdout_contains" in text


@pytest.mark.parametrize("check", ["stdout_regex:(", "file_line_regex:/a:(?=x)"])
def test_lint__invalid_pattern_is_error(check: str) -> None:
    [(severity, text)] = lint_checks(check)
    assert severity is LintSeverity.ERROR
    assert "invalid pattern" in text


@pytest.mark.parametrize("check", ["file_contains:/a", "file_contains:/a:", "file_line_regex:/a"])
def test_lint__file_check_without_text_is_error(check: str) -> None:
    [(severity, text)] = lint_checks(check)
    assert severity is LintSeverity.ERROR
    assert "is missing; write /path:" in text


def lint_files(files: dict[str, str]) -> list[str]:
    task = {
        "id": "t",
        "category": "c",
        "prompt": "p",
        "files": files,
        "expectations": [{"check": "exit_code:0"}],
    }
    findings = lint(parse_dataset([json.dumps(task).encode()]))
    assert {finding.severity for finding in findings} <= {LintSeverity.ERROR}
    return [finding.text for finding in findings]


def test_lint__file_that_sandbox_cannot_hold_is_error_with_limit() -> None:
    assert lint_files({"/held.txt": "é" * 100, "/home/eval/deep/er/file": ""}) == []
    # One byte above the limit of bashkit, which drops such a file without an error.
    [text] = lint_files({"/small.txt": "x", "/large.txt": "x" * 10_000_001})
    assert "'/large.txt' of 10,000,001 bytes" in text
    assert "10,000,000 bytes per file" in text
    # Names have at most 255 bytes.
    [long_name] = lint_files({"/" + "y" * 256: "x"})
    assert "cannot store the file" in long_name


@pytest.mark.parametrize(
    ("check", "part"),
    [
        ("stdout_contains:3", "one or two digits"),
        ("stdout_contains:42", "one or two digits"),
        ("stdout_contains:12:3", "a time or date"),
        ("stdout_contains:", "is empty"),
        # Listings of `ls -l` and the output of `date` contain
        # digits, times and dates by themselves.
        (r"stdout_regex:\d{4}-\d{2}-\d{2}", "a time or date"),
        (r"stdout_regex:[0-9]+", "a time or date"),
        ("stdout_regex:3.*visitor", "one or two digits"),
        ("stdout_regex:(?i)(verbose|processing).*3", "one or two digits"),
        ("exit_code:zero", "is read as 0"),
        ("tool_calls_max:few", "always passes"),
        ("file_exists:a/b", "does not begin with /"),
    ],
)
def test_lint__check_that_may_pass_by_chance_is_warning(check: str, part: str) -> None:
    [(severity, text)] = lint_checks(check, "stderr_empty")
    assert severity is LintSeverity.WARNING
    assert part in text


@pytest.mark.parametrize("name", ["eval-tasks-37.jsonl", "eval-tasks-58.jsonl"])
def test_lint__original_datasets_have_warnings_only(name: str) -> None:
    findings = lint(read_dataset(dataset_file(name)))
    assert {finding.severity for finding in findings} == {LintSeverity.WARNING}
    weak = {finding.text.partition(":")[0] for finding in findings}
    assert {"file_ops_find_and_delete", "script_function_lib", "sysinfo_date_calc"} <= weak
