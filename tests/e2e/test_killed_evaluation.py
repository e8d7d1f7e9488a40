"""A worker is killed during evaluations: no finished task is requested again."""

import json
import sys
import threading
from collections import Counter
from pathlib import Path

from mosaico.llm.conversation import ChatMessage, MessageRole, StopReason, TextBlock, Usage
from tests.support.deployment import Deployment
from tests.support.mcp_servers import FAULTS
from tests.support.model_server import ReceivedRequest, ScriptedReply, model_server
from tests.support.processes import LIVENESS_S, children_of, lives, until
from tests.support.service import JSON

METRICS = ["TASK_PASSED", "INPUT_TOKENS"]
# They hang in one of the two slots of each run, while the other slot does the other six tasks.
UNANSWERED = ("Task 2", "Bench 2")
TASKS = [
    {"id": f"t-{n}", "category": "c", "prompt": f"Task {n}", "expectations": [{"check": "stderr_empty"}]}
    for n in range(7)
]  # fmt: skip


def ot_bench_file(url: str) -> JSON:
    """An ot-bench file with seven tasks that share one tool server."""
    server = {"type": "stdio", "command": sys.executable, "args": ["-I", "-S", str(FAULTS)]}
    tasks = [
        {"name": f"tool:faults:{n}", "prompt": f"Bench {n}", "evaluate": {"expected": n}}
        for n in range(7)
    ]
    return {
        "llm": {"base_url": url, "api_key": "of-the-file"},
        "defaults": {"model": "m", "harness": {"server": "faults"}},
        "servers": {"faults": server},
        "scenarios": [{"name": "all", "share_servers": True, "tasks": tasks}],
    }


def test_killed_evaluation__no_finished_task_is_repeated(
    deployment: Deployment, tmp_path: Path
) -> None:
    """A bash evaluation and an ot-bench file, each with two tasks at a time.

    The model answers six tasks of each at once, and the third task only after the kill.
    """
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in TASKS))
    killed = threading.Event()

    def plan(request: ReceivedRequest) -> ScriptedReply:
        if request.prompt in UNANSWERED:
            killed.wait(LIVENESS_S)
        message = ChatMessage(role=MessageRole.ASSISTANT, content=(TextBlock(text=request.prompt),))
        return ScriptedReply(
            message=message, stop=StopReason.END, usage=Usage(input_tokens=10, output_tokens=1)
        )

    environment = {"MOSAICO_HARNESS_DIR": str(tmp_path), "MOSAICO_OUTBOUND_ALLOW": "127.0.0.0/8"}
    with model_server(plan) as server:
        (tmp_path / "bench.yaml").write_text(json.dumps(ot_bench_file(server.openai_url)))
        bash = {"provider": "openai", "model": "m", "baseUrl": server.openai_url}
        settings: dict[str, JSON] = {
            "tasks.jsonl": {**bash, "concurrency": 2},
            "bench.yaml": {"concurrency": 2},
        }
        for dataset, harness in settings.items():
            deployment.service.create_benchmark(
                dataset, source="harness", datasetRef=dataset, harness=harness, metrics=METRICS
            )
        victim = deployment.programs.worker(**environment)
        runs = [
            str(deployment.service.start_run(benchmarkId=dataset)["id"]) for dataset in settings
        ]
        stored = "SELECT count(*) FROM collections WHERE trace_count = 6"
        until(lambda: deployment.database.value(stored) == len(settings), what=victim.log)
        until(
            lambda: set(UNANSWERED) <= {request.prompt for request in server.requests},
            what=victim.log,
        )
        children = children_of(victim.pid)
        victim.kill()
        killed.set()
        until(
            lambda: not any(map(lives, children)), what="the tool servers of a killed worker exit"
        )
        deployment.database.age_heartbeats()
        deployment.programs.worker(**environment)
        completed = [deployment.completed_run(run_id) for run_id in runs]

    for run in completed:
        assert (run["tracesTotal"], run["validity"]) == (7, "VALID")
        metrics = deployment.service.get(f"/benchmark-runs/{run['id']}/metrics")["items"]
        metric_sums = {aggregate["metric"]: aggregate["sum"] for aggregate in metrics}
        # Ten tokens for each task: the two attempts that were killed are in no sum.
        assert metric_sums == {"TASK_PASSED": 7, "INPUT_TOKENS": 70}
    prompt_counts = Counter(request.prompt for request in server.requests)
    assert {prompt: count for prompt, count in prompt_counts.items() if count > 1} == dict.fromkeys(
        UNANSWERED, 2
    )
    assert len(prompt_counts) == 2 * len(TASKS)
