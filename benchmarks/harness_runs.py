"""B3 and H4: a harness run of the service beside the same run of the command line.

Both ask the same model server for the same tasks, in turn. The worker of the service has done one run
before, as in every deployment; the command line starts anew each time.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.deployment import api_with_database
from benchmarks.result_rows import BenchRow, interleave
from mosaico.llm.conversation import (
    ChatMessage,
    MessageRole,
    StopReason,
    TextBlock,
    ToolUseBlock,
    Usage,
)
from tests.support.mcp_servers import FAULTS
from tests.support.model_server import Plan, ReceivedRequest, ScriptedReply, model_server
from tests.support.processes import MASTER_KEY, ROOT, programs, until
from tests.support.service import JSON, Service
from tests.support.stored import DatabaseReader

# As many as the larger dataset of the original evaluation.
TASKS = 58
CALLS = 3
GOAL = 1.3
ROUNDS = 5
METRICS = ["TASK_SCORE", "TASK_PASSED", "TURNS", "TOOL_CALL_SUCCESS_RATE"]


def measure_bash() -> Iterator[BenchRow]:
    """B3: 58 bash tasks."""
    lines = [
        {
            "id": f"task-{number}",
            "category": "files",
            "prompt": f"Write {number}.",
            "expectations": [{"check": "stdout_contains:blue"}],
        }
        for number in range(TASKS)
    ]
    content = "".join(json.dumps(line) + "\n" for line in lines)
    with _compared("tasks.jsonl", {"commands": "echo blue"}, tool="bash") as comparison:
        url = comparison.url
        model = ["--provider", "openai", "--model", "m", "--base-url", url]
        harness = {"provider": "openai", "model": "m", "baseUrl": url}
        yield comparison.row("B3 service run, bash", content, ["bash-eval", "run"], model, harness)


def measure_mcp() -> Iterator[BenchRow]:
    """H4: 58 tasks with an MCP server."""
    with _compared("bench.yaml", {"text": "blue"}, tool="echo") as comparison:
        # JSON is YAML, too.
        content = json.dumps(_benchmark_file(comparison.url))
        harness: JSON = {}
        yield comparison.row("H4 service run, MCP", content, ["ot-bench", "run"], [], harness)


def _benchmark_file(url: str) -> JSON:
    # Without `site`, so that little of the time is the start of the server.
    server = {"type": "stdio", "command": sys.executable, "args": ["-I", "-S", str(FAULTS)]}
    tasks = [
        {"name": f"tool:faults:{number}", "prompt": "Which?", "evaluate": {"expected": "blue"}}
        for number in range(TASKS)
    ]
    return {
        "llm": {"base_url": url, "api_key": "none"},
        "defaults": {"model": "m", "harness": {"server": "faults"}},
        "servers": {"faults": server},
        "scenarios": [{"name": "all", "share_servers": True, "tasks": tasks}],
    }


class _Comparison:
    """A folder with one dataset, a model server, and a service with a worker that has done a run."""

    def __init__(self, folder: Path, file: Path, url: str, service: Service) -> None:
        self.url = url
        self._folder, self._file, self._service = folder, file, service
        self._database = DatabaseReader(service.resources.db.url)

    def row(
        self, name: str, content: str, command: Sequence[str], options: Sequence[str], harness: JSON
    ) -> BenchRow:
        self._file.write_text(content)
        self._service.create_agent()
        self._service.create_benchmark(
            source="harness", datasetRef=self._file.name, harness=harness, metrics=METRICS
        )
        began = time.perf_counter()
        self._run_in_service()
        first_s = time.perf_counter() - began
        seconds = interleave(
            self._run_in_service,
            lambda: self._run_in_command_line([*command, str(self._file), *options]),
            repeat=ROUNDS,
        )
        ratio = seconds.ours_seconds / seconds.peer_seconds
        return BenchRow(
            name=name,
            goal=f"≤ {GOAL:g}x the command line",
            ratio=ratio,
            holds=ratio <= GOAL,
            note=f"{seconds.ours_seconds:.2f} s beside {seconds.peer_seconds:.2f} s for {TASKS} tasks;"
            f" {first_s:.2f} s for the first run of a new worker",
        )

    def _run_in_service(self) -> None:
        run_id = str(self._service.start_run()["id"])
        until(lambda: self._database.status(run_id) in ("COMPLETED", "FAILED"))
        run = self._service.get(f"/benchmark-runs/{run_id}")
        assert (run["status"], run["tracesTotal"]) == ("COMPLETED", TASKS), run

    def _run_in_command_line(self, command: Sequence[str]) -> None:
        environment = {**os.environ, "OPENAI_API_KEY": "none", "PYTHONPATH": str(ROOT / "app")}
        subprocess.run(
            [sys.executable, "-m", "mosaico.cli", *command],
            cwd=self._folder,
            env=environment,
            check=True,
            capture_output=True,
        )


@contextmanager
def _compared(file_name: str, arguments: JSON, *, tool: str) -> Iterator[_Comparison]:
    with (
        tempfile.TemporaryDirectory() as name,
        model_server(_plan(tool, arguments)) as models,
        api_with_database(Path(name)) as service,
    ):
        folder = Path(name)
        file = folder / "datasets" / file_name
        file.parent.mkdir()
        with programs(
            folder,
            DATABASE_URL=service.resources.db.url,
            MOSAICO_MASTER_KEY=MASTER_KEY,
            MOSAICO_HARNESS_DIR=str(file.parent),
            MOSAICO_OUTBOUND_ALLOW="127.0.0.0/8",
        ) as started:
            started.worker()
            yield _Comparison(folder, file, models.openai_url, service)


def _plan(tool: str, arguments: JSON) -> Plan:
    """A model that calls a tool three times and then answers."""

    def reply(request: ReceivedRequest) -> ScriptedReply:
        is_last = request.turn == CALLS
        use = ToolUseBlock(id=f"call-{request.turn}", name=tool, input=arguments)
        block = TextBlock(text="It is blue.") if is_last else use
        return ScriptedReply(
            message=ChatMessage(role=MessageRole.ASSISTANT, content=(block,)),
            stop=StopReason.END if is_last else StopReason.TOOL_USE,
            usage=Usage(input_tokens=100, output_tokens=10),
        )

    return reply
