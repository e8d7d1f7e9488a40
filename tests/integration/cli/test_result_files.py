"""Commands that read files of results: what they name, and the scores that they show."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import mosaico
from mosaico.cli import cli

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
    assert f"{noun} that are not used: remark" in result.stderr
    assert "remark" not in result.stdout


ROWS = [{"id": "q", "output": "2", "expected": "2", "remark": "lost"}]
IGNORED = "columns that are not used: remark"


def test_python__remarks_name_what_nothing_reads() -> None:
    for result in (
        mosaico.score(ROWS),
        mosaico.compare(ROWS, ROWS),
        mosaico.gate(ROWS, baseline=ROWS),
    ):
        assert IGNORED in " ".join(result.remarks)
