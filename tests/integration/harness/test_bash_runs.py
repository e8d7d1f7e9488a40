"""Benchmarks whose traces a bash evaluation produces: through the API, without any model key."""

import dataclasses
import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import text

from app.core.clock import utc_now
from app.core.encryption import Secret
from app.core.http.network_policy import PUBLIC_ONLY
from app.core.llm_server import LlmServer
from app.core.resources import Resources
from app.llm.conversation import ChatMessage, MessageRole, StopReason, TextBlock, Usage
from app.runs.retention import purge_expired_runs
from tests.support.bash_eval import HAIKU, recorded_report
from tests.support.model_server import (
    ModelServer,
    RawReply,
    ReceivedRequest,
    ScriptedReply,
    model_server,
    recorded_plan,
)
from tests.support.processes import LIVENESS_S, until
from tests.support.service import JSON, Service, pointers, run_mosaico
from tests.support.stored import DatabaseReader

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
SCRIPTED_MODEL = {"provider": "scripted", "model": "script.jsonl"}
# The SDKs take seconds to import: one worker imports them for all these tests.
pytestmark = pytest.mark.xdist_group("sdks of models")

METRICS = ["TASK_SCORE", "TASK_PASSED", "NATURAL_STOP", "TOOL_CALL_SUCCESS_RATE", "TURNS"]


def write_lines(path: Path, lines: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def dataset_folder(tmp_path: Path) -> Path:
    """The operator's folder of datasets."""
    root = tmp_path / "datasets"
    write_lines(root / "nightly" / "tasks.jsonl", TASKS)
    write_lines(root / "script.jsonl", SCRIPT)
    return root


@pytest.fixture
def service_resources(service_resources: Resources, dataset_folder: Path) -> Resources:
    return dataclasses.replace(
        service_resources, options={**service_resources.options, "harness_dir": str(dataset_folder)}
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


def test_bash_run__has_metrics_like_any_other_run(service: Service) -> None:
    """Task good: 2 of 2 points, 4 calls of which 1 failed. Task half: 1 of 4 points, 1 call."""
    benchmark(
        service,
        SCRIPTED_MODEL,
        measures=[
            {"name": "pass rate", "formula": "TASK_PASSED"},
            {
                "name": "overall rate",
                "formula": 'SCORE["TASK_POINTS"].sum / SCORE["TASK_POINTS_MAX"].sum',
            },
        ],
    )
    run = service.complete_run()
    assert (run["status"], run["tracesTotal"], run["validity"]) == ("COMPLETED", 2, "VALID"), run
    run_figures = figures(service, run)
    assert run_figures["TASK_SCORE"]["mean"] == (1 + 1 / 4) / 2
    assert run_figures["TASK_PASSED"]["mean"] == 1 / 2
    assert run_figures["NATURAL_STOP"]["mean"] == 1
    assert run_figures["TOOL_CALL_SUCCESS_RATE"]["mean"] == 4 / 5
    assert run_figures["TURNS"]["sum"] == 3 + 2
    kpis = {kpi["name"]: kpi["value"] for kpi in service.list_items("/kpi-history")}
    assert kpis == {"pass rate": 1 / 2, "overall rate": (2 + 1) / (2 + 4)}
    half = results(service, run)["half#0"]
    assert half["itemId"] == "half"
    assert half["values"]["TASK_SCORE"] == 1 / 4


def trace(service: Service, run: JSON, trace_id: str) -> JSON:
    return service.get(f"/benchmark-runs/{run['id']}/traces/{quote(trace_id, safe='')}")


def test_bash_run__trace_shows_what_the_model_did(service: Service) -> None:
    benchmark(service, SCRIPTED_MODEL)
    run = service.complete_run()
    good = trace(service, run, "good#0")
    assert good["values"]["TASK_PASSED"] == 1
    assert (good["turns"], len(good["toolCalls"]), good["output"]) == (3, 4, "Written.")
    steps = good["transcript"]["steps"]
    assert [step.get("role") or step["arguments"]["commands"] for step in steps] == [
        "system", "user", "assistant", "echo a > /a", "assistant", "cat /a", "cat /none", "true", "assistant",
    ]  # fmt: skip
    failed = steps[6]
    assert (failed["exitCode"], failed["isError"], failed["stdout"]) == (1, True, "")
    assert "none" in failed["stderr"]
    missing = service.expect_problem(404, "GET", f"/benchmark-runs/{run['id']}/traces/nope")
    assert missing["type"].endswith("trace-not-found")


def test_trace_commands__print_what_the_model_did(service: Service) -> None:
    benchmark(service, SCRIPTED_MODEL)
    run = service.complete_run()
    listed = run_mosaico(service, "runs", "traces", run["id"], "--format", "json")
    assert listed.exit_code == 0, listed.output
    assert {item["traceId"] for item in json.loads(listed.stdout)["items"]} == {"good#0", "half#0"}
    assert "TASK_SCORE 0.25" in run_mosaico(service, "runs", "traces", run["id"]).stdout
    result = run_mosaico(service, "runs", "trace", run["id"], "good#0")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert "    $ cat /none" in lines
    assert any(line.startswith("tool bash, exit code 1, ") for line in lines)
    assert lines[-1] == "    Written."
    document = run_mosaico(service, "runs", "trace", run["id"], "good#0", "--format", "json")
    assert json.loads(document.stdout) == trace(service, run, "good#0")
    missing = run_mosaico(service, "runs", "trace", run["id"], "nope")
    assert missing.exit_code != 0
    assert "nope" in missing.stderr


def test_view_command__writes_a_page_of_one_run_or_of_two(service: Service, tmp_path: Path) -> None:
    benchmark(service, SCRIPTED_MODEL)
    run, other = service.complete_run()["id"], service.complete_run()["id"]
    page = tmp_path / "page.html"
    single = run_mosaico(service, "runs", "view", run, "--file", page)
    assert single.exit_code == 0, single.output
    html = page.read_text()
    assert html.count('<details class="attempt') == 2
    assert "$ cat /none" in html
    assert '<div class="pair">' not in html
    assert run_mosaico(service, "runs", "view", run, other, "--file", page).exit_code == 0
    assert page.read_text().count('<div class="pair">') == 2


def test_view_command__page_says_that_traces_are_missing(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.reporting.trace_page.MAX_TRACES", 1)
    benchmark(service, SCRIPTED_MODEL)
    page = tmp_path / "page.html"
    written = run_mosaico(service, "runs", "view", service.complete_run()["id"], "--file", page)
    assert written.exit_code == 0, written.output
    assert "only the first 1 traces are shown" in page.read_text()
    assert page.read_text().count('<details class="attempt') == 1


def test_bash_run__secrets_of_the_service_are_masked_in_traces(
    service: Service, dataset_folder: Path
) -> None:
    turns = {"id": "half", "turns": [["echo key-of-o"]], "answer": "It is key-of-o."}
    write_lines(dataset_folder / "script.jsonl", [SCRIPT[0], turns])
    benchmark(service, SCRIPTED_MODEL)
    keyed = with_keys(service)
    run = keyed.complete_run()
    half = trace(keyed, run, "half#0")
    assert half["output"] == "It is ***."
    assert half["transcript"]["steps"][3]["stdout"].strip() == "***"
    assert "key-of-o" not in json.dumps(half)


def test_bash_run__purge_removes_transcripts(service: Service) -> None:
    rows = DatabaseReader(service.resources.db.url)
    benchmark(service, SCRIPTED_MODEL)
    run = service.complete_run()
    count = "SELECT count(*) FROM trace_transcripts"
    assert rows.value(count) == 2
    service.delete(f"/benchmark-runs/{run['id']}")
    service.work()
    assert rows.value(count) == 0


def test_bash_run__transcripts_are_deleted_after_keep_days(service: Service) -> None:
    rows = DatabaseReader(service.resources.db.url)
    benchmark(service, SCRIPTED_MODEL, keepDays=7)
    service.complete_run()
    for days, purged_runs in ((6, 0), (8, 1)):
        with service.resources.db.begin() as session:
            assert purge_expired_runs(session, utc_now() + timedelta(days=days)) == purged_runs
    with service.resources.db.begin() as session:
        # The deletion is a job of the next day, because a purge can be undone until then.
        session.execute(text("UPDATE procrastinate_jobs SET scheduled_at = now()"))
    assert rows.value("SELECT count(*) FROM trace_transcripts") == 2
    service.work()
    assert rows.value("SELECT count(*) FROM trace_transcripts") == 0


def test_bash_run__runs_all_trials(service: Service) -> None:
    benchmark(service, {**SCRIPTED_MODEL, "trials": 3, "categories": ["files"], "concurrency": 2})
    run = service.complete_run()
    assert sorted(results(service, run)) == ["good#0", "good#1", "good#2"]


def test_harness_settings__invalid_field_is_refused(service: Service) -> None:
    wrong: list[tuple[JSON | None, str]] = [
        ({"provider": "clever", "model": "m"}, "/harness/provider"),
        ({"provider": "openai"}, "/harness/model"),
        ({**SCRIPTED_MODEL, "apiKey": "sk-1"}, "/harness/apiKey"),
        ({**SCRIPTED_MODEL, "trials": 0}, "/harness/trials"),
        ({**SCRIPTED_MODEL, "runUsd": 5}, "/harness"),
        ({**SCRIPTED_MODEL, "runUsd": 5, "price": PRICE, "judgeModel": "another"}, "/harness"),
        ({**SCRIPTED_MODEL, "baseUrl": "file:///etc/passwd"}, "/harness/baseUrl"),
        ({**SCRIPTED_MODEL, "baseUrl": "http://169.254.169.254/v1"}, "/harness/baseUrl"),
        ({**SCRIPTED_MODEL, "baseUrl": "http://metadata.google.internal/v1"}, "/harness/baseUrl"),
        (None, "/harness"),
    ]
    for harness, pointer in wrong:
        body = {"datasetRef": "nightly/tasks.jsonl", "source": "harness", "harness": harness}
        assert pointers(service.expect_problem(422, "POST", "/benchmarks", body)) == [pointer]


def test_harness_settings__only_source_harness_takes_them(service: Service) -> None:
    body = {"datasetRef": "d", "harness": SCRIPTED_MODEL}
    assert pointers(service.expect_problem(422, "POST", "/benchmarks", body)) == ["/harness"]
    benchmark(service, SCRIPTED_MODEL)
    service.expect_problem(422, "PATCH", "/benchmarks/bench-001", {"harness": None})
    service.expect_problem(422, "PATCH", "/benchmarks/bench-001", {"source": "local"})
    changed = service.patch("/benchmarks/bench-001", {"source": "local", "harness": None})
    assert changed["harness"] is None


def test_bash_run__invalid_dataset_fails_with_lines(service: Service, dataset_folder: Path) -> None:
    broken = {"id": "x", "category": "c", "prompt": "p", "expectations": [{"check": "no_such:1"}]}
    write_lines(dataset_folder / "broken.jsonl", [TASKS[0], broken])
    benchmark(service, SCRIPTED_MODEL, datasetRef="broken.jsonl")
    run = service.complete_run()
    assert run["errorCode"] == "INVALID_DATASET"
    assert "line 2" in run["errorMessage"]


def with_keys(service: Service, **more: Any) -> Service:
    """The same service with model keys of the operator."""
    keys = {"ANTHROPIC_API_KEY": Secret("key-of-a"), "OPENAI_API_KEY": Secret("key-of-o")}
    return dataclasses.replace(
        service, resources=dataclasses.replace(service.resources, model_keys=keys, **more)
    )


def authorizations(server: ModelServer) -> set[str]:
    return {
        value
        for request in server.requests
        for name, value in request.headers.items()
        if name.lower() == "authorization"
    }


def reply_done(_: ReceivedRequest) -> ScriptedReply:
    message = ChatMessage(role=MessageRole.ASSISTANT, content=(TextBlock(text="Done."),))
    return ScriptedReply(
        message=message, stop=StopReason.END, usage=Usage(input_tokens=100, output_tokens=10)
    )


def test_bash_run__operator_keys_are_not_sent_to_base_url(service: Service) -> None:
    with model_server(reply_done) as server:
        harness = {"provider": "openai", "model": "m", "baseUrl": server.openai_url}
        benchmark(service, harness, metrics=["INPUT_TOKENS"])
        keyed = with_keys(service)
        assert keyed.complete_run()["status"] == "COMPLETED"
        assert authorizations(server) == {"Bearer none"}
        own = LlmServer(base_url=server.openai_url, api_key=Secret("key-of-mine"))
        server.requests.clear()
        assert with_keys(service, llm_server=own).complete_run()["status"] == "COMPLETED"
        assert authorizations(server) == {"Bearer key-of-mine"}


@pytest.mark.parametrize("provider", ["openai", "openai-responses", "anthropic"])
def test_model_client__variables_of_the_environment_are_not_sent_to_base_url(
    service: Service, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.setenv(name, "secret-of-the-environment")
    custom = ("X-Gateway", "authorization", "X-Api-Key")
    headers = "\n".join(f"{name}: secret-of-the-environment" for name in custom)
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", headers)
    with model_server(reply_done) as server:
        base_url = server.url if provider == "anthropic" else server.openai_url
        harness = {"provider": provider, "model": "m", "baseUrl": base_url}
        benchmark(service, harness, metrics=["INPUT_TOKENS"])
        assert service.complete_run()["status"] == "COMPLETED"
        assert server.requests
        assert "secret-of-the-environment" not in str(server.requests)


def test_bash_run__private_server_needs_permission(service: Service) -> None:
    with model_server(reply_done) as server:
        benchmark(service, {"provider": "anthropic", "model": "m", "baseUrl": server.url})
        strict = dataclasses.replace(
            service, resources=dataclasses.replace(service.resources, outbound=PUBLIC_ONLY)
        )
        run = strict.complete_run()
    assert (run["status"], run["errorCode"]) == ("FAILED", "MODEL_REFUSED")
    assert "MOSAICO_OUTBOUND_ALLOW" in run["errorMessage"]
    assert server.requests == []


def test_bash_run__rejecting_provider_fails_run(service: Service) -> None:
    wrong = RawReply(status=401, body=b'{"error": {"message": "wrong key"}}')
    with model_server(lambda _: wrong) as server:
        benchmark(service, {"provider": "openai", "model": "m", "baseUrl": server.openai_url})
        run = service.complete_run()
    assert (run["status"], run["errorCode"]) == ("FAILED", "MODEL_REFUSED")
    assert "wrong key" in run["errorMessage"]


def test_bash_run__unanswered_attempt_is_infra_error(service: Service) -> None:
    """The server fails one task: its score is missing and its cost is unknown."""

    def plan(request: ReceivedRequest) -> ScriptedReply | RawReply:
        too_long = RawReply(status=400, body=b'{"error": {"message": "too long"}}')
        return too_long if request.prompt == TASKS[0]["prompt"] else reply_done(request)

    price = {"inputUsd": 1, "outputUsd": 10}
    with model_server(plan) as server:
        harness = {"provider": "openai", "model": "m", "baseUrl": server.openai_url}
        benchmark(service, {**harness, "price": price}, metrics=["TASK_SCORE", "COST_USD"])
        run = service.complete_run()
    assert (run["status"], run["validity"]) == ("COMPLETED", "INVALID")
    run_figures = figures(service, run)
    assert (run_figures["TASK_SCORE"]["n"], run_figures["TASK_SCORE"]["missing"]) == (
        1,
        {"INFRA_ERROR": 1},
    )
    assert run_figures["COST_USD"]["mean"] == pytest.approx((100 * 1 + 10 * 10) / 1e6)
    assert results(service, run)["good#0"]["outcome"] == "infra_error"


def test_retry__keeps_scored_attempts_and_usage(service: Service) -> None:
    """Each attempt takes 110 tokens; the run may take 300.

    First run: good#0 is scored, the server refuses half#0 and rejects the key of good#1. The retry
    repeats half#0 (220 tokens in total) and good#1 (330); half#1 exceeds the limit.
    """
    answers: list[ScriptedReply | RawReply] = [
        RawReply(status=401, body=b"{}"),
        RawReply(status=400, body=b"{}"),
    ]

    def plan(request: ReceivedRequest) -> ScriptedReply | RawReply:
        return answers.pop() if len(server.requests) > 1 and answers else reply_done(request)

    with model_server(plan) as server:
        harness = {"provider": "openai", "model": "m", "baseUrl": server.openai_url}
        limits = {"trials": 2, "concurrency": 1, "runTokens": 300}
        benchmark(service, {**harness, **limits}, metrics=["TASK_SCORE"])
        failed = service.complete_run()
        assert (failed["errorCode"], len(server.requests)) == ("MODEL_REFUSED", 3)
        again = service.post(f"/benchmark-runs/{failed['id']}/retry")
        service.work()
        repeated_prompts = [request.prompt for request in server.requests[3:]]
    assert repeated_prompts == [TASKS[1]["prompt"], TASKS[0]["prompt"]]
    run = service.get(f"/benchmark-runs/{again['id']}")
    assert (run["status"], run["tracesTotal"], run["validity"]) == ("COMPLETED", 4, "INVALID")
    outcomes = {name: item["outcome"] for name, item in results(service, run).items()}
    assert outcomes.pop("half#1") == "infra_error"
    assert set(outcomes.values()) == {"scored"}
    service.delete(f"/benchmark-runs/{failed['id']}")
    service.work()
    assert len(results(service, run)) == 4


def test_bash_run__recorded_run_has_recorded_figures(
    service: Service, dataset_folder: Path
) -> None:
    before = recorded_report(HAIKU)
    write_lines(
        dataset_folder / "recorded.jsonl",
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
        run = service.complete_run()
    run_figures = figures(service, run)
    assert run["tracesTotal"] == 37
    assert run_figures["TURNS"]["sum"] == 179
    assert run_figures["TOOL_CALLS"]["sum"] == 150
    assert run_figures["INPUT_TOKENS"]["sum"] == 285_917
    assert run_figures["NATURAL_STOP"]["sum"] == 31
    assert run_figures["TASK_PASSED"]["sum"] == 34  # with the current version of the sandbox


@pytest.fixture
def second_reply_allowed() -> Iterator[threading.Event]:
    """The model server replies to the second task once this event is set."""
    event = threading.Event()
    yield event
    event.set()


def test_cancel__sends_no_further_request(
    service: Service, second_reply_allowed: threading.Event
) -> None:
    def plan(request: ReceivedRequest) -> ScriptedReply:
        if request.prompt != TASKS[0]["prompt"]:
            second_reply_allowed.wait(LIVENESS_S)
        return reply_done(request)

    with model_server(plan) as server:
        harness = {"provider": "openai", "model": "m", "baseUrl": server.openai_url}
        benchmark(service, {**harness, "trials": 50, "concurrency": 1})
        run = service.start_run()
        service_thread = threading.Thread(target=service.work)
        service_thread.start()
        until(lambda: len(server.requests) >= 2)
        service.post(f"/benchmark-runs/{run['id']}/cancel")
        service_thread.join(LIVENESS_S)
        assert not service_thread.is_alive()
        assert len(server.requests) == 2
    assert service.get(f"/benchmark-runs/{run['id']}")["status"] == "CANCELLED"
