"""What the page of bashkit-eval shows is what happens."""

import shlex
from typing import Any

import pytest
from typer.testing import CliRunner

from app.harness.bash.checking import CHECKS, Check, Evidence, load_checks
from app.harness.bash.cli import cli
from app.harness.llm.conversation import Provider
from tests.integration.docs.test_examples import ROOT, blocks, examples, matches
from tests.support.bash_eval import call, evidence

PAGE = "docs/bashkit-eval.md"


def test_the_commands_of_the_page_answer_as_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for block in blocks(PAGE, "console"):
        for command, output in examples(block):
            program, *words = shlex.split(command)
            assert program == "bashkit-eval"
            done = CliRunner().invoke(cli, words)
            assert done.exit_code == 0, done.output
            assert matches(done.stdout, output), done.stdout


def test_the_check_of_the_page_works() -> None:
    names: dict[str, Any] = {}
    [block] = blocks(PAGE, "python")
    exec(compile(block, PAGE, "exec"), names)
    added: dict[str, Check] = {}
    names["register"](added.__setitem__)
    said: Evidence = evidence(call("yes, please"))
    assert added["polite"].find("", said).passed


def test_the_page_names_every_check_provider_and_command() -> None:
    load_checks()
    text = (ROOT / PAGE).read_text()
    for name in (*CHECKS.names(), *Provider):
        assert f"`{name}" in text
    commands = [each.name for each in cli.registered_commands]
    assert [name for name in commands if f"{name}" not in text] == []
