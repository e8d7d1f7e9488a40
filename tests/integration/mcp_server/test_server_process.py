"""The server: what it lists, that the own harness accepts it, files, and what it says when it cannot start."""

import json
import socket
import sys
from pathlib import Path
from string import Template

import pytest
from typer.testing import CliRunner

from mosaico.cli import cli
from mosaico.core import extras
from mosaico.harness.mcp.cli.ot_bench import cli as ot_bench
from mosaico.mcp_server.envelope import CLOSE, OPEN
from tests.support.mcp_client import APP, ToolCaller, in_process
from tests.support.service import Service

READ_ONLY = {
    "what_got_worse", "why", "compare_runs", "show_trace", "kpi_trend", "find", "gate_files",
}  # fmt: skip


def test_tools__have_stable_names_schemas_and_hints(service: Service, tmp_path: Path) -> None:
    async def list_them(caller: ToolCaller) -> None:
        instructions = caller.client.instructions or ""
        assert OPEN in instructions
        assert CLOSE in instructions
        tools = {tool.name: tool for tool in (await caller.client.list_tools()).tools}
        assert set(tools) == READ_ONLY | {"start_run"}
        for name, tool in tools.items():
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint is (name in READ_ONLY)
            assert tool.annotations.destructive_hint is False
            assert tool.input_schema["additionalProperties"] is False
            assert tool.output_schema is not None

    in_process(service, list_them, folder=tmp_path, allow_runs=True)


BENCH = """
servers:
  mosaico:
    type: stdio
    command: $python
    args: [-P, -m, mosaico.cli, mcp]
    env: {MOSAICO_URL: "http://127.0.0.1:1", MOSAICO_API_KEY: none, PYTHONPATH: $app}
scenarios:
  - name: mosaico
    tasks:
      - {name: "tool:find:agents", type: direct, server: mosaico, tool: find, arguments: {kind: agents}, evaluate: {expected: x}}
"""


def test_own_harness__accepts_the_server_without_a_finding(tmp_path: Path) -> None:
    file = tmp_path / "bench.yaml"
    file.write_text(Template(BENCH).substitute(python=sys.executable, app=APP))
    result = CliRunner().invoke(ot_bench, ["validate", "--servers", "--strict", str(file)])
    assert result.exit_code == 0, result.output


def write_rows(path: Path, wrong: int) -> None:
    rows = [
        {"id": f"q{n}", "expected": "yes", "output": "no" if n < wrong else "yes"}
        for n in range(60)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize("wrong", [3, 30])
def test_gate_files__has_the_verdict_of_the_command(
    service: Service, tmp_path: Path, wrong: int
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    write_rows(folder / "base.jsonl", 3)
    write_rows(folder / "now.jsonl", wrong)
    write_rows(tmp_path / "secret.jsonl", 3)
    (folder / "link.jsonl").symlink_to(tmp_path / "secret.jsonl")
    words = ["gate", "--run", str(folder / "now.jsonl"), "--baseline", str(folder / "base.jsonl")]
    command = CliRunner().invoke(cli, [*words, "--json"])

    async def gate(caller: ToolCaller) -> None:
        answer = await caller.answer("gate_files", baseline="base.jsonl", candidate="now.jsonl")
        assert answer["exitCode"] == command.exit_code
        assert answer["outcome"] == json.loads(command.stdout)["outcome"]
        assert answer["passed"] is (wrong == 3)
        for outside in ("../secret.jsonl", str(tmp_path / "secret.jsonl"), "link.jsonl"):
            text = await caller.error("gate_files", baseline=outside, candidate="now.jsonl")
            assert "is not below" in text
        assert "missing.jsonl" in await caller.error(
            "gate_files", baseline="missing.jsonl", candidate="now.jsonl"
        )

    in_process(service, gate, folder=folder)


LENIENT = """\
name: project
benchmarks:
  strict: {metrics: [EXACT_MATCH]}
  lenient:
    metrics: [EXACT_MATCH]
    kpis: {pass rate: {formula: EXACT_MATCH, direction: HIGHER_IS_BETTER, minEffect: 0.9, gate: true}}
"""


def test_gate_files__project_file_of_the_folder_judges_and_is_named(
    service: Service, tmp_path: Path
) -> None:
    write_rows(tmp_path / "base.jsonl", 3)
    write_rows(tmp_path / "now.jsonl", 30)
    (tmp_path / "mosaico.yaml").write_text(LENIENT)
    files = {"baseline": "base.jsonl", "candidate": "now.jsonl"}

    async def gate(caller: ToolCaller) -> None:
        assert "lenient" in await caller.error("gate_files", **files)
        lenient = await caller.answer("gate_files", benchmark="lenient", **files)
        assert lenient["passed"]
        assert "pass rate" in lenient["checks"][0]["name"]
        assert any("mosaico.yaml: benchmark lenient sets" in line for line in lenient["remarks"])
        strict = await caller.answer("gate_files", benchmark="strict", **files)
        assert not strict["passed"]

    in_process(service, gate, folder=tmp_path)


def test_command__without_the_sdk_names_the_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extras.MODULES, "mcp", ("no_such_package",))
    result = CliRunner().invoke(cli, ["mcp"])
    assert result.exit_code == 2
    assert "pip install" in result.stderr
    assert "mosaico[mcp]" in result.stderr


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--http", "0.0.0.0:8765"], "--allowed-host"),
        (["--http", "nowhere"], "127.0.0.1:8765"),
        (["--allowed-host", "x.example"], "--http"),
    ],
)
def test_command__wrong_address_is_refused(words: list[str], named: str) -> None:
    result = CliRunner().invoke(
        cli, ["mcp", *words], env={"MOSAICO_URL": "http://127.0.0.1:1", "MOSAICO_API_KEY": "x"}
    )
    assert result.exit_code == 2
    assert named in result.stderr


def test_command__wrong_configuration_is_said_at_the_start() -> None:
    result = CliRunner().invoke(
        cli, ["mcp"], env={"MOSAICO_URL": "ftp://x", "MOSAICO_API_KEY": "x"}
    )
    assert result.exit_code == 78
    assert "MOSAICO_URL" in result.stderr


def test_command__port_in_use_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        result = CliRunner().invoke(
            cli, ["mcp", "--http", port], env={"MOSAICO_URL": "http://x", "MOSAICO_API_KEY": "x"}
        )
    assert result.exit_code == 2
    assert port in result.stderr
    assert "MCP server at" not in result.stderr
