"""Benchmark runs with traces from Langfuse, through the REST API."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from tests.support.langfuse import FakeLangfuse, ScorePlan
from tests.support.langfuse.faults import ALWAYS, ModifiedResponse, RateLimited
from tests.support.langfuse.source_benchmarks import agent, benchmark, refused_at
from tests.support.service import JSON, Service
from tests.support.texts import assert_names
from tests.support.waiting import LIVENESS_S, until

ROWS = "/experiment-items"


def value(service: Service, query: str) -> Any:
    with service.resources.db.read() as session:
        return session.scalar(text(query))


def test_run__reads_its_traces_from_langfuse(service: Service, langfuse: FakeLangfuse) -> None:
    langfuse.experiment(items=120, errors={3}, output_of=lambda number: f"answer {number % 60}")
    agent(service, langfuse)
    benchmark(service)
    run = service.complete_run()
    assert (run["status"], run["tracesTotal"], run["validity"]) == ("COMPLETED", 120, "VALID")
    # Answers failed: their share is listed, too.
    accuracy, _ = service.get(f"/benchmark-runs/{run['id']}/metrics")["items"]
    # Items 0 to 59 have the expected answer, except item 3, which failed: 59 of 120.
    assert accuracy["mean"] == pytest.approx(59 / 120)
    assert value(service, "SELECT as_of <= completed_at FROM collections") is True


def test_run__names_the_run_of_the_source_and_recognizes_it(
    service: Service, langfuse: FakeLangfuse
) -> None:
    monday = langfuse.experiment(run="monday", items=5)
    agent(service, langfuse)
    benchmark(service)
    first = service.complete_run()
    langfuse.experiment(run="tuesday", items=5)
    tuesday, again = service.complete_run(), service.complete_run(runName="monday")
    assert (first["sourceRunId"], first["sourceRunAt"]) == (monday.id, "2026-11-20T02:00:00Z")
    assert [run["sameSourceAs"] for run in (first, tuesday, again)] == [None, None, first["id"]]
    rescored = service.post(f"/benchmark-runs/{tuesday['id']}/rescore")
    assert rescored["sourceRunId"] == tuesday["sourceRunId"]


def test_run__cluster_field_that_no_item_has_is_an_error(
    service: Service, langfuse: FakeLangfuse
) -> None:
    langfuse.experiment(items=5)
    agent(service, langfuse)
    service.create_benchmark(source="langfuse", metrics=["ACCURACY"], clusterField="topic")
    assert service.complete_run()["validity"] == "VALID"
    service.patch("/benchmarks/bench-001", {"clusterField": "tpic"})
    run = service.complete_run()
    assert (run["status"], run["errorCode"]) == ("FAILED", "CLUSTER_FIELD_UNKNOWN")
    assert "'tpic'" in run["errorMessage"]


def test_run__labels_of_a_score_count_as_numbers_and_as_categories(
    service: Service, langfuse: FakeLangfuse
) -> None:
    tone = ScorePlan(
        name="Tone",
        value=lambda number: "good" if number < 15 else "bad",
        data_type="CATEGORICAL",
    )
    langfuse.experiment(items=20, scores=[tone])
    agent(service, langfuse)
    metric = {"key": "SCORE", "options": {"name": "Tone", "labels": "good=1,*=0"}}
    service.create_benchmark(source="langfuse", metrics=[metric])
    run = service.complete_run()
    [share] = service.get(f"/benchmark-runs/{run['id']}/metrics")["items"]
    assert (share["n"], share["mean"]) == (20, 0.75)
    counts = service.get(f"/benchmark-runs/{run['id']}/categories", field="Tone")["items"]
    assert [(row["category"], row["items"]) for row in counts] == [("bad", 5), ("good", 15)]


@pytest.mark.parametrize("version", ["v4", "v3"])
def test_run__paths_select_the_texts_that_are_compared(
    service: Service, langfuse: FakeLangfuse, langfuse_v3: FakeLangfuse, version: str
) -> None:
    server = langfuse if version == "v4" else langfuse_v3
    server.experiment(
        items=4,
        input_of=lambda _: {"question": "Capital of Italy?"},
        output_of=lambda number: {"capital": "Rome"} if number < 2 else {"error": "none"},
        expected_of=lambda number: "Rome" if number % 2 else {"city": "Rome"},
    )
    agent(service, server)
    benchmark(service)
    first = service.complete_run()
    assert _accuracy(service, first) == 0
    paths = {"inputPath": "question", "outputPath": "capital", "expectedPath": "city"}
    changed = service.patch("/benchmarks/bench-001", paths)
    assert {name: changed[name] for name in paths} == paths
    second = service.complete_run()
    # An answer without the selected text is an empty answer, which has the worst value.
    assert _accuracy(service, second) == 0.5
    inputs = "SELECT array_agg(DISTINCT input) FROM collected_traces WHERE output = 'Rome'"
    assert value(service, inputs) == ["Capital of Italy?"]
    assert second["fingerprint"] != first["fingerprint"]
    rescored = service.post(f"/benchmark-runs/{first['id']}/rescore")
    service.work()
    assert _accuracy(service, rescored) == 0


def _accuracy(service: Service, run: JSON) -> float:
    [accuracy] = service.get(f"/benchmark-runs/{run['id']}/metrics")["items"]
    mean: float = accuracy["mean"]
    return mean


def test_run__source_error_is_the_error_of_the_run(
    service: Service, langfuse: FakeLangfuse
) -> None:
    agent(service, langfuse, langfuseSecretKey="wrong")
    benchmark(service)
    run = service.complete_run()
    assert (run["status"], run["errorCode"]) == ("FAILED", "LANGFUSE_AUTH")
    assert "secret key" in run["errorMessage"]


def test_run__missing_traces_make_the_run_invalid(service: Service, langfuse: FakeLangfuse) -> None:
    def hide(answer: JSON) -> None:
        del answer["data"][:10]

    langfuse.experiment(items=30)
    # The first request looks for an earlier run of the name, the second one reads the rows.
    langfuse.inject(ModifiedResponse(change=hide), path=ROWS, on={2})
    agent(service, langfuse)
    benchmark(service)
    run = service.complete_run()
    assert (run["status"], run["validity"]) == ("COMPLETED", "INVALID")
    assert run["coverage"] == pytest.approx(20 / 30)
    [accuracy] = service.get(f"/benchmark-runs/{run['id']}/metrics")["items"]
    assert (accuracy["n"], accuracy["expected"]) == (20, 30)
    assert accuracy["missing"] == {"NOT_COLLECTED": 10}


def test_run__part_of_a_dataset_is_invalid_unless_it_is_expected(
    service: Service, langfuse: FakeLangfuse
) -> None:
    langfuse.dataset("support", items=60)
    langfuse.experiment(items=40, trials=2)
    agent(service, langfuse)
    benchmark(service)
    run = service.complete_run()
    assert (run["validity"], run["coverage"]) == ("INVALID", pytest.approx(2 / 3))
    [reason] = run["validityReasons"]
    assert_names(reason, "66.7 %", "90.0 %", "40 of 60 items")
    for expected in (40, "any"):
        service.patch("/benchmarks/bench-001", {"expectItems": expected})
        assert service.complete_run()["validity"] == "VALID"


@pytest.mark.parametrize(("malformed_count", "validity"), [(1, "VALID"), (2, "INVALID")])
def test_run__too_many_malformed_rows_make_the_run_invalid(
    service: Service, langfuse: FakeLangfuse, malformed_count: int, validity: str
) -> None:
    def spoil(answer: JSON) -> None:
        for row in answer["data"][:malformed_count]:
            row["traceId"] = 7

    langfuse.experiment(items=30)
    # The first request looks for an earlier run of the name, the second one reads the rows.
    langfuse.inject(ModifiedResponse(change=spoil), path=ROWS, on={2})
    agent(service, langfuse)
    benchmark(service)

    run = service.complete_run()

    # At most 5 % of the traces may be errors of the infrastructure: one of 30, not two.
    assert (run["status"], run["validity"]) == ("COMPLETED", validity)
    assert run["errorShare"] == pytest.approx(malformed_count / 30)
    [accuracy] = service.get(f"/benchmark-runs/{run['id']}/metrics")["items"]
    assert accuracy["n"] == 30 - malformed_count
    outcomes = "SELECT count(*) FROM collected_traces WHERE outcome = 'infra_error'"
    assert value(service, outcomes) == malformed_count


def test_run__categories_come_from_the_metadata_of_items(
    service: Service, langfuse: FakeLangfuse
) -> None:
    langfuse.experiment(items=21)
    agent(service, langfuse)
    benchmark(service)
    run = service.complete_run()
    categories = service.get(f"/benchmark-runs/{run['id']}/categories", field="topic")["items"]
    assert [(entry["category"], entry["items"]) for entry in categories] == [
        (f"topic {number}", 3) for number in range(7)
    ]


def test_run__reported_trial_numbers_are_kept(service: Service, langfuse: FakeLangfuse) -> None:
    def numbered(answer: JSON) -> None:
        for index, row in enumerate(answer["data"]):
            row["metadata"]["trial"] = str(7 + index % 2)

    langfuse.experiment(items=5, trials=2)
    langfuse.inject(ModifiedResponse(change=numbered), path=ROWS)
    agent(service, langfuse)
    benchmark(service)
    service.complete_run()
    assert value(service, "SELECT array_agg(DISTINCT trial) FROM collected_traces") == [7, 8]


def test_run__can_be_cancelled_while_it_waits(service: Service, langfuse: FakeLangfuse) -> None:
    langfuse.experiment(items=120)
    langfuse.inject(RateLimited(retry_after_s=300), path=ROWS, on=ALWAYS)
    agent(service, langfuse)
    benchmark(service)
    run = service.start_run()
    worker = threading.Thread(target=service.work)
    worker.start()
    try:
        _until_refused(langfuse)
        service.post(f"/benchmark-runs/{run['id']}/cancel")
    finally:
        worker.join(LIVENESS_S)
    assert not worker.is_alive()
    assert service.get(f"/benchmark-runs/{run['id']}")["status"] == "CANCELLED"


def _until_refused(langfuse: FakeLangfuse) -> None:
    until(lambda: any(request.status == 429 for request in langfuse.requests))


def test_run__changed_keys_are_used_for_the_rest(service: Service, langfuse: FakeLangfuse) -> None:
    langfuse.experiment(items=350)
    agent(service, langfuse, langfusePublicKey="pk-lf-old", langfuseSecretKey="sk-lf-old")
    benchmark(service)
    old, new = ("pk-lf-old", "sk-lf-old"), (langfuse.public_key, langfuse.secret_key)
    langfuse.server.public_key, langfuse.server.secret_key = old

    def rotate(_: JSON) -> None:
        langfuse.server.public_key, langfuse.server.secret_key = new
        keys = {"langfusePublicKey": new[0], "langfuseSecretKey": new[1]}
        service.patch("/agents/agent-001", keys)

    # The fourth request has the third of four pages; the next one has keys that are refused.
    langfuse.inject(ModifiedResponse(change=rotate), path=ROWS, on={4})
    run = service.complete_run()
    assert (run["status"], run["tracesTotal"]) == ("COMPLETED", 350)
    assert [request.status for request in langfuse.requests_for(ROWS)] == [
        *[200, 200, 200, 200, 401, 200]
    ]
    assert refused_at(service) is None


def test_run__late_scores_are_read_when_configured(
    service: Service, langfuse: FakeLangfuse
) -> None:
    late = ScorePlan(name="Late", value=0.75, after=timedelta(days=3))
    langfuse.experiment(items=4, scores=[late])
    agent(service, langfuse)
    service.create_benchmark(
        source="langfuse", metrics=[{"key": "SCORE", "options": {"name": "Late"}}]
    )
    assert service.get("/benchmarks/bench-001")["lateScores"] is False
    service.complete_run()
    assert langfuse.requests_for("/v3/scores") == []
    assert service.patch("/benchmarks/bench-001", {"lateScores": True})["lateScores"] is True
    [metric] = service.get(f"/benchmark-runs/{service.complete_run()['id']}/metrics")["items"]
    assert (metric["n"], metric["mean"]) == (4, 0.75)


def test_run__trials_of_an_item_are_numbered(service: Service, langfuse: FakeLangfuse) -> None:
    langfuse.experiment(items=30, trials=3)
    agent(service, langfuse)
    benchmark(service)
    assert service.complete_run()["tracesTotal"] == 90
    trials = "SELECT count(DISTINCT (item_id, trial)) FROM collected_traces WHERE trial < 3"
    assert value(service, trials) == 90
