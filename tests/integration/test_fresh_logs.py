"""Logs that installed evaluation tools write now.

The tools are no dependencies, because they bring hundreds of megabytes along.
MOSAICO_INSPECT_PYTHON names an interpreter with inspect-ai (`python -m venv X && X/bin/pip install
inspect-ai`); so do MOSAICO_LM_EVAL_PYTHON (lm-eval), MOSAICO_DEEPEVAL_PYTHON (deepeval) and
MOSAICO_RAGAS_PYTHON (ragas). MOSAICO_PROMPTFOO names the program promptfoo (`npm install promptfoo`).
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mosaico.traces.types import ToolCall, TraceOutcome
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


def run_program(name: str, module: str, program: str, folder: Path, *words: str) -> str:
    """Run a program in an interpreter that has a module; returns what it prints.

    The test is skipped where neither the variable names an interpreter nor this one has the module.
    """
    variable = f"MOSAICO_{name}_PYTHON"
    named = os.environ.get(variable)
    if named is None and importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed; set {variable}")
    # No settings of the user, no telemetry, no download.
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "DEEPEVAL_TELEMETRY_OPT_OUT": "YES",
        "DEEPEVAL_RESULTS_FOLDER": str(folder / "results"),
        "RAGAS_DO_NOT_TRACK": "true",
        "HF_HUB_OFFLINE": "1",
    }
    finished = subprocess.run(
        [named or sys.executable, "-c", program, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.mark.parametrize("log_format", ["eval", "json"])
def test_inspect_importer__reads_what_the_tool_writes_now(tmp_path: Path, log_format: str) -> None:
    words = (str(tmp_path / "logs"), log_format)
    printed = run_program("INSPECT", "inspect_ai", PROGRAM, tmp_path, *words)
    log = json.loads(printed.splitlines()[-1])
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


DEEPEVAL_PROGRAM = """\
from deepeval import evaluate
from deepeval.evaluate.configs import AsyncConfig, DisplayConfig, ErrorConfig
from deepeval.metrics import BaseConversationalMetric, BaseMetric
from deepeval.test_case import ConversationalTestCase, LLMTestCase, ToolCall, Turn


def measured(base, grade):
    class Graded(base):
        __name__ = "Graded"
        threshold, async_mode = 0.5, False

        def measure(self, case, *args, **kwargs):
            self.score, self.reason = grade(case), "graded"
            self.success = self.score >= self.threshold
            return self.score

        def is_successful(self):
            return self.success

    return Graded()


def grade(case):
    if case.expected_output == "unscored":
        raise RuntimeError("the metric broke")
    return float(case.actual_output == case.expected_output)


def case(name, answer, expected="4"):
    call = ToolCall(name="calc", input_parameters={"a": 1})
    return LLMTestCase(
        name=name, input=f"question {name}", actual_output=answer, expected_output=expected,
        tools_called=[call], completion_time=0.5, token_cost=0.25, retrieval_context=["c"],
    )


turns = [("user", "Hi"), ("assistant", "Hello"), ("user", "A bike?"), ("assistant", "Yes")]
talk = ConversationalTestCase(
    name="talk", scenario="a bike", turns=[Turn(role=role, content=text) for role, text in turns]
)
single = [case("right", "4"), case("wrong", "5"), case("silent", ""), case("broken", "1", "unscored")]
for cases, metric in (
    (single, measured(BaseMetric, grade)),
    ([talk], measured(BaseConversationalMetric, lambda _: 0.75)),
):
    evaluate(
        test_cases=cases,
        metrics=[metric],
        hyperparameters={"model": "small"},
        async_config=AsyncConfig(run_async=False),
        display_config=DisplayConfig(print_results=False, show_indicator=False),
        error_config=ErrorConfig(ignore_errors=True),
    )
"""


def test_deepeval_importer__reads_what_the_tool_writes_now(tmp_path: Path) -> None:
    run_program("DEEPEVAL", "deepeval", DEEPEVAL_PROGRAM, tmp_path)
    runs = [import_path(path) for path in (tmp_path / "results").glob("*.json")]
    assert [run.format for run in runs] == ["deepeval"] * 2
    [talk] = [trace for run in runs for trace in run.traces if trace.item_id == "talk"]
    assert (talk.input, talk.output) == ("Hi", "Yes")
    assert talk.scores == {"Graded": 0.75, "TASK_PASSED": 1.0}
    [single] = [run for run in runs if len(run.traces) == 4]
    graded = {trace.item_id: (trace.output, trace.scores) for trace in single.traces}
    assert graded == {
        "right": ("4", {"Graded": 1.0, "TASK_PASSED": 1.0}),
        "wrong": ("5", {"Graded": 0.0, "TASK_PASSED": 0.0}),
        "silent": ("", {"Graded": 0.0, "TASK_PASSED": 0.0}),
        # The metric failed, not the agent.
        "broken": ("1", {}),
    }
    right = single.of("right")
    assert (right.cost_usd, right.latency_ms, right.expected_output) == (0.25, 500.0, "4")
    assert right.tool_calls == (ToolCall(name="calc", arguments={"a": 1}),)
    assert right.tags == ("model:small",)
    assert any("that are not used" in note and "retrievalContext" in note for note in single.notes)


LM_EVAL_PROGRAM = """\
import json
import sys
from pathlib import Path

from lm_eval.__main__ import cli_evaluate

rows = [{"question": f"{n} + {n}?", "answer": str(2 * n)} for n in (1, 2, 3)]
Path("demo.jsonl").write_text("".join(json.dumps(row) + "\\n" for row in rows))
task = {
    "dataset_path": "json",
    "dataset_kwargs": {"data_files": {"test": "demo.jsonl"}},
    "test_split": "test",
    "doc_to_text": "Q: {{question}}",
}
generated = {
    "task": "demo_text",
    "output_type": "generate_until",
    "doc_to_target": "{{answer}}",
    "generation_kwargs": {"until": ["."], "do_sample": True, "temperature": 0.5},
    "repeats": 2,
    "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
}
chosen = {
    "task": "demo_choice",
    "output_type": "multiple_choice",
    "doc_to_choice": ["2", "4", "6"],
    "doc_to_target": "{{['2', '4', '6'].index(answer)}}",
    "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
}
for own in (generated, chosen):
    Path(own["task"] + ".yaml").write_text(json.dumps({**task, **own}))
sys.argv = [
    "lm_eval", "run", "--model", "dummy", "--tasks", "demo_text,demo_choice",
    "--include_path", ".", "--log_samples", "--output_path", "results",
]
cli_evaluate()
"""


def test_lm_eval_importer__reads_what_the_tool_writes_now(tmp_path: Path) -> None:
    run_program("LM_EVAL", "lm_eval", LM_EVAL_PROGRAM, tmp_path)
    [results] = (tmp_path / "results").rglob("results_*.json")
    means = json.loads(results.read_text())["results"]
    for task, metric in (("demo_text", "exact_match"), ("demo_choice", "acc")):
        [path] = (tmp_path / "results").rglob(f"samples_{task}_*.jsonl")
        samples = import_path(path)
        assert (samples.format, len(samples.traces)) == ("lm-eval", 3)
        expected = [(trace.item_id, trace.expected_output) for trace in samples.traces]
        assert expected == [("0", "2"), ("1", "4"), ("2", "6")]
        for trace in samples.traces:
            assert trace.input == f"Q: {int(trace.item_id) + 1} + {int(trace.item_id) + 1}?"
            # The score of the tool is that of the output and the expected output.
            assert trace.scores[metric] == float(trace.output == trace.expected_output)
        mean = sum(trace.scores[metric] for trace in samples.traces) / 3
        assert mean == pytest.approx(means[task][f"{metric},none"])
        assert ("kept 1 of 2 repeats" in " ".join(samples.notes)) == (task == "demo_text")


RAGAS_PROGRAM = """\
from dataclasses import dataclass, field

from ragas import EvaluationDataset, evaluate
from ragas.metrics import ExactMatch
from ragas.metrics.base import MetricType, SingleTurnMetric


@dataclass
class Length(SingleTurnMetric):
    name: str = "length"
    _required_columns: dict = field(
        default_factory=lambda: {MetricType.SINGLE_TURN: {"response"}}
    )

    def init(self, run_config):
        pass

    async def _single_turn_ascore(self, sample, callbacks):
        if not sample.response:
            raise ValueError("nothing to measure")
        return float(len(sample.response))


rows = [
    {"user_input": f"question {n}", "response": text, "reference": "4", "retrieved_contexts": ["c"]}
    for n, text in enumerate(["4", "50", ""])
]
dataset = EvaluationDataset.from_list(rows)
metrics = [ExactMatch(), Length()]
result = evaluate(dataset, metrics=metrics, raise_exceptions=False, show_progress=False)
table = result.to_pandas()
table.to_csv("table.csv", index=False)
table.to_json("table.jsonl", orient="records", lines=True)
table.to_json("table.json", orient="records")
"""


def test_ragas_importer__reads_what_the_tool_writes_now(tmp_path: Path) -> None:
    run_program("RAGAS", "ragas", RAGAS_PROGRAM, tmp_path)
    for suffix in ("csv", "jsonl", "json"):
        table = import_path(tmp_path / f"table.{suffix}")
        assert table.format == "ragas"
        answers = {trace.item_id: (trace.output, trace.scores) for trace in table.traces}
        assert answers == {
            "question 0": ("4", {"exact_match": 1.0, "length": 1.0}),
            "question 1": ("50", {"exact_match": 0.0, "length": 2.0}),
            # An empty answer, and a score that could not be computed.
            "question 2": ("", {"exact_match": 0.0}),
        }
        assert {trace.expected_output for trace in table.traces} == {"4"}
        assert "columns that are not used: retrieved_contexts" in table.notes
