"""The page about statistics: what it shows happens, and no verdict is left out."""

import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli import cli
from app.statistics.verdict import Verdict
from tests.integration.docs.test_examples import ROOT, blocks, examples, matches
from tests.support.service import ndjson, pair

PAGE = "docs/statistics.md"


@pytest.fixture
def nights(tmp_path: Path, plugins: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of the page: 40 items, of which so many fail."""
    for name, failed in (("before", range(3)), ("after", range(15)), ("like", range(1, 4))):
        lines = [pair(number, "yes", "no" if number in failed else "yes") for number in range(40)]
        (tmp_path / f"{name}.jsonl").write_bytes(ndjson(lines))
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("nights")
def test_the_commands_of_the_page_answer_as_shown() -> None:
    found = [each for block in blocks(PAGE, "console") for each in examples(block)]
    assert len(found) == 3
    for command, output in found:
        result = CliRunner().invoke(cli, shlex.split(command)[1:])
        assert matches(result.stdout, output), f"{command}\n{result.output}"


def test_the_page_explains_every_verdict() -> None:
    text = (ROOT / PAGE).read_text()
    assert [verdict for verdict in Verdict if f"| `{verdict}`" not in text] == []
