"""A benchmark whose traces are made by a model at work: through the API, without any key."""

import dataclasses
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.core.encryption import Secret
from app.core.http.network_policy import PUBLIC_ONLY
from app.core.resources import LlmServer, Resources
from app.llm.conversation import ChatMessage, MessageRole, StopReason, TextBlock, Usage
from tests.support.bash_eval import HAIKU, recorded_report
from tests.support.model_server import (
    ModelServer,
    Raw,
    ReceivedRequest,
    ScriptedReply,
    model_server,
    recorded_plan,
)
from tests.support.service import JSON, Service, pointers

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
        "turns": [["echo a > /a"], ["cat /a", "cat /none", "true"]],
        "answer": "Written.",
    },
    {"id": "half", "turns": [["echo x"]]},
]
PRICE = {"inputUsd": 1, "outputUsd": 10}
PLAYED = {"provider": "scripted", "model": "play.jsonl"}
# The SDKs take seconds to import: one worker does it for all.
pytestmark = pytest.mark.xdist_group("sdks of models")

METRICS = ["TASK_SCORE", "TASK_PASSED", "NATURAL_STOP", "TOOL_CALL_SUCCESS_RATE", "TURNS"]


def write_lines(path: Path, lines: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The operator's folder of datasets."""
    root = tmp_path / "datasets"
    write_lines(root / "nightly" / "tasks.jsonl", TASKS)
    write_lines(root / "play.jsonl", SCRIPT)
    return root


@pytest.fixture
def service_resources(service_resources: Resources, folder: Path) -> Resources:
    return dataclasses.replace(
        service_resources, options={**service_resources.options, "harness_dir": str(folder)}
    )


def benchmark(service: Service, harness: JSON, **more: Any) -> JSON:
    service.agent()
    fields = {"datasetRef": "nightly/tasks.jsonl", "metrics": METRICS, **more}
    return service.benchmark(source="harness", harness=harness, **fields)


def figures(service: Service, run: JSON) -> dict[str, JSON]:
    return {
        metric["metric"]: metric
        for metric in service.listed(f"/benchmark-runs/{run['id']}/metrics")
    }


def results(service: Service, run: JSON) -> dict[str, JSON]:
    return {
        item["traceId"]: item for item in service.listed(f"/benchmark-runs/{run['id']}/results")
    }


def test_bash_run__has_metrics_like_any_other_run(service: Service) -> None:
    """good: 2 of 2 points; half: 1 of 4. Of its calls, good made 4 and one failed; half made 1."""
    benchmark(
        service,
        PLAYED,
        measures=[
            {"name": "pass rate", "formula": "TASK_PASSED"},
            {
                "name": "overall rate",
                "formula": 'SCORE["TASK_POINTS"].sum / SCORE["TASK_POINTS_MAX"].sum',
            },
        ],
    )
    run = service.completed()
    assert (run["status"], run["tracesTotal"], run["validity"]) == ("COMPLETED", 2, "VALID"), run
    run_figures = figures(service, run)
    assert run_figures["TASK_SCORE"]["mean"] == (1 + 1 / 4) / 2
    assert run_figures["TASK_PASSED"]["mean"] == 1 / 2
    assert run_figures["NATURAL_STOP"]["mean"] == 1
    assert run_figures["TOOL_CALL_SUCCESS_RATE"]["mean"] == (3 / 4 + 1) / 2
    assert run_figures["TURNS"]["sum"] == 3 + 2
    kpis = {kpi["name"]: kpi["value"] for kpi in service.listed("/kpi-history")}
    assert kpis == {"pass rate": 1 / 2, "overall rate": (2 + 1) / (2 + 4)}
    half = results(service, run)["half#0"]
    assert half["itemId"] == "half"
    assert half["values"]["TASK_SCORE"] == 1 / 4


def test_bash_run__makes_all_trials(service: Service) -> None:
    benchmark(service, {**PLAYED, "trials": 3, "categories": ["files"], "concurrency": 2})
    run = service.completed()
    assert sorted(results(service, run)) == ["good#0", "good#1", "good#2"]


def test_harness_settings__invalid_field_is_refused(service: Service) -> None:
    wrong: list[tuple[JSON | None, str]] = [
        ({"provider": "clever", "model": "m"}, "/harness/provider"),
        ({"provider": "openai"}, "/harness/model"),
        ({**PLAYED, "apiKey": "sk-1"}, "/harness/apiKey"),
        ({**PLAYED, "trials": 0}, "/harness/trials"),
        ({**PLAYED, "runUsd": 5}, "/harness"),
        ({**PLAYED, "runUsd": 5, "price": PRICE, "judgeModel": "another"}, "/harness"),
        ({**PLAYED, "baseUrl": "file:///etc/passwd"}, "/harness/baseUrl"),
        (None, "/harness"),
    ]
    for harness, pointer in wrong:
        body = {"datasetRef": "nightly/tasks.jsonl", "source": "harness", "harness": harness}
        assert pointers(service.refused(422, "POST", "/benchmarks", body)) == [pointer]


def test_harness_settings__only_source_harness_takes_them(service: Service) -> None:
    body = {"datasetRef": "d", "harness": PLAYED}
    assert pointers(service.refused(422, "POST", "/benchmarks", body)) == ["/harness"]
    benchmark(service, PLAYED)
    service.refused(422, "PATCH", "/benchmarks/bench-001", {"harness": None})
    service.refused(422, "PATCH", "/benchmarks/bench-001", {"source": "local"})
    changed = service.patch("/benchmarks/bench-001", {"source": "local", "harness": None})
    assert changed["harness"] is None


def test_bash_run__invalid_dataset_fails_with_lines(service: Service, folder: Path) -> None:
    broken = {"id": "x", "category": "c", "prompt": "p", "expectations": [{"check": "no_such:1"}]}
    write_lines(folder / "broken.jsonl", [TASKS[0], broken])
    benchmark(service, PLAYED, datasetRef="broken.jsonl")
    run = service.completed()
    assert run["errorCode"] == "INVALID_DATASET"
    assert "line 2" in run["errorMessage"]


def with_keys(service: Service, **more: Any) -> Service:
    """The same service with the operator's keys."""
    keys = {"ANTHROPIC_API_KEY": Secret("key-of-a"), "OPENAI_API_KEY": Secret("key-of-o")}
    return dataclasses.replace(
        service, resources=dataclasses.replace(service.resources, model_keys=keys, **more)
    )


def authorizations(server: ModelServer) -> set[str]:
    return {
        value
        for asked in server.requests
        for name, value in asked.headers.items()
        if name.lower() == "authorization"
    }


def done(_: ReceivedRequest) -> ScriptedReply:
    message = ChatMessage(role=MessageRole.ASSISTANT, content=(TextBlock(text="Done."),))
    return ScriptedReply(
        message=message, stop=StopReason.END, usage=Usage(input_tokens=100, output_tokens=10)
    )


def test_bash_run__operator_keys_are_not_sent_to_base_url(service: Service) -> None:
    with model_server(done) as server:
        harness = {"provider": "openai", "model": "m", "baseUrl": server.openai_url}
        benchmark(service, harness, metrics=["INPUT_TOKENS"])
        keyed = with_keys(service)
        assert keyed.completed()["status"] == "COMPLETED"
        assert authorizations(server) == {"Bearer none"}
        own = LlmServer(base_url=server.openai_url, api_key=Secret("key-of-mine"))
        server.requests.clear()
        assert with_keys(service, llm_server=own).completed()["status"] == "COMPLETED"
        assert authorizations(server) == {"Bearer key-of-mine"}


def test_bash_run__private_server_needs_permission(service: Service) -> None:
    with model_server(done) as server:
        benchmark(service, {"provider": "anthropic", "model": "m", "baseUrl": server.url})
        strict = dataclasses.replace(
            service, resources=dataclasses.replace(service.resources, outbound=PUBLIC_ONLY)
        )
        run = strict.completed()
    assert (run["status"], run["errorCode"]) == ("FAILED", "MODEL_REFUSED")
    assert "MOSAICO_OUTBOUND_ALLOW" in run["errorMessage"]
    assert server.requests == []


def test_bash_run__rejecting_provider_fails_run(service: Service) -> None:
    wrong = Raw(status=401, body=b'{"error": {"message": "wrong key"}}')
    with model_server(lambda _: wrong) as server:
        benchmark(service, {"provider": "openai", "model": "m", "baseUrl": server.openai_url})
        run = service.completed()
    assert (run["status"], run["errorCode"]) == ("FAILED", "MODEL_REFUSED")
    assert "wrong key" in run["errorMessage"]


def test_bash_run__unanswered_attempt_is_infra_error(service: Service) -> None:
    """The failure of one task is the server's: it is missing, and its cost is not known."""

    def plan(asked: ReceivedRequest) -> ScriptedReply | Raw:
        too_long = Raw(status=400, body=b'{"error": {"message": "too long"}}')
        return too_long if asked.prompt == TASKS[0]["prompt"] else done(asked)

    price = {"inputUsd": 1, "outputUsd": 10}
    with model_server(plan) as server:
        harness = {"provider": "openai", "model": "m", "baseUrl": server.openai_url}
        benchmark(service, {**harness, "price": price}, metrics=["TASK_SCORE", "COST_USD"])
        run = service.completed()
    assert (run["status"], run["validity"]) == ("COMPLETED", "INVALID")
    run_figures = figures(service, run)
    assert (run_figures["TASK_SCORE"]["n"], run_figures["TASK_SCORE"]["missing"]) == (
        1,
        {"INFRA_ERROR": 1},
    )
    assert run_figures["COST_USD"]["mean"] == pytest.approx((100 * 1 + 10 * 10) / 1e6)
    assert results(service, run)["good#0"]["outcome"] == "infra_error"


def test_retry__keeps_scored_attempts_and_usage(service: Service) -> None:
    """110 tokens an attempt, 300 for the run. First good#0 is scored, half#0 is refused, and good#1
    finds the key wrong. The retry makes half#0 (220 so far) and good#1 (330); half#1 is too much.
    """
    answers: list[ScriptedReply | Raw] = [Raw(status=401, body=b"{}"), Raw(status=400, body=b"{}")]

    def plan(asked: ReceivedRequest) -> ScriptedReply | Raw:
        return answers.pop() if len(server.requests) > 1 and answers else done(asked)

    with model_server(plan) as server:
        harness = {"provider": "openai", "model": "m", "baseUrl": server.openai_url}
        limits = {"trials": 2, "concurrency": 1, "runTokens": 300}
        benchmark(service, {**harness, **limits}, metrics=["TASK_SCORE"])
        failed = service.completed()
        assert (failed["errorCode"], len(server.requests)) == ("MODEL_REFUSED", 3)
        again = service.post(f"/benchmark-runs/{failed['id']}/retry")
        service.work()
        asked = [request.prompt for request in server.requests[3:]]
    assert asked == [TASKS[1]["prompt"], TASKS[0]["prompt"]]
    run = service.get(f"/benchmark-runs/{again['id']}")
    assert (run["status"], run["tracesTotal"], run["validity"]) == ("COMPLETED", 4, "INVALID")
    found = {name: item["outcome"] for name, item in results(service, run).items()}
    assert found.pop("half#1") == "infra_error"
    assert set(found.values()) == {"scored"}
    service.delete(f"/benchmark-runs/{failed['id']}")
    service.work()
    assert len(results(service, run)) == 4


def test_bash_run__recorded_run_has_recorded_figures(service: Service, folder: Path) -> None:
    before = recorded_report(HAIKU)
    write_lines(
        folder / "recorded.jsonl",
        [dataclasses.asdict(attempt_result.task) for attempt_result in before.results],
    )
    traces = {
        attempt_result.task.prompt: attempt_result.trace
        for attempt_result in before.results
        if attempt_result.trace
    }
    with model_server(recorded_plan(traces)) as server:
        benchmark(
            service,
            {"provider": "anthropic", "model": "m", "baseUrl": server.url},
            datasetRef="recorded.jsonl",
            metrics=[*METRICS, "INPUT_TOKENS", "TOOL_CALLS"],
        )
        run = service.completed()
    run_figures = figures(service, run)
    assert run["tracesTotal"] == 37
    assert run_figures["TURNS"]["sum"] == 179
    assert run_figures["TOOL_CALLS"]["sum"] == 150
    assert run_figures["INPUT_TOKENS"]["sum"] == 285_917
    assert run_figures["NATURAL_STOP"]["sum"] == 31
    assert run_figures["TASK_PASSED"]["sum"] == 34  # by the interpreter of today


@pytest.fixture
def held() -> Iterator[threading.Event]:
    """What a model server waits for before it answers about the second task."""
    event = threading.Event()
    yield event
    event.set()


def test_cancel__sends_no_further_request(service: Service, held: threading.Event) -> None:
    def plan(asked: ReceivedRequest) -> ScriptedReply:
        if asked.prompt != TASKS[0]["prompt"]:
            held.wait(60)
        return done(asked)

    with model_server(plan) as server:
        harness = {"provider": "openai", "model": "m", "baseUrl": server.openai_url}
        benchmark(service, {**harness, "trials": 50, "concurrency": 1})
        run = service.start()
        working = threading.Thread(target=service.work)
        working.start()
        while len(server.requests) < 2:
            held.wait(0.01)
        service.post(f"/benchmark-runs/{run['id']}/cancel")
        working.join(60)
        assert not working.is_alive()
        assert len(server.requests) == 2
    assert service.get(f"/benchmark-runs/{run['id']}")["status"] == "CANCELLED"
