"""docs/statistics.md and docs/verdicts.md: the commands print the documented output, and every verdict is explained."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mosaico.cli import cli
from mosaico.statistics.verdict_rules import Verdict
from tests.integration.docs.test_examples import ROOT, blocks, examples, matches, text_of
from tests.support.service import ndjson, pair

PAGES = ("docs/statistics.md", "docs/verdicts.md")
RATES = "docs/research/verdicts.md"


@pytest.fixture
def trace_files(tmp_path: Path, plugins: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of the page: 40 items with some failures."""
    for name, failed in (("before", range(3)), ("after", range(15)), ("like", range(1, 4))):
        lines = [pair(number, "yes", "no" if number in failed else "yes") for number in range(40)]
        (tmp_path / f"{name}.jsonl").write_bytes(ndjson(lines))
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("trace_files")
def test_commands__answer_as_shown() -> None:
    commands = [
        example
        for page in PAGES
        for block in blocks(page, "console")
        for example in examples(block)
    ]
    assert len(commands) == 4
    for command, output in commands:
        result = CliRunner().invoke(cli, shlex.split(command)[1:])
        assert matches(result.stdout, output), f"{command}\n{result.output}"


def test_page__explains_every_verdict() -> None:
    text = text_of("docs/verdicts.md")
    assert [verdict for verdict in Verdict if f"| `{verdict}`" not in text] == []


def test_rates__name_existing_tests() -> None:
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", (ROOT / RATES).read_text()))
    assert len(named) > 20
    assert [name for name in sorted(named) if f"def {name}(" not in tests] == []
