"""docs/ci.md and docs/pytest.md: the command prints the table, the settings exist, and the example tests pass."""

import csv
import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from mosaico.cli import cli
from mosaico.sdk.pytest_plugin import UPDATE
from tests.integration.docs.test_examples import ROOT, blocks
from tests.support.inner_pytest import run_inner_pytest

PAGE = "docs/ci.md"


def test_ci_page__command_prints_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, wrong in (("last-week", 2), ("today", 14)):
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            rows = ([f"q{n}", "yes", "no" if n < wrong else "yes"] for n in range(40))
            csv.writer(file).writerows([["id", "expected", "output"], *rows])
    monkeypatch.chdir(tmp_path)
    [block] = blocks(PAGE, "console")
    command, _, expected = block.removeprefix("$ mosaico ").partition("\n")
    done = CliRunner().invoke(cli, command.split())
    assert done.exit_code == 1
    pattern = ".*".join(re.escape(part.strip()) for part in expected.strip().split("…"))
    assert re.match(pattern, done.stdout, re.DOTALL), done.stdout


def test_ci_page__settings_are_those_of_the_files() -> None:
    github, gitlab = (yaml.safe_load(block) for block in blocks(PAGE, "yaml"))
    step = github["jobs"]["gate"]["steps"][-1]
    action = yaml.safe_load((ROOT / step["uses"] / "action.yml").read_text(encoding="utf-8"))
    assert {*step["with"]} <= {*action["inputs"]}
    job_file = (ROOT / gitlab["include"]).read_text(encoding="utf-8")
    assert [name for name in gitlab["mosaico-gate"]["variables"] if name not in job_file] == []


def test_ci_page__example_tests_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [block] = blocks("docs/pytest.md", "python")
    (tmp_path / "test_bot.py").write_text(block)
    monkeypatch.chdir(tmp_path)
    assert run_inner_pytest(UPDATE) == 0
    assert run_inner_pytest() == 0
    assert (tmp_path / "mosaico_baselines" / "test_bot.test_support_bot.jsonl").exists()
