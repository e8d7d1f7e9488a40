"""Benchmarks whose traces are produced by ot-bench from a YAML file of the operator."""

import dataclasses
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from mosaico.core.resources import Resources
from mosaico.harness.harness_config import McpHarnessSettings, ModelPrice
from mosaico.llm.conversation import (
    ChatMessage,
    MessageRole,
    StopReason,
    TextBlock,
    ToolUseBlock,
    Usage,
)
from mosaico.traces.producers.mcp import mcp_producer
from mosaico.traces.registry import TRACE_SOURCES, CollectionFailed, TracePage, TraceQuery
from tests.support.mcp_servers import FAULTS
from tests.support.model_server import RawReply, ReceivedRequest, ScriptedReply, model_server
from tests.support.service import JSON, Service, pointers

# The SDKs take seconds to import: one worker does it for all.
pytestmark = pytest.mark.xdist_group("sdks of models")

METRICS = ["TASK_PASSED", "TASK_SCORE", "TOOL_CALL_SUCCESS_RATE", "INPUT_TOKENS", "COST_USD"]
ORDER = McpHarnessSettings(trials=2, concurrency=1)
ASKS: list[JSON] = [
    {"name": f"tool:faults:{name}", "server": None, "prompt": name} for name in ("a", "b")
]
DIRECT: JSON = {
    "name": "tool:faults:echo",
    "type": "direct",
    "tool": "echo",
    "arguments": {"text": "a"},
    "tags": ["direct"],
    "evaluate": {"expected": "a"},
}


def bench(*tasks: JSON, url: str = "http://127.0.0.1:1/v1", env: JSON | None = None) -> str:
    """A file: JSON is YAML, too."""
    server = {
        "type": "stdio",
        "command": sys.executable,
        "args": ["-I", "-S", str(FAULTS)],
        "env": env or {},
    }
    of_all = {"server": "faults"}
    return json.dumps(
        {
            "llm": {"base_url": url, "api_key": "key-of-the-file"},
            "defaults": {"model": "m", "direct": of_all, "harness": of_all},
            "servers": {"faults": server},
            "scenarios": [{"name": "all", "share_servers": True, "tasks": list(tasks)}],
        }
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "datasets"
    root.mkdir()
    return root


@pytest.fixture
def service_resources(service_resources: Resources, folder: Path) -> Resources:
    return dataclasses.replace(
        service_resources, options={**service_resources.options, "harness_dir": str(folder)}
    )


def benchmark(service: Service, harness: JSON, **more: Any) -> JSON:
    service.create_agent()
    fields = {"datasetRef": "bench.yaml", "metrics": METRICS, **more}
    return service.create_benchmark(source="harness", harness=harness, **fields)


def results(service: Service, run: JSON) -> dict[str, JSON]:
    return {
        item["traceId"]: item for item in service.list_items(f"/benchmark-runs/{run['id']}/results")
    }


def calls_then_answers(request: ReceivedRequest) -> ScriptedReply:
    """Calls the tool of the server once, and says what it was told."""
    if request.turn == 0:
        use = ToolUseBlock(id="c", name="echo", input={"text": "blue"})
        message, stop = ChatMessage(role=MessageRole.ASSISTANT, content=(use,)), StopReason.TOOL_USE
    else:
        message = ChatMessage(role=MessageRole.ASSISTANT, content=(TextBlock(text="It is blue."),))
        stop = StopReason.END
    usage = Usage(input_tokens=100 * (request.turn + 1), output_tokens=10)
    return ScriptedReply(message=message, stop=stop, usage=usage)


def test_mcp_run__has_metrics_like_any_other_run(service: Service, folder: Path) -> None:
    """The model reads 100 and 200 tokens and writes 10 twice; at 1 and 10 dollars a million that is
    500 millionths. It passes, and so does the direct call; the third task is not met.
    """
    ask = {"name": "tool:faults:ask", "prompt": "Which?", "evaluate": {"expected": "blue"}}
    wrong = {**DIRECT, "name": "tool:faults:wrong", "evaluate": {"expected": ["a", "b"]}}
    with model_server(calls_then_answers) as server:
        (folder / "bench.yaml").write_text(bench(ask, DIRECT, wrong, url=server.openai_url))
        benchmark(
            service,
            {"prices": {"m": {"inputUsd": 1, "outputUsd": 10}}},
            measures=[{"name": "pass rate", "formula": "TASK_PASSED"}],
        )
        run = service.complete_run()
        keys = {
            value
            for request in server.requests
            for name, value in request.headers.items()
            if name.lower() == "authorization"
        }
    assert (run["status"], run["tracesTotal"], run["validity"]) == ("COMPLETED", 3, "VALID"), run
    outcomes = {
        metric["metric"]: metric
        for metric in service.list_items(f"/benchmark-runs/{run['id']}/metrics")
    }
    assert outcomes["TASK_PASSED"]["mean"] == pytest.approx(2 / 3)
    assert outcomes["TASK_SCORE"]["mean"] == pytest.approx((1 + 1 + 1 / 2) / 3)
    assert outcomes["TOOL_CALL_SUCCESS_RATE"]["mean"] == 1
    assert outcomes["INPUT_TOKENS"]["sum"] == 300
    assert outcomes["COST_USD"]["sum"] == pytest.approx(500e-6)
    kpis = {kpi["name"]: kpi["value"] for kpi in service.list_items("/kpi-history")}
    assert kpis == {"pass rate": pytest.approx(2 / 3)}
    assert sorted(results(service, run)) == [
        f"all/tool:faults:{name}#0" for name in ("ask", "echo", "wrong")
    ]
    assert keys == {"Bearer key-of-the-file"}
    path = quote("all/tool:faults:ask#0", safe="")
    steps = service.get(f"/benchmark-runs/{run['id']}/traces/{path}")["transcript"]["steps"]
    speakers = [step.get("role", step.get("tool")) for step in steps]
    assert speakers == ["system", "user", "assistant", "echo", "assistant"]
    assert [step["request"]["inputTokens"] for step in steps if step.get("request")] == [100, 200]


def test_mcp_run__masks_secrets_and_leaves_passed_variables(
    service: Service, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The secret `user` is also a word of every transcript; `1` and `8080` are ordinary texts."""
    (folder.parent / "config").mkdir()
    (folder.parent / "config/bench-secrets.yaml").write_text("NAME: user\n")
    monkeypatch.chdir(folder.parent)
    monkeypatch.setenv("A_PORT", "8080")
    monkeypatch.setenv("A_FLAG", "1")
    text = "user of 1 file on 8080"
    ask = {"name": "tool:faults:ask", "prompt": text, "evaluate": {"expected": "blue"}}
    direct = {**DIRECT, "arguments": {"text": text}, "evaluate": {"expected": text}}
    passed = {"NAME": "${NAME}", "PORT": "${A_PORT}", "FLAG": "${A_FLAG}"}
    with model_server(calls_then_answers) as server:
        (folder / "bench.yaml").write_text(bench(ask, direct, url=server.openai_url, env=passed))
        benchmark(service, {})
        run = service.complete_run()
    assert run["status"] == "COMPLETED", run
    masked = "*** of 1 file on 8080"

    def step_at(position: int, name: str) -> JSON:
        trace_id = quote(f"all/tool:faults:{name}#0", safe="")
        trace = service.get(f"/benchmark-runs/{run['id']}/traces/{trace_id}")
        step: JSON = trace["transcript"]["steps"][position]
        return step

    prompt, call = step_at(1, "ask"), step_at(0, "echo")  # step 0 of a model is its system message
    assert (prompt["role"], prompt["text"]) == ("user", masked)
    assert (call["arguments"], call["output"]) == ({"text": masked}, masked)


def test_mcp_run__regression_fires_alert(service: Service, folder: Path) -> None:
    """Both tasks pass in the first run, one in the second run: 50 % less, more than 10 %."""
    answers = iter(["blue", "blue", "blue", "red"])

    def plan(_: ReceivedRequest) -> ScriptedReply:
        message = ChatMessage(role=MessageRole.ASSISTANT, content=(TextBlock(text=next(answers)),))
        return ScriptedReply(
            message=message, stop=StopReason.END, usage=Usage(input_tokens=100, output_tokens=10)
        )

    asks = [{**ask, "evaluate": {"expected": "blue"}} for ask in ASKS]
    with model_server(plan) as server:
        (folder / "bench.yaml").write_text(bench(*asks, url=server.openai_url))
        measures = [{"id": "k-1", "name": "pass rate", "formula": "TASK_PASSED"}]
        # One after the other: the answers are in the order of the tasks.
        benchmark(service, {"concurrency": 1}, measures=measures)
        rule = {"benchmarkId": "bench-001", "kpi": "pass rate", "condition": "PERCENTAGE_DROP"}
        service.post("/alert-configs", {"name": "fewer pass", "threshold": 10, **rule})
        service.complete_run()
        assert service.list_items("/alerts") == []
        worse = service.complete_run()
    [alert] = service.list_items("/alerts")
    assert (alert["state"], alert["runId"]) == ("FIRING", worse["id"])
    assert (alert["value"], alert["baseline"]) == (0.5, 1.0)
    assert [entry["itemId"] for entry in alert["contributingTraces"]] == ["all/tool:faults:b"]


def test_harness_settings__mismatch_with_file_is_refused(service: Service) -> None:
    wrong: list[tuple[str, JSON | None, str]] = [
        ("bench.yaml", {"provider": "openai", "model": "m"}, "/harness"),
        ("tasks.jsonl", {"model": "m"}, "/harness"),
        ("bench.yaml", None, "/harness"),
        ("bench.yaml", {"servers": {}}, "/harness/servers"),
        ("bench.yaml", {"baseUrl": "http://127.0.0.1/"}, "/harness/baseUrl"),
        ("bench.yaml", {"prices": {"m": {"inputUsd": -1, "outputUsd": 1}}},
         "/harness/prices/m/inputUsd"),
        ("bench.yaml", {"trials": 0}, "/harness/trials"),
    ]  # fmt: skip
    for dataset, harness, pointer in wrong:
        body = {"datasetRef": dataset, "source": "harness", "harness": harness}
        assert pointers(service.expect_problem(422, "POST", "/benchmarks", body)) == [pointer]
    benchmark(service, {})
    service.expect_problem(422, "PATCH", "/benchmarks/bench-001", {"datasetRef": "tasks.jsonl"})
    service.expect_problem(422, "PATCH", "/benchmarks/bench-001", {"datasetRef": "../bench.yaml"})


@pytest.mark.parametrize("name", ["../x.yaml", "/etc/x.yaml", "a/../../x.yaml", "a//x.yaml"])
def test_harness_settings__file_outside_of_the_folder_is_refused(
    service: Service, name: str
) -> None:
    body = {"datasetRef": name, "source": "harness", "harness": {}}
    problem = service.expect_problem(422, "POST", "/benchmarks", body)
    assert pointers(problem) == ["/datasetRef"]
    assert "is not a path in the harness folder" in problem["errors"][0]["detail"]


def test_mcp_run__invalid_file_fails_before_start(
    service: Service, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is a variable of the service itself ever given to a server."""
    monkeypatch.setenv("MOSAICO_MASTER_KEY", "of-the-service")
    benchmark(service, {})
    for text, code, error_message in [
        (bench(DIRECT, env={"X": "${MOSAICO_MASTER_KEY}"}), "BAD_BENCHMARK_FILE", "MASTER_KEY"),
        (bench({**DIRECT, "server": "fault"}), "BAD_BENCHMARK_FILE", "faults"),
        (bench(DIRECT).replace("direct", "drect"), "BAD_BENCHMARK_FILE", "drect"),
    ]:
        (folder / "bench.yaml").write_text(text)
        run = service.complete_run()
        assert (run["status"], run["errorCode"]) == ("FAILED", code)
        assert error_message in run["errorMessage"]
        assert "of-the-service" not in run["errorMessage"]


def test_mcp_run__task_that_cannot_run_is_an_infra_error(service: Service, folder: Path) -> None:
    """The other tasks run; with `strict` the run fails."""
    wrong = {**DIRECT, "name": "tool:faults:wrong", "server": "fault"}
    (folder / "bench.yaml").write_text(bench(DIRECT, wrong))
    benchmark(service, {})
    run = service.complete_run()
    assert (run["status"], run["validity"]) == ("COMPLETED", "INVALID")
    refused = results(service, run)["all/tool:faults:wrong#0"]
    assert refused["outcome"] == "infra_error"
    assert "unknown server 'fault'" in refused["error"]
    service.patch("/benchmarks/bench-001", {"harness": {"strict": True}})
    run = service.complete_run()
    assert (run["status"], run["errorCode"]) == ("FAILED", "BAD_BENCHMARK_FILE")


def test_mcp_run__server_that_does_not_start_is_no_answer_of_the_model(
    service: Service, folder: Path
) -> None:
    wrong = RawReply(status=401, body=b'{"error": {"message": "wrong key"}}')
    with model_server(lambda _: wrong) as server:
        document = json.loads(bench(DIRECT, ASKS[0], url=server.openai_url))
        document["servers"]["faults"]["args"] = ["-c", "raise SystemExit(1)"]
        (folder / "bench.yaml").write_text(json.dumps(document))
        benchmark(service, {})
        run = service.complete_run()
    assert (run["status"], run["errorCode"]) == ("FAILED", "NO_MODEL_ANSWER")
    assert "wrong key" in run["errorMessage"]


def answers(_: ReceivedRequest) -> ScriptedReply:
    message = ChatMessage(role=MessageRole.ASSISTANT, content=(TextBlock(text="Blue."),))
    return ScriptedReply(
        message=message, stop=StopReason.END, usage=Usage(input_tokens=100, output_tokens=10)
    )


def test_mcp_run__usage_before_kill_counts(service_resources: Resources, folder: Path) -> None:
    """a#0 cost 200 of 350 millionths of a dollar; b#0 costs as much, and that is enough."""
    prices = {"m": ModelPrice(input_usd=1, output_usd=10)}
    order = ORDER.model_copy(update={"run_usd": 350e-6, "prices": prices})
    with model_server(answers) as server:
        (folder / "bench.yaml").write_text(bench(*ASKS, url=server.openai_url))
        fingerprint = mcp_producer(service_resources, "bench.yaml", order).fingerprint
        # A cursor: the fingerprint, the finished attempts, and what they have used.
        remaining_pages = list(pages(service_resources, f"{fingerprint}:0:100+10+0.0002", order))
        assert [request.prompt for request in server.requests] == ["b"]
    outputs = [
        (trace.trace_id[-3:], trace.error) for page in remaining_pages for trace in page.traces
    ]
    error_message = "run limit: the run reached its limit of cost"
    assert outputs == [("b#0", None), ("a#1", error_message), ("b#1", error_message)]


def pages(
    resources: Resources, cursor: str | None = None, order: McpHarnessSettings = ORDER
) -> Iterator[TracePage]:
    query = TraceQuery(dataset_ref="bench.yaml", run_name=None, harness=order)
    return TRACE_SOURCES.get("harness").open(resources).pages(query, cursor)


def test_mcp_run__killed_run_repeats_only_unfinished_attempts(
    service_resources: Resources, folder: Path
) -> None:
    """Of first#0, second#0, first#1, second#1 those of the first task are done. The server that the
    others share counts its calls.
    """
    count = {**DIRECT, "tool": "count", "arguments": {}}
    second = {**count, "name": "tool:faults:second"}
    (folder / "bench.yaml").write_text(bench(count, second))
    fingerprint = mcp_producer(service_resources, "bench.yaml", ORDER).fingerprint
    remaining_pages = list(pages(service_resources, f"{fingerprint}:0,2:7+7"))
    outputs = [(trace.trace_id, trace.output) for page in remaining_pages for trace in page.traces]
    assert outputs == [(f"all/tool:faults:second#{n}", f"{n + 1}") for n in (0, 1)]
    assert (remaining_pages[-1].cursor, remaining_pages[-1].total) == (None, 4)
    (folder / "bench.yaml").write_text(bench(DIRECT, second))
    with pytest.raises(CollectionFailed, match="was changed"):
        list(pages(service_resources, f"{fingerprint}:0,2:7+7"))


def test_mcp_run__closed_consumer_ends_run(service_resources: Resources, folder: Path) -> None:
    hang = {**DIRECT, "name": "tool:faults:hang", "tool": "hang", "arguments": {}}
    (folder / "bench.yaml").write_text(bench(DIRECT, hang))
    running = pages(service_resources)
    assert next(page.traces for page in running if page.traces)
    assert any(thread.name.startswith("evaluation") for thread in threading.enumerate())
    # A run that is stopped drops its generator, which must end the thread of the evaluation.
    del running
    assert not any(thread.name.startswith("evaluation") for thread in threading.enumerate())
