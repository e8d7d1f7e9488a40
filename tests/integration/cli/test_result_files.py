"""Commands that read files of results: what they name, and the scores that they show."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import mosaico
from app.cli import cli

COMMANDS = [
    ["score", "FILE"],
    ["compare", "FILE", "FILE", "--no-html"],
    ["gate", "--run", "FILE", "--baseline", "FILE"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
@pytest.mark.parametrize("form", ["table", "traces"])
def test_command__names_what_nothing_reads(tmp_path: Path, command: list[str], form: str) -> None:
    file = tmp_path / "results.jsonl"
    identity = "traceId" if form == "traces" else "id"
    rows = [
        {identity: f"q{number}", "output": "2", "expectedOutput": "2", "remark": "lost"}
        for number in range(30)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = [str(file) if word == "FILE" else word for word in command]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    noun = "keys" if form == "traces" else "columns"
    assert f"{noun} that nothing reads: remark" in result.stderr
    assert "remark" not in result.stdout


def test_python__remarks_name_what_nothing_reads() -> None:
    rows = [{"id": "q", "output": "2", "expected": "2", "remark": "lost"}]
    assert "columns that nothing reads: remark" in " ".join(mosaico.score(rows).remarks)


def test_score__shows_the_scores_of_the_file(tmp_path: Path) -> None:
    row = {"id": "q", "output": "2", "expected": "2", "scores": {"Tone": 0.5}, "depth": 3}
    file = tmp_path / "results.jsonl"
    file.write_text(json.dumps(row) + "\n" + json.dumps({**row, "id": "r"}) + "\n")
    lines = CliRunner().invoke(cli, ["score", str(file)]).stdout.splitlines()
    means = dict(line.split("\t")[:2] for line in lines)
    assert (means['SCORE["Tone"]'], means['SCORE["depth"]']) == ("0.5", "3")
    piped = CliRunner().invoke(cli, ["score", "-"], input=file.read_bytes())
    assert "ACCURACY" in piped.stdout
