"""docs/import.md: the commands print the documented output, and every format has a row."""

import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mosaico.cli import cli
from mosaico.traces.files.field_names import NAMES
from mosaico.traces.files.importer_registry import IMPORTERS, load_importers
from tests.integration.docs.test_examples import blocks, examples, matches, text_of
from tests.support.import_files import refuse_plugin
from tests.unit.reporting.test_compare_cli import write_table

PAGE = "docs/import.md"


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of the page."""
    write_table(tmp_path / "last-week.csv", range(2))
    write_table(tmp_path / "today.csv", range(14))
    (tmp_path / "broken.csv").write_text("id,output,cost\nq0,x,0.5\nq1,x,cheap\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("tables")
def test_commands__answer_as_shown() -> None:
    commands = [example for block in blocks(PAGE, "console") for example in examples(block)]
    assert len(commands) == 2
    for command, output in commands:
        result = CliRunner().invoke(cli, shlex.split(command)[1:])
        printed = result.stderr if result.exit_code else result.stdout
        assert matches(printed, output), f"{command}\n{result.output}"


def test_page__has_every_format_and_field() -> None:
    load_importers(refuse_plugin)
    text = text_of("docs/import*.md")
    assert [name for name in IMPORTERS.names() if f"| `{name}` |" not in text] == []
    assert [name for name in NAMES if f"`{name}`" not in text] == []
