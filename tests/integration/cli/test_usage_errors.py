"""Usage errors of the three programs have the form of all errors."""

import json
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from mosaico.cli import cli as mosaico
from mosaico.harness.bash.cli import cli as bashkit_eval
from mosaico.harness.mcp.cli.ot_bench import cli as ot_bench

WRONG: list[tuple[typer.Typer, list[str], str, str]] = [
    (mosaico, ["agents", "lst"], "no such command 'lst'", "agents -h"),
    (mosaico, ["agents", "show"], "missing argument 'AGENT'", "agents show -h"),
    (mosaico, ["agents", "list", "--nope"], "no such option: --nope", "agents list -h"),
    (mosaico, ["agents", "list", "--limit"], "'--limit' requires an argument", "agents list -h"),
    (mosaico, ["agents", "list", "--format", "xml"], "'xml' is not one of", "agents list -h"),
    (mosaico, ["--nope"], "no such option: --nope", "-h"),
    (mosaico, ["nope"], "no such command 'nope'", "-h"),
    (bashkit_eval, ["run", "--nope"], "no such option: --nope", "run -h"),
    (bashkit_eval, ["rn"], "no such command 'rn'", "-h"),
    (ot_bench, ["run", "--nope"], "no such option: --nope", "run -h"),
    (ot_bench, ["rn"], "no such command 'rn'", "-h"),
]


@pytest.mark.parametrize(
    ("cli", "words", "problem", "remedy"), WRONG, ids=[" ".join(wrong[1]) for wrong in WRONG]
)
def test_usage_error__has_the_form_of_all_errors(
    cli: typer.Typer, words: list[str], problem: str, remedy: str
) -> None:
    done = CliRunner().invoke(cli, words)
    assert (done.exit_code, done.stdout) == (2, "")
    error, hint = done.stderr.splitlines()
    assert error.startswith("error: ")
    assert problem in error
    assert hint.startswith("hint: see `")
    assert hint.endswith(f"{remedy}`")


@pytest.mark.parametrize(
    "words",
    [
        ["agents", "show", "a", "--json", "--nope"],
        ["agents", "show", "a", "--nope", "--format", "json"],
        ["agents", "show", "a", "--nope", "--format=json"],
        ["agents", "lst", "--json"],
    ],
)
def test_usage_error__is_a_problem_document_for_readers_of_json(words: list[str]) -> None:
    document: dict[str, Any] = json.loads(CliRunner().invoke(mosaico, words).stderr)
    assert document["type"] == "/problems/wrong-usage"
    assert document["hint"]
    by_variable = CliRunner().invoke(mosaico, ["agents", "lst"], env={"MOSAICO_FORMAT": "json"})
    assert json.loads(by_variable.stderr)["type"] == "/problems/wrong-usage"


def test_group_without_a_command__prints_its_help() -> None:
    done = CliRunner().invoke(mosaico, ["agents"])
    assert "Commands" in done.output
    assert "error:" not in done.output
