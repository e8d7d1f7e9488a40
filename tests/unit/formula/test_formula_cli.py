"""The commands `mosaico formula eval` and `mosaico formula check`."""

import json

import pytest
from typer.testing import CliRunner, Result

from mosaico.formula.python_api import KpiFormulaParser
from mosaico.metrics.formula_cli import cli


@pytest.fixture(autouse=True)
def no_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process of its own, whatever an earlier test has loaded."""
    monkeypatch.setattr("mosaico.formula.python_api._default_parser", KpiFormulaParser())


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def test_formula_eval__prints_only_the_number() -> None:
    values = '{"ROUGE": 0.5, "bleu.P95": 0.1, "SCORE[\\"x\\"]": 1}'
    # 0.5 + 0.1 * 5 + 1
    result = run("eval", 'ROUGE + BLEU.p95 * 5 + SCORE["x"]', "--values", values)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "2.0\n", "")


def test_formula_eval__undefined_formula_exits_with_3_and_the_reason() -> None:
    result = run("eval", "ROUGE / BLEU", "--values", '{"ROUGE": 1, "BLEU": 0}')
    assert (result.exit_code, result.stdout) == (3, "")
    assert "undefined: division by zero (column 9)" in result.stderr


def test_formula_eval__invalid_formula_exits_with_65_and_marks_every_error() -> None:
    result = run("eval", "AVERGE(ROUGE, $)", "--values", "{}")
    assert (result.exit_code, result.stdout) == (65, "")
    lines = result.stderr.splitlines()
    assert lines[0] == "error: 1:1: unknown function AVERGE"
    assert lines[1:3] == ["  AVERGE(ROUGE, $)", "  ^^^^^^"]
    assert "Did you mean AVERAGE?" in lines[3]
    assert "error: 1:15: unknown character $" in lines


def test_formula_eval__error_in_a_long_line_is_shown_in_an_excerpt() -> None:
    result = run("check", "ROUGE + " * 20 + "$" + " + ROUGE" * 20)
    pointed = result.stderr.splitlines()
    # The mark is below its character only in a line that the terminal does not break.
    assert max(map(len, pointed)) <= 80
    assert pointed[1][pointed[2].index("^")] == "$"


def test_formula_eval__control_characters_are_not_printed() -> None:
    assert "\x1b" not in run("check", "A + \x1b[31m").stderr


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ("{", "not valid JSON"),
        ("[1]", "not a JSON object"),
        ('{"A": NaN}', "NaN in --values is not a number"),
        ('{"A": -Infinity}', "-Infinity in --values is not a number"),
        ('{"A": true}', "'A' in --values is not a number"),
        ('{"A": "1"}', "'A' in --values is not a number"),
        ('{"A": [1]}', "'A' in --values is not a number"),
        ('{"A": {"B": 1}}', "'A' in --values is not a number"),
        ('{"A": 1e999}', "'A' in --values is too large"),
        # A whole number of Python has any size; to make a float of this one raises OverflowError.
        ('{"A": 1' + "0" * 400 + "}", "'A' in --values is too large"),
        ('{"A": 1, "a.mean": 2}', "--values gives A twice"),
        ('{"A-B": 1}', "'A-B' in --values is not a metric"),
        ("[" * 100_000, "not valid JSON"),
    ],
)
def test_formula_eval__non_numeric_values_exit_with_65(values: str, complaint: str) -> None:
    result = run("eval", "A", "--values", values)
    assert (result.exit_code, result.stdout) == (65, "")
    assert complaint in result.stderr


def test_formula_eval__invalid_values_and_formula_are_reported_together() -> None:
    result = run("eval", "A +", "--values", "{")
    assert result.exit_code == 65
    assert "1:4:" in result.stderr
    assert "not valid JSON" in result.stderr


def test_formula_check__prints_canonical_text_and_references() -> None:
    result = run("check", "average(rouge,bleu.P95)")
    assert result.exit_code == 0
    assert result.stdout == "formula\tAVERAGE(ROUGE, BLEU.p95)\nreads\tROUGE, BLEU.p95\n"


def test_formula_check__prints_one_json_document() -> None:
    result = run("check", "average(rouge, 1)", "--format", "json")
    assert json.loads(result.stdout) == {
        "valid": True,
        "formula": "AVERAGE(ROUGE, 1)",
        "references": [{"key": "ROUGE", "stat": "mean"}],
    }


def test_formula_check__invalid_formula_prints_a_problem_document_on_stderr() -> None:
    result = run("check", "AVERGE(ROUGE) + $", "--format", "json")
    assert (result.exit_code, result.stdout) == (65, "")
    problem = json.loads(result.stderr)
    assert problem["type"] == "/problems/invalid-formula"
    assert [(error["line"], error["column"], error["span"]) for error in problem["errors"]] == [
        (1, 1, [0, 6]),
        (1, 17, [16, 17]),
    ]
