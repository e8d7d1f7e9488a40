"""Bash evaluations that ask a model server: keys, failures, retries and cancellation."""

import dataclasses
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mosaico.core.encryption import Secret
from mosaico.core.llm_server import LlmServer
from mosaico.core.network_policy import PUBLIC_ONLY
from mosaico.core.resources import Resources
from mosaico.llm.conversation import ChatMessage, MessageRole, StopReason, TextBlock, Usage
from tests.support.bash_eval import HAIKU, recorded_report
from tests.support.bash_runs import (
    METRICS,
    TASKS,
    benchmark,
    figures,
    results,
    with_datasets,
    with_keys,
    write_lines,
)
from tests.support.model_server import (
    ModelServer,
    RawReply,
    ReceivedRequest,
    ScriptedReply,
    model_server,
    recorded_plan,
)
from tests.support.processes import LIVENESS_S, until
from tests.support.service import Service

# The SDKs take seconds to import: one worker imports them for all these tests.
pytestmark = pytest.mark.xdist_group("sdks of models")


@pytest.fixture
def service_resources(service_resources: Resources, dataset_folder: Path) -> Resources:
    return with_datasets(service_resources, dataset_folder)


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
        # The SDK insists on a key: it gets a text that is none.
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
        # The first request is answered; the next two get the last reply, then the first.
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
        # Far more attempts than the two that are made.
        benchmark(service, {**harness, "trials": 50, "concurrency": 1})
        run = service.start_run()
        service_thread = threading.Thread(target=service.work)
        service_thread.start()
        until(lambda: len(server.requests) >= 2)
        service.post(f"/benchmark-runs/{run['id']}/cancel")
        # The second reply is held back: the job ends without it.
        service_thread.join(LIVENESS_S)
        assert not service_thread.is_alive()
        assert len(server.requests) == 2
    assert service.get(f"/benchmark-runs/{run['id']}")["status"] == "CANCELLED"


def test_bash_run__rejecting_provider_fails_run(service: Service) -> None:
    wrong = RawReply(status=401, body=b'{"error": {"message": "wrong key"}}')
    with model_server(lambda _: wrong) as server:
        benchmark(service, {"provider": "openai", "model": "m", "baseUrl": server.openai_url})
        run = service.complete_run()
    assert (run["status"], run["errorCode"]) == ("FAILED", "MODEL_REFUSED")
    assert "wrong key" in run["errorMessage"]
