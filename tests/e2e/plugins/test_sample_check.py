"""A check of another distribution in datasets and in the commands of bashkit-eval."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mosaico.core.registry import LoadedPlugin
from mosaico.harness.bash.check_registry import CHECKS
from mosaico.harness.bash.cli import cli

pytestmark = pytest.mark.xdist_group("sample plugins")


def bashkit_eval(command: str, folder: Path, check: str) -> str:
    """The output of the command for one task that runs `echo 1234`."""
    task = {"id": "t", "category": "c", "prompt": "p", "expectations": [{"check": check}]}
    (folder / "tasks.jsonl").write_text(json.dumps(task))
    (folder / "play.jsonl").write_text(json.dumps({"id": "t", "turns": [["echo 1234"]]}))
    words = [command, str(folder / "tasks.jsonl")]
    if command == "run":
        words += ["--provider", "scripted", "--model", str(folder / "play.jsonl")]
    return CliRunner().invoke(cli, words).output


def test_plugin_check__invalid_check_is_reported_and_others_load(
    failed_plugins: list[LoadedPlugin],
) -> None:
    [failure] = [plugin for plugin in failed_plugins if plugin.kind == "check"]
    assert failure.name == "unfit"
    assert "must be a Check" in (failure.error or "")
    assert {"sample_quiet", "exit_code"} <= set(CHECKS.names())
    assert "sample_unfit" not in CHECKS.names()


@pytest.mark.usefixtures("failed_plugins")
def test_plugin_check__results_count_like_built_in_ones(tmp_path: Path) -> None:
    # "1234" and the end of the line are five characters.
    assert "[PASS] t" in bashkit_eval("run", tmp_path, "sample_quiet:5")
    completed = bashkit_eval("run", tmp_path, "sample_quiet:4")
    assert "[FAIL] t" in completed
    assert "expected <= 4, got 5" in completed
