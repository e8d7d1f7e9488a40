"""`mosaico.Client` against a real service: typed answers, waiting, verdicts."""

import pytest

import mosaico
from mosaico import Client, GateOutcome, Invalid, NotFound, Unauthorized, Verdict
from mosaico.core.errors import AppError
from tests.integration.python.conftest import NIGHTLY, answers
from tests.support.service import Service, working


def test_client__answers_are_typed_and_iterated(two_runs: tuple[str, str], client: Client) -> None:
    monday, tuesday = two_runs
    assert [agent.name for agent in client.agents()] == ["Support bot"]
    assert [benchmark.id for benchmark in client.benchmarks()] == ["nightly"]
    assert [run.id for run in client.runs(benchmark="nightly")] == [tuesday, monday]
    run = client.run(tuesday)
    assert (run.status, run.run_name, run.traces_total) == ("COMPLETED", "tuesday", 40)
    # 26 of 40 are right, and 38 on Monday.
    assert [kpi.value for kpi in client.kpis(tuesday)] == [0.65]
    assert {metric.metric: metric.mean for metric in client.metrics(monday)} == {"ACCURACY": 0.95}
    assert sum(result.values["ACCURACY"] == 0.0 for result in client.results(tuesday)) == 14
    assert [kpi.value for kpi in client.kpi_history(benchmark="nightly")] == [0.65, 0.95]
    assert client.get(f"/benchmark-runs/{monday}")["runName"] == "monday"


def test_client__compares_and_gates_runs(two_runs: tuple[str, str], client: Client) -> None:
    comparison = client.compare(*two_runs)
    assert comparison.verdict is Verdict.REGRESSED
    # Two of the 14 were wrong before.
    assert len(comparison.flipped_items) == 12
    assert "REGRESSED" in comparison._repr_html_()
    report = client.gate(two_runs[1], max_drop={"accuracy": 0.05})
    assert (report.outcome, report.exit_code) == (GateOutcome.REGRESSION, 1)
    assert client.gate(two_runs[0], baseline=two_runs[0]).passed


def test_client__waits_until_a_run_has_ended(service: Service, client: Client) -> None:
    client.create_agent({"id": "bot", "name": "Support bot"})
    client.create_benchmark(NIGHTLY)
    client.upload(answers(0), name="support", run_name="monday")
    run = client.start_run("nightly", "bot")
    assert run.status == "PENDING"
    with pytest.raises(TimeoutError, match=r"is PENDING after 0 s"):
        client.wait(run.id, timeout_s=0)
    with working(service):
        assert client.wait(run.id).status == "COMPLETED"


def test_client__reports_the_errors_of_the_service(service: Service, client: Client) -> None:
    with pytest.raises(NotFound, match="no-such-run"):
        client.run("no-such-run")
    with pytest.raises(Invalid) as caught:
        client.create_benchmark({"id": "x", "evaluates": 1})
    assert caught.value.errors
    with Client(str(service.client.base_url), "wrong") as stranger, pytest.raises(Unauthorized):
        list(stranger.agents())


def test_client__without_a_service_says_how_to_start_it() -> None:
    with Client("http://127.0.0.1:1", "key") as client, pytest.raises(AppError) as caught:
        client.run("x")
    assert isinstance(caught.value, mosaico.MosaicoError)
    assert "mosaico serve" in caught.value.extra["hint"]


def test_client__answer_of_another_version_is_explained(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mosaico.core.console.api_calls.parse_json", lambda _: {"id": 1})
    with pytest.raises(mosaico.MosaicoError, match="not a AgentView: "):
        client.create_agent({"id": "bot", "name": "Support bot"})


def test_client__upload_of_traces_keeps_their_fields(client: Client) -> None:
    trace = mosaico.Trace(trace_id="t", item_id="i", output="x", latency_ms=12.5)
    uploaded = client.upload([trace], name="support", run_name="monday")
    assert (uploaded.trace_count, uploaded.run_name) == (1, "monday")
