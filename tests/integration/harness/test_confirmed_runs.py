"""A suspicious harness run is repeated with more trials at once, and both decide about the page."""

import dataclasses
import json
from pathlib import Path

import pytest

from mosaico.core.resources import Resources
from mosaico.llm.conversation import ChatMessage, MessageRole, StopReason, TextBlock, Usage
from tests.support.model_server import ReceivedRequest, ScriptedReply, model_server
from tests.support.service import Service

# The SDKs take seconds to import: one worker imports them for all these tests.
pytestmark = pytest.mark.xdist_group("sdks of models")

TASKS = 12


def write_script(folder: Path, right: int) -> None:
    """A model that does the first tasks right."""
    lines = [
        {"id": f"task-{number}", "turns": [["echo right" if number < right else "echo wrong"]]}
        for number in range(TASKS)
    ]
    (folder / "script.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def dataset_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "datasets"
    folder.mkdir()
    tasks = [
        {
            "id": f"task-{number}",
            "category": "text",
            "prompt": "Print right.",
            "expectations": [{"check": "stdout_contains:right"}],
        }
        for number in range(TASKS)
    ]
    (folder / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
    return folder


@pytest.fixture
def service_resources(service_resources: Resources, dataset_folder: Path) -> Resources:
    return dataclasses.replace(
        service_resources, options={**service_resources.options, "harness_dir": str(dataset_folder)}
    )


def test_harness_run__a_drop_pages_after_its_repetition_with_twice_the_trials(
    service: Service, dataset_folder: Path
) -> None:
    service.create_agent()
    service.create_benchmark(
        source="harness",
        datasetRef="tasks.jsonl",
        harness={"provider": "scripted", "model": "script.jsonl"},
        metrics=["TASK_PASSED"],
    )
    rule = {"id": "rule", "name": "tasks fail", "benchmarkId": "bench-001"}
    service.post("/alert-configs", {**rule, "metric": "TASK_PASSED", "condition": "REGRESSED"})
    write_script(dataset_folder, TASKS)
    # Fewer are too few for evidence over runs.
    for _ in range(3):
        service.complete_run()
    write_script(dataset_folder, 2)
    bad = service.complete_run()
    runs = {run["id"]: run for run in service.list_items("/benchmark-runs")}
    [repetition] = [run for run in runs.values() if run["confirms"] is not None]
    assert (repetition["confirms"], repetition["status"]) == (bad["id"], "COMPLETED")
    assert (bad["tracesTotal"], repetition["tracesTotal"]) == (TASKS, 2 * TASKS)
    [alert] = service.list_items("/alerts")
    assert (alert["state"], alert["runId"]) == ("FIRING", bad["id"])
    # The repetition is no run of its own: it is no history, and no rule looks at it.
    assert len(service.list_items("/incidents")) == 1
    write_script(dataset_folder, TASKS)
    for _ in range(3):
        service.complete_run()
    assert service.list_items("/alerts")[0]["state"] == "RESOLVED"


def test_harness_run__a_repetition_beyond_the_budget_is_invalid_and_the_suspicious_run_decides(
    service: Service, dataset_folder: Path
) -> None:
    """110 tokens an attempt, 1,400 for a run: twelve attempts of a run, thirteen of 24 of its repetition."""
    words = ["Blue."]

    def answer(_: ReceivedRequest) -> ScriptedReply:
        message = ChatMessage(role=MessageRole.ASSISTANT, content=(TextBlock(text=words[-1]),))
        usage = Usage(input_tokens=100, output_tokens=10)
        return ScriptedReply(message=message, stop=StopReason.END, usage=usage)

    service.create_agent()
    with model_server(answer) as server:
        tasks = [
            {
                "name": f"ask-{number}",
                "server": None,
                "prompt": "?",
                "evaluate": {"expected": "Blue."},
            }
            for number in range(TASKS)
        ]
        bench = {
            "llm": {"base_url": server.openai_url, "api_key": "key"},
            "defaults": {"model": "m"},
            "scenarios": [{"name": "all", "tasks": tasks}],
        }
        (dataset_folder / "bench.yaml").write_text(json.dumps(bench))
        service.create_benchmark(
            source="harness",
            datasetRef="bench.yaml",
            harness={"runTokens": 1_400, "concurrency": 1},
            metrics=["TASK_PASSED"],
        )
        rule = {"id": "rule", "name": "tasks fail", "benchmarkId": "bench-001"}
        service.post("/alert-configs", {**rule, "metric": "TASK_PASSED", "condition": "REGRESSED"})
        for _ in range(3):
            assert service.complete_run()["validity"] == "VALID"
        words.append("Red.")
        requests_before = len(server.requests)
        bad = service.complete_run()
        assert len(server.requests) - requests_before == TASKS + 13
    [repetition] = [run for run in service.list_items("/benchmark-runs") if run["confirms"]]
    assert (repetition["status"], repetition["validity"]) == ("COMPLETED", "INVALID")
    [alert] = service.list_items("/alerts?state=FIRING")
    assert alert["runId"] == bad["id"]
