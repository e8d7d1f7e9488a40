"""Exports that installed platforms write now, on this machine alone.

MOSAICO_MLFLOW_PYTHON, MOSAICO_PHOENIX_PYTHON, MOSAICO_LANGSMITH_PYTHON (with pandas), MOSAICO_AZURE_PYTHON and
MOSAICO_DEEPEVAL_PYTHON name interpreters with mlflow, arize-phoenix, langsmith, azure-ai-evaluation and deepeval.
"""

import json
from pathlib import Path

from mosaico.traces.types import TraceOutcome
from tests.integration.test_fresh_logs import run_program
from tests.support.import_files import import_path

CAPITALS = {"Norway": "Oslo", "Italy": "Rome", "Peru": "Lima", "Chad": "N'Djamena"}
MLFLOW_PROGRAM = """\
import json
import sys

import mlflow
from mlflow.entities import Feedback
from mlflow.genai.scorers import scorer

mlflow.set_tracking_uri("sqlite:///mlflow.db")
mlflow.set_experiment("capitals")
capitals = json.loads(sys.argv[1])
answers = {"Norway": "Oslo", "Italy": "Milan", "Peru": "Lima"}


@scorer
def exact_match(outputs, expectations):
    return outputs == expectations["expected_response"]


@scorer
def verdict(outputs, expectations):
    if outputs == "Milan":
        raise RuntimeError("the judge is down")
    return Feedback(value="yes" if outputs else "no", rationale="looked at it")


def predict(country):
    return answers[country]


data = [
    {"inputs": {"country": country}, "expectations": {"expected_response": capital}}
    for country, capital in capitals.items()
]
result = mlflow.genai.evaluate(data=data, scorers=[exact_match, verdict], predict_fn=predict)
for name, table in (("evaluation", result.tables["eval_results"]), ("traces", mlflow.search_traces())):
    table.to_csv(f"{name}.csv", index=False)
    table.to_json(f"{name}.json", orient="records", default_handler=str)
"""


def test_mlflow_importer__reads_what_the_tool_writes_now(tmp_path: Path) -> None:
    run_program("MLFLOW", "mlflow", MLFLOW_PROGRAM, tmp_path, json.dumps(CAPITALS))
    for name in ("evaluation.csv", "evaluation.json", "traces.csv", "traces.json"):
        imported = import_path(tmp_path / name)
        assert (imported.format, len(imported.traces)) == ("mlflow", 4), name
        assert {t.input: t.expected_output for t in imported.traces} == CAPITALS
        right, wrong, failed = (imported.of(country) for country in ("Norway", "Italy", "Chad"))
        assert (right.output, right.scores) == ("Oslo", {"exact_match": 1.0, "verdict": 1.0})
        # The scorer failed, not the agent.
        assert (wrong.output, wrong.scores) == ("Milan", {"exact_match": 0.0})
        assert any("evaluator failed: verdict 1" in note for note in imported.notes)
        assert (failed.outcome, failed.output) == (TraceOutcome.AGENT_ERROR, None)
        assert failed.error == "KeyError: 'Chad'"


PHOENIX_PROGRAM = """\
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

with socket.socket() as one, socket.socket() as other:
    one.bind(("127.0.0.1", 0))
    other.bind(("127.0.0.1", 0))
    port, grpc_port = one.getsockname()[1], other.getsockname()[1]
environment = {
    **os.environ,
    "PHOENIX_WORKING_DIR": os.getcwd(),
    "PHOENIX_HOST": "127.0.0.1",
    "PHOENIX_PORT": str(port),
    "PHOENIX_GRPC_PORT": str(grpc_port),
    "PHOENIX_TELEMETRY_ENABLED": "false",
}
server = subprocess.Popen(
    [sys.executable, "-m", "phoenix.server.main", "serve"], env=environment, stdout=subprocess.DEVNULL
)
try:
    import httpx
    from phoenix.client import Client

    url = f"http://127.0.0.1:{port}"
    # Until the server listens.
    connection = httpx.Client(transport=httpx.HTTPTransport(retries=9))
    connection.get(f"{url}/healthz").raise_for_status()
    client = Client(base_url=url)
    capitals = json.loads(sys.argv[1])
    answers = {"Norway": "Oslo", "Italy": "Milan", "Peru": "Lima"}
    dataset = client.datasets.create_dataset(
        name="capitals",
        inputs=[{"question": country} for country in capitals],
        outputs=[{"answer": capital} for capital in capitals.values()],
    )

    def task(input):
        return {"answer": answers[input["question"]]}

    def correct(output, expected):
        return output["answer"] == expected["answer"]

    def close(output, expected):
        if output["answer"] == "Milan":
            raise RuntimeError("the judge is down")
        return 0.5

    experiment = client.experiments.run_experiment(
        dataset=dataset, task=task, evaluators=[correct, close], repetitions=2, print_summary=False
    )
    for form in ("json", "csv"):
        answer = connection.get(f"{url}/v1/experiments/{experiment['experiment_id']}/{form}")
        Path(f"experiment.{form}").write_bytes(answer.content)
finally:
    server.terminate()
    server.wait()
"""


def test_phoenix_importer__reads_what_the_tool_writes_now(tmp_path: Path) -> None:
    run_program("PHOENIX", "phoenix", PHOENIX_PROGRAM, tmp_path, json.dumps(CAPITALS))
    for form in ("json", "csv"):
        imported = import_path(tmp_path / f"experiment.{form}")
        assert (imported.format, len(imported.traces)) == ("phoenix", 8)
        assert {t.input: t.expected_output for t in imported.traces} == CAPITALS
        by_country = {(t.input, t.trial): t for t in imported.traces}
        assert {trial for _, trial in by_country} == {0, 1}
        right, wrong = by_country["Norway", 1], by_country["Italy", 0]
        assert (right.output, right.scores) == ("Oslo", {"correct": 1.0, "close": 0.5})
        assert (wrong.output, wrong.scores) == ("Milan", {"correct": 0.0})
        failed = by_country["Chad", 0]
        assert (failed.outcome, failed.output) == (TraceOutcome.AGENT_ERROR, None)


CACHE_PROGRAM = """\
from deepeval import evaluate
from deepeval.evaluate.configs import AsyncConfig, CacheConfig, DisplayConfig
from deepeval.metrics import BaseMetric
from deepeval.test_case import LLMTestCase


class Exact(BaseMetric):
    __name__ = "Exact"
    threshold, async_mode, strict_mode, include_reason = 0.5, False, False, True
    evaluation_model = "m"

    def measure(self, case, *args, **kwargs):
        self.score, self.reason = float(case.actual_output == case.expected_output), "compared"
        self.success = self.score >= self.threshold
        return self.score

    def is_successful(self):
        return self.success


evaluate(
    test_cases=[
        LLMTestCase(input="1+1?", actual_output="2", expected_output="2"),
        LLMTestCase(input="2+2?", actual_output="5", expected_output="4"),
    ],
    metrics=[Exact()],
    async_config=AsyncConfig(run_async=False),
    display_config=DisplayConfig(print_results=False, show_indicator=False),
    cache_config=CacheConfig(write_cache=True),
)
"""


def test_deepeval_importers__read_every_file_that_the_tool_leaves(tmp_path: Path) -> None:
    run_program("DEEPEVAL", "deepeval", CACHE_PROGRAM, tmp_path)
    files = {".deepeval-cache.json": "deepeval-cache", ".latest_test_run.json": "deepeval"}
    for name, format_name in files.items():
        imported = import_path(tmp_path / ".deepeval" / name)
        assert imported.format == format_name
        graded = {trace.item_id: (trace.output, dict(trace.scores)) for trace in imported.traces}
        assert graded == {
            "1+1?": ("2", {"Exact": 1.0, "TASK_PASSED": 1.0}),
            "2+2?": ("5", {"Exact": 0.0, "TASK_PASSED": 0.0}),
        }


AZURE_PROGRAM = """\
import json
from pathlib import Path

from azure.ai.evaluation import F1ScoreEvaluator, evaluate

rows = [
    {"id": "k1", "query": "Open?", "response": "At 7", "ground_truth": "At 7"},
    {"id": "k2", "query": "Dogs?", "response": "", "ground_truth": "No"},
]
Path("rows.jsonl").write_text("".join(json.dumps(row) + "\\n" for row in rows))


class Length:
    def __call__(self, *, response):
        if not response:
            raise ValueError("nothing to measure")
        return {"length_score": len(response) / 10, "length_threshold": 0.5}


def target(query):
    return {"answer": query.lower()}


f1 = F1ScoreEvaluator()
evaluate(data="rows.jsonl", evaluators={"f1": f1, "length": Length()}, output_path="answers.json")
columns = {"response": "${target.answer}", "ground_truth": "${data.ground_truth}"}
evaluate(
    data="rows.jsonl",
    target=target,
    evaluators={"f1": f1},
    evaluator_config={"f1": {"column_mapping": columns}},
    output_path="target.json",
)
"""


def test_azure_importer__reads_what_the_tool_writes_now(tmp_path: Path) -> None:
    run_program("AZURE", "azure", AZURE_PROGRAM, tmp_path)
    answers = import_path(tmp_path / "answers.json")
    first, second = answers.of("k1"), answers.of("k2")
    assert (first.input, first.expected_output, first.output) == ("Open?", "At 7", "At 7")
    assert first.scores == {"f1_score": 1.0, "length": 0.4}
    assert (second.output, second.scores) == ("", {"f1_score": 0.0})
    target = import_path(tmp_path / "target.json")
    assert [trace.output for trace in target.traces] == ["open?", "dogs?"]


LANGSMITH_PROGRAM = """\
import json
import sys
import uuid
from datetime import datetime, timezone
from pathlib import Path

from langsmith import Client, evaluate
from langsmith.schemas import Example

capitals = json.loads(sys.argv[1])
answers = {"Norway": "Oslo", "Italy": "Milan", "Peru": "Lima"}
now, dataset = datetime.now(timezone.utc), uuid.uuid4()
examples = [
    Example(
        id=uuid.uuid5(uuid.NAMESPACE_URL, country),
        dataset_id=dataset,
        inputs={"question": country},
        outputs={"answer": capital},
        created_at=now,
        modified_at=now,
    )
    for country, capital in capitals.items()
]


def target(inputs):
    return {"answer": answers[inputs["question"]], "sources": ["atlas"]}


def correct(outputs, reference_outputs):
    return outputs["answer"] == reference_outputs["answer"]


def close(outputs):
    if outputs["answer"] == "Milan":
        raise RuntimeError("the judge is down")
    return 0.5


def as_json(value):
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else str(value)


results = evaluate(
    target,
    data=examples,
    evaluators=[correct, close],
    upload_results=False,
    client=Client(api_url="http://127.0.0.1:9", api_key="none", auto_batch_tracing=False),
    max_concurrency=1,
    num_repetitions=2,
)
table = results.to_pandas()
table.to_csv("table.csv", index=False)
table.to_json("table.json", orient="records", default_handler=str)
lines = (json.dumps(dict(row), default=as_json) + "\\n" for row in results)
Path("rows.jsonl").write_text("".join(lines))
"""


def test_langsmith_importer__reads_what_the_tool_writes_now(tmp_path: Path) -> None:
    run_program("LANGSMITH", "langsmith", LANGSMITH_PROGRAM, tmp_path, json.dumps(CAPITALS))
    for name in ("table.csv", "table.json", "rows.jsonl"):
        imported = import_path(tmp_path / name)
        assert (imported.format, len(imported.traces)) == ("langsmith", 8), name
        assert {t.input: t.expected_output for t in imported.traces} == CAPITALS
        by_country = {(t.input, t.trial): t for t in imported.traces}
        right, wrong = by_country["Norway", 1], by_country["Italy", 0]
        assert (right.output, right.scores) == ("Oslo", {"correct": 1.0, "close": 0.5})
        assert (wrong.output, wrong.scores) == ("Milan", {"correct": 0.0})
        failed = by_country["Chad", 0]
        assert (failed.outcome, failed.output) == (TraceOutcome.AGENT_ERROR, None)
