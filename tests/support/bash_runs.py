"""Benchmarks of two small bash tasks, whose answers a script or a model server gives."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from mosaico.core.encryption import Secret
from mosaico.core.resources import Resources
from tests.support.service import JSON, Service

TASKS: list[JSON] = [
    {
        "id": "good",
        "category": "files",
        "prompt": "Write a into /a.",
        "expectations": [{"check": "file_contains:/a:a"}, {"check": "exit_code:0"}],
    },
    {
        "id": "half",
        "category": "text",
        "prompt": "Print x, three times.",
        "expectations": [{"check": "stdout_contains:xxx", "weight": 3}, {"check": "exit_code:0"}],
    },
]
SCRIPT = [
    {
        "id": "good",
        # One of four calls fails, so that TOOL_CALL_SUCCESS_RATE is 0.75 and not a number that any
        # mistake gives; `true` ends the turn, so that the last exit code is still 0.
        "turns": [["echo a > /a"], ["cat /a", "cat /none", "true"]],
        "answer": "Written.",
    },
    # The check of weight 3 fails and the one of weight 1 passes: a score of 0.25, not of one half.
    {"id": "half", "turns": [["echo x"]]},
]
PRICE = {"inputUsd": 1, "outputUsd": 10}
SCRIPTED_MODEL = {"provider": "scripted", "model": "script.jsonl"}
METRICS = ["TASK_SCORE", "TASK_PASSED", "NATURAL_STOP", "TOOL_CALL_SUCCESS_RATE", "TURNS"]


def write_lines(path: Path, lines: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def with_datasets(resources: Resources, folder: Path) -> Resources:
    """The same resources with the operator's folder of datasets."""
    options = {**resources.options, "harness_dir": str(folder)}
    return dataclasses.replace(resources, options=options)


def with_keys(service: Service, **more: Any) -> Service:
    """The same service with model keys of the operator."""
    keys = {"ANTHROPIC_API_KEY": Secret("key-of-a"), "OPENAI_API_KEY": Secret("key-of-o")}
    return dataclasses.replace(
        service, resources=dataclasses.replace(service.resources, model_keys=keys, **more)
    )


def benchmark(service: Service, harness: JSON, **more: Any) -> JSON:
    service.create_agent()
    fields = {"datasetRef": "nightly/tasks.jsonl", "metrics": METRICS, **more}
    return service.create_benchmark(source="harness", harness=harness, **fields)


def figures(service: Service, run: JSON) -> dict[str, JSON]:
    return {
        metric["metric"]: metric
        for metric in service.list_items(f"/benchmark-runs/{run['id']}/metrics")
    }


def results(service: Service, run: JSON) -> dict[str, JSON]:
    return {
        item["traceId"]: item for item in service.list_items(f"/benchmark-runs/{run['id']}/results")
    }
