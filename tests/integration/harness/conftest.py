"""Where commands of `ot-bench` run, and the model that they ask."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mosaico.harness.mcp.evaluator_registry import load_evaluators
from tests.support.bash_runs import SCRIPT, TASKS, write_lines
from tests.support.mcp_commands import answers
from tests.support.model_server import ModelServer, model_server


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without files, and a user without configuration and keys."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    for name in ("OPENROUTER_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OT_BENCH_CONFIG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with model_server(answers) as server:
        yield server


@pytest.fixture(scope="module")
def loaded_evaluators() -> None:
    load_evaluators()


@pytest.fixture
def dataset_folder(tmp_path: Path) -> Path:
    """The operator's folder of datasets: two tasks, and a script that answers them."""
    root = tmp_path / "datasets"
    write_lines(root / "nightly" / "tasks.jsonl", TASKS)
    write_lines(root / "script.jsonl", SCRIPT)
    return root
