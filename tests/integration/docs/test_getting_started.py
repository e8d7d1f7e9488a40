"""`init` prints the lines of docs/getting-started.md, and its file judges files as docs/compare-files.md shows."""

import os
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from mosaico.cli import cli
from mosaico.project_file.kinds import ObjectKind
from mosaico.project_file.reading import parse_project_file
from tests.integration.docs.test_examples import blocks

PAGE = "docs/getting-started.md"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "support"
    path.mkdir()
    monkeypatch.chdir(path)
    monkeypatch.setenv("TZ", "Europe/Madrid")
    for name in list(os.environ):
        if name.startswith(("MOSAICO_", "LANGFUSE_", "OTEL_", "SLACK_")):
            monkeypatch.delenv(name)
    for age, (name, wrong) in enumerate((("today", 14), ("last-week", 2))):
        rows = [f"q{n},yes,{'no' if n < wrong else 'yes'}\n" for n in range(40)]
        file = path / f"{name}.csv"
        file.write_text("id,expected,output\n" + "".join(rows))
        os.utime(file, (1_700_000_000 - age, 1_700_000_000 - age))
    return path


def test_getting_started__init_prints_the_page(folder: Path) -> None:
    [block, *_] = blocks(PAGE, "console")
    command, _, printed = block.removeprefix("$ mosaico ").partition("\n")
    done = CliRunner().invoke(cli, command.split())
    assert done.exit_code == 0, done.output
    assert sorted(done.output.splitlines()) == sorted(printed.splitlines())


def test_getting_started__file_judges_files_and_says_the_line(folder: Path) -> None:
    assert CliRunner().invoke(cli, ["init"]).exit_code == 0
    done = CliRunner().invoke(cli, ["compare", "last-week.csv", "today.csv"])
    assert done.stdout.startswith("REGRESSED: pass rate")
    assert blocks("docs/compare-files.md", "text")[0].strip() in done.stderr


def test_getting_started__rule_names_the_endpoint(folder: Path) -> None:
    assert CliRunner().invoke(cli, ["init"]).exit_code == 0
    file = yaml.safe_load((folder / "mosaico.yaml").read_text())
    shown = yaml.safe_load(blocks(PAGE, "yaml")[0])
    rules, shown_rules = (
        content["benchmarks"]["support-nightly"]["rules"] for content in (file, shown)
    )
    # The page changes what `init` has written.
    assert [*shown_rules] == [*rules]
    file["endpoints"] = shown["endpoints"]
    rules.update(shown_rules)
    environment = {"HOOK_URL": "http://127.0.0.1:9000/alerts"}
    read = parse_project_file(yaml.safe_dump(file).encode(), environment, "mosaico.yaml")
    [rule] = read.of_kind(ObjectKind.RULE)
    [endpoint] = read.of_kind(ObjectKind.ENDPOINT)
    assert rule.fields["endpoints"] == [endpoint.key.name]
    assert endpoint.fields["recipient"] == environment["HOOK_URL"]
