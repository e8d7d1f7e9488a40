"""docs/agents.md: the commands print the documented output, and the configurations are valid."""

import json
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from mosaico.cli import cli
from mosaico.harness.harness_config import AgentHarnessSettings, parse_harness
from mosaico.traces.execution.answers import REPORTED_KEYS, checked_fields
from mosaico.traces.producers.agent import AllowedCommand
from tests.integration.docs.test_examples import ROOT, blocks, examples, matches

PAGE = "docs/agents.md"


@pytest.fixture
def files_of_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of the page; `python` is the interpreter of the tests."""
    (tmp_path / "questions.csv").write_text(blocks(PAGE, "csv")[0])
    (tmp_path / "agent.py").write_text(blocks(PAGE, "python")[0])
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("files_of_page")
def test_commands__answer_as_shown() -> None:
    # The second block needs the service: `test_jobs`.
    commands = examples(blocks(PAGE, "console")[0])
    assert len(commands) == 2
    for command, output in commands:
        words = shlex.split(command)[1:]
        globbed = [path for word in words for path in sorted(map(str, Path().glob(word))) or [word]]
        result = CliRunner().invoke(cli, globbed)
        assert result.exit_code == 0, result.output
        assert matches(result.stdout, output), f"{command}\n{result.output}"


@pytest.mark.usefixtures("files_of_page")
def test_python__prints_path_and_accuracy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Annotations name what the block imports, so it runs as a module of its own.
    module = ModuleType("experiment")
    exec(compile(blocks(PAGE, "python")[1], PAGE, "exec"), module.__dict__)
    path, accuracy = capsys.readouterr().out.split()
    assert Path(path).is_file()
    assert float(accuracy) == pytest.approx(2 / 3)


def test_configurations__are_valid() -> None:
    answer, commands, benchmark = map(json.loads, blocks(PAGE, "json"))
    assert checked_fields(answer) == answer
    assert AllowedCommand.model_validate(commands["support-bot"]).folder == Path("/opt/support-bot")
    assert isinstance(parse_harness(benchmark["harness"]), AgentHarnessSettings)


def test_page__names_every_key_of_an_answer() -> None:
    text = (ROOT / PAGE).read_text()
    assert [key for key in sorted(REPORTED_KEYS) if f"`{key}`" not in text] == []
