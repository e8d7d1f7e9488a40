"""docs/bashkit-eval*.md: commands, example files and the names that it must contain."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mosaico.harness.bash.check_registry import CHECKS, Check, CheckEvidence, load_checks
from mosaico.harness.bash.cli import cli
from mosaico.harness.harness_config import BashHarnessSettings
from mosaico.llm.conversation import Provider
from tests.integration.docs.test_examples import ROOT, blocks, examples, matches, text_of
from tests.support.bash_eval import call, evidence

PAGES = "docs/bashkit-eval*.md"


def test_page__commands_print_shown_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for block in blocks(PAGES, "console"):
        for command, output in examples(block):
            program, *words = shlex.split(command)
            assert program == "bashkit-eval"
            done = CliRunner().invoke(cli, words)
            assert done.exit_code == 0, done.output
            assert matches(done.stdout, output), done.stdout


def test_page__script_passes_task(tmp_path: Path) -> None:
    script, benchmark = blocks("docs/bashkit-eval.md", "json")
    [task] = blocks("docs/bashkit-eval-files.md", "json")
    (tmp_path / "tasks.jsonl").write_text(json.dumps(json.loads(task)))
    (tmp_path / "script.jsonl").write_text(script)
    words = ["run", "tasks.jsonl", "--provider", "scripted", "--model", "script.jsonl"]
    done = CliRunner().invoke(cli, [str(tmp_path / w) if "." in w else w for w in words])
    assert done.exit_code == 0, done.output
    BashHarnessSettings.model_validate(json.loads(benchmark)["harness"])


def test_page__names_every_harness_field() -> None:
    text = text_of(PAGES)
    names = [field.alias or name for name, field in BashHarnessSettings.model_fields.items()]
    assert [name for name in names if f"`{name}`" not in text] == []


def test_page__example_check_works() -> None:
    names: dict[str, Any] = {}
    [block] = blocks(PAGES, "python")
    exec(compile(block, PAGES, "exec"), names)
    added: dict[str, Check] = {}
    names["register"](added.__setitem__)
    call_evidence: CheckEvidence = evidence(call("yes, please"))
    assert added["polite"].evaluate("", call_evidence).passed


def test_page__names_every_check_provider_and_command() -> None:
    load_checks()
    text = text_of(PAGES)
    for name in (*CHECKS.names(), *Provider):
        assert f"`{name}" in text
    commands = [command.name for command in cli.registered_commands]
    assert [name for name in commands if f"{name}" not in text] == []
