"""Logs that installed evaluation tools write now.

The tools are no dependencies, because they bring hundreds of megabytes along.
MOSAICO_INSPECT_PYTHON names an interpreter with inspect-ai (`python -m venv X && X/bin/pip install
inspect-ai`), MOSAICO_PROMPTFOO the program promptfoo (`npm install promptfoo`).
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.traces.types import TraceOutcome
from tests.support.import_files import import_path

# Runs a task on the mock model, and prints what the reader of the tool reads from its log.
PROGRAM = """\
import json
import sys

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import match
from inspect_ai.solver import generate, solver


@solver
def fail_at(item):
    async def solve(state, generate):
        if state.sample_id == item:
            raise RuntimeError("no idea")
        return state

    return solve


def outputs():
    answers = iter(["4", "Rome", "4", "Milan"])
    for answer in answers:
        output = ModelOutput.from_content("mockllm/model", answer)
        output.usage = ModelUsage(input_tokens=12, output_tokens=3, total_tokens=15)
        yield output


samples = [
    Sample(id="sum", input="2 + 2?", target="4"),
    Sample(id="capital", input="Capital of Italy?", target="Rome"),
    Sample(id="broken", input="?", target="x"),
]
task = Task(dataset=samples, solver=[fail_at("broken"), generate()], scorer=match(location="exact"))
[log] = eval(
    task,
    model=get_model("mockllm/model", custom_outputs=outputs()),
    epochs=2,
    max_samples=1,
    fail_on_error=False,
    log_dir=sys.argv[1],
    log_format=sys.argv[2],
    display="none",
)
read = read_eval_log(log.location)
print(json.dumps({
    "location": log.location,
    "samples": [
        {
            "item": str(sample.id),
            "trial": sample.epoch - 1,
            "input": sample.input,
            "expected": sample.target,
            "output": None if sample.error else sample.output.completion,
            "passed": {"C": 1.0, "I": 0.0}[sample.scores["match"].value] if sample.scores else None,
            "tokens": [usage.input_tokens for usage in sample.model_usage.values()],
            "error": bool(sample.error),
        }
        for sample in read.samples
    ],
}))
"""


def interpreter() -> str:
    named = os.environ.get("MOSAICO_INSPECT_PYTHON")
    if named is None and importlib.util.find_spec("inspect_ai") is None:
        pytest.skip("inspect-ai is not installed; set MOSAICO_INSPECT_PYTHON")
    return named or sys.executable


@pytest.mark.parametrize("log_format", ["eval", "json"])
def test_inspect_importer__reads_what_the_tool_writes_now(tmp_path: Path, log_format: str) -> None:
    words = [interpreter(), "-c", PROGRAM, str(tmp_path / "logs"), log_format]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    process = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    log = json.loads(process.stdout.splitlines()[-1])
    imported = import_path(Path(log["location"]))
    assert imported.format == "inspect"
    assert len(imported.traces) == len(log["samples"]) == 6
    for sample in log["samples"]:
        trace = imported.of(sample["item"], sample["trial"])
        assert (trace.input, trace.expected_output) == (sample["input"], sample["expected"])
        assert trace.output == sample["output"]
        failed = trace.outcome is TraceOutcome.AGENT_ERROR
        assert failed == sample["error"]
        if not failed:
            assert trace.scores["TASK_PASSED"] == sample["passed"]
            assert [trace.input_tokens] == sample["tokens"]


PROMPTFOO_CONFIG = {
    "prompts": ["{{a}}", "It is {{a}}"],
    "providers": ["echo"],
    "tests": [
        {"vars": {"a": "Rome"}, "assert": [{"type": "equals", "value": "Rome"}]},
        {"vars": {"a": "2"}, "assert": [{"type": "contains", "value": "2"}]},
    ],
}


@pytest.mark.parametrize("suffix", ["json", "jsonl"])
def test_promptfoo_importer__reads_what_the_tool_writes_now(tmp_path: Path, suffix: str) -> None:
    program = os.environ.get("MOSAICO_PROMPTFOO") or shutil.which("promptfoo")
    if program is None:
        pytest.skip("promptfoo is not installed; set MOSAICO_PROMPTFOO")
    (tmp_path / "config.json").write_text(json.dumps(PROMPTFOO_CONFIG))
    switches = ("TELEMETRY", "UPDATE", "REMOTE_GENERATION")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        **{f"PROMPTFOO_DISABLE_{name}": "1" for name in switches},
    }
    results = tmp_path / f"results.{suffix}"
    words = [program, "eval", "-c", "config.json", "--no-cache", "-o", str(results)]
    # Its exit code is 100, because one assertion fails.
    subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, check=False)
    imported = import_path(results)
    assert imported.format == "promptfoo"
    passed = {trace.output: trace.scores["TASK_PASSED"] for trace in imported.traces}
    assert passed == {"Rome": 1.0, "It is Rome": 0.0, "2": 1.0, "It is 2": 1.0}
