"""A worker that is killed while a model works: what was finished is paid for once."""

import dataclasses
import json
import threading
from collections import Counter
from pathlib import Path

import pytest

from app.core.resources import Resources
from app.core.secrets import SecretBox
from app.harness.llm.conversation import Message, Role, Stop, TextBlock, Usage
from tests.support.house import House
from tests.support.model_server import Asked, Said, model_server
from tests.support.processes import LIVENESS_S, MASTER_KEY, until

TASKS = [
    {"id": f"t-{n}", "category": "c", "prompt": f"Task {n}", "expectations": [{"check": "stderr_empty"}]}
    for n in range(7)
]  # fmt: skip


@pytest.fixture
def service_resources(service_resources: Resources) -> Resources:
    """The workers open what this process sealed."""
    return dataclasses.replace(service_resources, secrets=SecretBox.from_keys([MASTER_KEY]))


def test_no_finished_task_is_done_again(house: House, tmp_path: Path) -> None:
    """The first six of two at a time are answered at once, `Task 2` after the kill only."""
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in TASKS))
    killed = threading.Event()

    def plan(asked: Asked) -> Said:
        if asked.prompt == "Task 2":
            killed.wait(LIVENESS_S)
        message = Message(role=Role.ASSISTANT, content=(TextBlock(text=asked.prompt),))
        return Said(message=message, stop=Stop.END, usage=Usage(input_tokens=10, output_tokens=1))

    environment = {"MOSAICO_HARNESS_DIR": str(tmp_path), "MOSAICO_OUTBOUND_ALLOW": "127.0.0.0/8"}
    with model_server(plan) as server:
        house.service.benchmark(
            "in-bash",
            source="harness",
            datasetRef="tasks.jsonl",
            harness={
                "provider": "openai",
                "model": "m",
                "baseUrl": server.openai_url,
                "concurrency": 2,
            },
            metrics=["TASK_PASSED", "INPUT_TOKENS"],
        )
        victim = house.programs.worker(**environment)
        run_id = house.service.start(benchmarkId="in-bash")["id"]
        stored = "SELECT coalesce(max(trace_count), 0) FROM collections"
        until(lambda: house.rows.value(stored) == 6, what=victim.log)
        victim.kill()
        killed.set()
        house.rows.age_heartbeats()
        house.programs.worker(**environment)
        run = house.completed(run_id)

    assert (run["tracesTotal"], run["validity"]) == (7, "VALID")
    asked = Counter(each.prompt for each in server.asked)
    assert asked.pop("Task 2") == 2
    assert set(asked.values()) == {1}
    metrics = house.service.get(f"/benchmark-runs/{run_id}/metrics")["items"]
    assert {each["metric"]: each["sum"] for each in metrics} == {
        "TASK_PASSED": 7,
        "INPUT_TOKENS": 70,
    }
