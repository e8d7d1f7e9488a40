"""Benchmark runs over production traces of Langfuse, through the REST API."""

import re
from datetime import timedelta
from typing import Any

import pytest

from mosaico.core.clock import utc_now
from tests.integration.langfuse.test_windows import fill
from tests.support.langfuse import FakeLangfuse
from tests.support.langfuse.records import DEFAULT_TIME
from tests.support.service import JSON, Service, pointers, run_mosaico

DAY = timedelta(days=1)
SCORE = {"key": "SCORE", "options": {"name": "Tone"}}


def window_json(day: int = 0) -> JSON:
    """The day of the default time, or one after it."""
    start = DEFAULT_TIME + day * DAY
    return {"from": start.isoformat(), "to": (start + DAY).isoformat()}


def set_up(service: Service, langfuse: FakeLangfuse, **production: Any) -> None:
    service.create_agent(
        langfuseUrl=langfuse.url,
        langfusePublicKey=langfuse.public_key,
        langfuseSecretKey=langfuse.secret_key,
    )
    service.create_benchmark(
        source="langfuse",
        datasetRef=None,
        metrics=[SCORE, "LATENCY"],
        # The name does not say which tone is better.
        measures=[
            {"name": "tone", "formula": 'SCORE["Tone"]', "direction": "HIGHER_IS_BETTER"},
        ],
        production={"window": window_json(), **production},
    )


def add_day(langfuse: FakeLangfuse, day: int, count: int, tone: float, **fields: Any) -> None:
    for number in range(count):
        langfuse.production_trace(
            1000 * day + number,
            started=DEFAULT_TIME + day * DAY + timedelta(seconds=number),
            scores={"Tone": tone + number % 5 / 100},
            **fields,
        )


def metric(service: Service, run: JSON, name: str = 'SCORE["Tone"]') -> JSON:
    metrics = service.get(f"/benchmark-runs/{run['id']}/metrics")["items"]
    [match] = [row for row in metrics if row["metric"] == name]
    return {**match}


def test_window_run__days_are_compared_as_two_samples(
    service: Service, langfuse: FakeLangfuse
) -> None:
    add_day(langfuse, 0, 60, tone=0.9)
    add_day(langfuse, 1, 60, tone=0.5)
    set_up(service, langfuse)
    first = service.complete_run()
    second = service.complete_run(traceWindow=window_json(1))
    assert (first["status"], first["validity"], first["tracesTotal"]) == ("COMPLETED", "VALID", 60)
    # The tones are 0.90 to 0.94, each as often as the others.
    assert (metric(service, first)["n"], metric(service, first)["mean"]) == (
        60,
        pytest.approx(0.92),
    )
    assert second["traceWindow"]["from"] == "2026-11-21T02:00:00Z"
    [tone] = service.get(f"/benchmark-runs/{second['id']}/kpis")["items"]
    assert tone["verdict"]["verdict"] == "REGRESSED"
    comparison = service.get(
        "/benchmark-runs/compare", baseline=first["id"], candidate=second["id"]
    )
    assert "two independent groups" in comparison["verdict"]["explanation"]


def test_window_run__item_key_pairs_the_days(service: Service, langfuse: FakeLangfuse) -> None:
    for day, tone in enumerate((0.9, 0.5)):
        for number in range(30):
            langfuse.production_trace(
                1000 * day + number,
                started=DEFAULT_TIME + day * DAY + timedelta(seconds=number),
                session_id=f"s-{number}",
                scores={"Tone": tone + number / 1000},
            )
    set_up(service, langfuse, itemKey="session")
    service.complete_run()
    second = service.complete_run(traceWindow=window_json(1))
    verdict = second["verdict"]
    assert verdict["verdict"] == "REGRESSED"
    assert (verdict["items"]["compared"], verdict["items"]["areSamples"]) == (30, False)


def test_window_run__since_ends_before_the_run(service: Service, langfuse: FakeLangfuse) -> None:
    now = utc_now()
    for number, age in enumerate((timedelta(minutes=5), timedelta(hours=2), timedelta(hours=30))):
        langfuse.production_trace(number, started=now - age, scores={"Tone": 1.0})
    set_up(service, langfuse, window=None, since="24h")
    run = service.complete_run()
    # Younger than the lag of 15 minutes, and older than the window.
    traces = service.list_items(f"/benchmark-runs/{run['id']}/results")
    assert [trace["input"] for trace in traces] == ["question 1"]


def test_window_run__window_without_traces_fails(service: Service, langfuse: FakeLangfuse) -> None:
    set_up(service, langfuse)
    run = service.complete_run()
    assert (run["status"], run["errorCode"]) == ("FAILED", "NO_TRACES")


@pytest.mark.parametrize("reads", [True, False], ids=["score metric", "no score metric"])
def test_window_run__scores_are_read_only_for_metrics_that_use_them(
    service: Service, langfuse: FakeLangfuse, *, reads: bool
) -> None:
    fill(langfuse, 10, scores={"Tone": 0.5})
    set_up(service, langfuse)
    if not reads:
        service.patch("/benchmarks/bench-001", {"metrics": ["LATENCY"], "measures": []})
    assert service.complete_run()["validity"] == "VALID"
    assert len(langfuse.requests_for("/v3/scores")) == int(reads)


ESTIMATED = {"benchmarkId": "bench-001", "agentId": "agent-001"}
SCORES = {"Tone": 0.5, "Depth": 0.25, "Topic": "refund"}


# Scores are read by trace of a sample and by time of a window: only there the two depend on each other.
@pytest.mark.parametrize(
    ("production", "metrics", "count"),
    [
        ({}, [SCORE, "LATENCY"], 0),
        ({}, [SCORE, "LATENCY"], 130),
        ({}, ["LATENCY"], 130),
        ({"sampleSize": 110}, [SCORE, "LATENCY"], 130),
        pytest.param({"sampleSize": 110}, ["LATENCY"], 130, marks=pytest.mark.prove),
        pytest.param({"sampleSize": 5000}, [SCORE, "LATENCY"], 130, marks=pytest.mark.prove),
        ({"filters": {"tags": ["beta"]}}, [SCORE, "LATENCY"], 130),
    ],
    ids=[
        *("empty window", "all", "all without scores", "sample", "sample without scores"),
        *("small window", "filter"),
    ],
)
def test_estimate__is_the_number_of_requests_of_the_run(
    service: Service, server: FakeLangfuse, production: JSON, metrics: list[JSON], count: int
) -> None:
    fill(server, count, calls=2, tags=("beta",), scores=SCORES)
    set_up(service, server, **production)
    service.patch("/benchmarks/bench-001", {"metrics": metrics, "measures": []})
    estimate = service.post("/benchmark-runs/estimate", ESTIMATED)
    server.clear_requests()
    run = service.complete_run()
    selected = min(count, production.get("sampleSize", count))
    assert estimate["selected"] == selected == (run["tracesTotal"] or 0)
    assert estimate["totalRequests"] == len(server.requests)
    assert (estimate["traces"], estimate["atMost"]) == (count, False)


def test_estimate__traces_of_different_sizes_are_estimated_by_their_mean(
    service: Service, langfuse_v3: FakeLangfuse
) -> None:
    """The first hundred has 2 spans each, the next fifty 6. The mean is 10/3: pages of 333 and 166."""
    for number in range(150):
        langfuse_v3.production_trace(
            number,
            started=DEFAULT_TIME + timedelta(seconds=number),
            calls=1 if number < 100 else 5,
        )
    set_up(service, langfuse_v3)
    service.patch("/benchmarks/bench-001", {"metrics": ["LATENCY"], "measures": []})
    estimate = service.post("/benchmark-runs/estimate", ESTIMATED)
    langfuse_v3.clear_requests()
    service.complete_run()
    assert estimate["requests"]["spans"] == 4 + 2
    # A list ends with a page that is not full.
    assert len(langfuse_v3.requests_for("/observations")) == 3 + 4
    result = run_mosaico(service, "runs", "estimate", "bench-001", "agent-001")
    assert "if all traces have as many spans and scores" in result.stderr
    [address] = re.findall(r"^page: (\S+)$", result.stderr, re.MULTILINE)
    assert address.endswith("/benchmarks/bench-001/estimate")
    assert service.client.get(address, headers={"Accept": "text/html"}).status_code == 200


def test_estimate__filter_on_scores_gives_an_upper_limit(
    service: Service, langfuse: FakeLangfuse
) -> None:
    fill(langfuse, 150, scores={"Tone": 0.5})
    set_up(service, langfuse, filters={"score": {"name": "Tone", "max": 0.1}})
    assert service.post("/benchmark-runs/estimate", ESTIMATED)["atMost"] is True


def test_benchmark__window_takes_no_scores(service: Service, langfuse: FakeLangfuse) -> None:
    set_up(service, langfuse)
    body = {"writeBack": {"kpis": True}}
    problem = service.expect_problem(422, "PATCH", "/benchmarks/bench-001", body)
    assert pointers(problem) == ["/writeBack"]
