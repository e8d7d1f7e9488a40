"""The v3 endpoints of the fake server, and the responses of each server mode."""

from typing import Any

import pytest

from tests.integration.langfuse.api_reader import EVER, ApiReader, condition, matching
from tests.support.langfuse import FakeLangfuse, ScorePlan


def test_fake_v3__has_no_v4_endpoints(langfuse_v3: FakeLangfuse, reader_v3: ApiReader) -> None:
    langfuse_v3.experiment(items=1)

    for path in ("/experiments", "/experiment-items", "/v2/observations", "/v3/scores"):
        answer = reader_v3.expect_problem(404, path, fromStartTime=EVER)
        assert "write mode" in answer["message"]
        assert answer["error"] == "LangfuseNotFoundError"


def test_fake_v3__run_names_may_contain_any_character(
    langfuse_v3: FakeLangfuse, reader_v3: ApiReader
) -> None:
    experiment = langfuse_v3.experiment(dataset="support/ö", run="run 1/ö,x", items=3)

    listed = reader_v3.get("/datasets/support%2F%C3%B6/runs")["data"]
    run = reader_v3.get("/datasets/support%2F%C3%B6/runs/run%201%2F%C3%B6%2Cx")
    items = reader_v3.get(
        "/dataset-run-items", datasetId=experiment.dataset_id, runName=experiment.name
    )

    assert [entry["name"] for entry in listed] == ["run 1/ö,x"]
    assert (run["id"], len(run["datasetRunItems"])) == (experiment.id, 3)
    assert items["data"] == run["datasetRunItems"]
    assert reader_v3.expect_problem(404, "/datasets/support%2F%C3%B6/runs/none")["message"]


def test_fake_v3__returns_only_the_newest_trial_of_an_item(
    langfuse_v3: FakeLangfuse, reader_v3: ApiReader
) -> None:
    experiment = langfuse_v3.experiment(items=2, trials=3)

    links = reader_v3.get("/datasets/support/runs/run-1")["datasetRunItems"]

    # Rows 0 to 2 are trials of item 0, rows 3 to 5 of item 1.
    assert [link["traceId"] for link in links] == [experiment.trace_id(5), experiment.trace_id(2)]


def test_fake_v3__traces_come_in_pages_of_100_with_parsed_texts(
    langfuse_v3: FakeLangfuse, reader_v3: ApiReader
) -> None:
    outputs: list[Any] = ["1", {"a": 1}, None, "plain"]
    experiment = langfuse_v3.experiment(items=4, output_of=outputs.__getitem__)
    ids = [experiment.trace_id(number) for number in range(4)]
    filter_parameter = matching(condition("id", ids, "stringOptions", "any of"))

    response = reader_v3.get("/traces", filter=filter_parameter, limit=100)
    plain = reader_v3.get("/traces", filter=filter_parameter, fields="core")["data"][0]

    assert [trace["output"] for trace in response["data"]] == [1, {"a": 1}, None, "plain"]
    assert response["meta"] == {"page": 1, "limit": 100, "totalItems": 4, "totalPages": 1}
    # -1: the server computes both only for the fields `metrics`.
    assert (plain["latency"], plain["totalCost"]) == (-1, -1)
    assert "output" not in plain


def test_fake_v3__trace_total_includes_the_judge(
    langfuse_v3: FakeLangfuse, reader_v3: ApiReader
) -> None:
    experiment = langfuse_v3.experiment(
        items=1, calls_per_item=2, judged=True, scores=[ScorePlan(name="good", value=1.0)]
    )

    trace = reader_v3.get(f"/traces/{experiment.trace_id(0)}")

    # Two calls of the agent and one of the judge: 2 × 0.001 + 0.01.
    assert trace["totalCost"] == pytest.approx(0.012)
    assert [score["name"] for score in trace["scores"]] == ["good"]
    assert {span["type"] for span in trace["observations"]} == {"SPAN", "GENERATION", "EVALUATOR"}
    assert reader_v3.expect_problem(404, "/traces/unknown")["message"]


def test_fake_v3__observations_and_scores_of_many_traces(
    langfuse_v3: FakeLangfuse, reader_v3: ApiReader
) -> None:
    plans = [ScorePlan(name="ok", value=1.0, data_type="BOOLEAN"), ScorePlan(name="n", value=0.5)]
    experiment = langfuse_v3.experiment(items=3, calls_per_item=1, scores=plans)
    ids = [experiment.trace_id(0), experiment.trace_id(2)]
    filter_parameter = matching(condition("traceId", ids, "stringOptions", "any of"))

    calls = reader_v3.get("/observations", filter=filter_parameter, type="GENERATION")["data"]
    scores = reader_v3.get("/v2/scores", filter=filter_parameter, name="ok")["data"]

    assert {call["traceId"] for call in calls} == set(ids)
    assert calls[0]["usage"]["total"] == calls[0]["totalTokens"] > 0
    assert [(score["value"], score["stringValue"]) for score in scores] == [(1.0, "True")] * 2


def test_fake_v3__traces_without_filter_are_paged(
    langfuse_v3: FakeLangfuse, reader_v3: ApiReader
) -> None:
    langfuse_v3.experiment(items=5)

    second = reader_v3.get("/traces", page=2, limit=2)

    assert second["meta"] == {"page": 2, "limit": 2, "totalItems": 5, "totalPages": 3}
    assert [trace["input"] for trace in second["data"]] == ["question 2", "question 1"]


def test_fake_dual__runs_live_where_their_writer_put_them(
    langfuse_dual: FakeLangfuse, reader_dual: ApiReader
) -> None:
    langfuse_dual.experiment(run="by spans", items=1)
    langfuse_dual.experiment(run="by links", items=1, linked_by="run_items")

    newer = reader_dual.get("/experiments", fromStartTime=EVER)["data"]
    older = reader_dual.get("/datasets/support/runs")["data"]

    assert [run["name"] for run in newer] == ["by spans"]
    assert [run["name"] for run in older] == ["by links"]


def test_fake_v3__run_is_written_by_batches_and_links(
    langfuse_v3: FakeLangfuse, reader_v3: ApiReader
) -> None:
    langfuse_v3.dataset("support", items=1)
    batch = [
        {
            "id": "event-1",
            "type": "trace-create",
            "timestamp": EVER,
            "body": {"id": "trace-1", "name": "old", "input": "question", "output": "answer"},
        },
        {
            "id": "event-2",
            "type": "generation-create",
            "timestamp": EVER,
            "body": {
                "id": "call-1",
                "traceId": "trace-1",
                "startTime": "2026-11-20T02:00:00Z",
                "usageDetails": {"input": 3, "output": 4},
            },
        },
        {
            "id": "event-3",
            "type": "generation-update",
            "timestamp": EVER,
            "body": {"id": "call-1", "traceId": "trace-1", "endTime": "2026-11-20T02:00:01Z"},
        },
        {"id": "event-4", "type": "unheard-of", "timestamp": EVER, "body": {}},
    ]
    link = {"runName": "old-1", "datasetItemId": "dataset-1-0", "traceId": "trace-1"}

    fate = reader_v3.post("/ingestion", {"batch": batch}, status=207)
    run_item = reader_v3.post("/dataset-run-items", link)
    run = reader_v3.get("/datasets/support/runs/old-1")
    trace = reader_v3.get("/traces/trace-1")

    assert [entry["id"] for entry in fate["successes"]] == ["event-1", "event-2", "event-3"]
    assert [entry["id"] for entry in fate["errors"]] == ["event-4"]
    assert [entry["id"] for entry in run["datasetRunItems"]] == [run_item["id"]]
    assert (trace["output"], trace["latency"]) == ("answer", 1.0)
    assert trace["observations"][0]["usageDetails"] == {"input": 3, "output": 4}


def test_fake__batches_accept_only_scores(langfuse: FakeLangfuse, reader: ApiReader) -> None:
    score = {"traceId": "trace-1", "name": "good", "value": 1}
    batch = [
        {"id": "event-1", "type": "score-create", "timestamp": EVER, "body": score},
        {"id": "event-2", "type": "trace-create", "timestamp": EVER, "body": {"id": "trace-1"}},
    ]

    fate = reader.post("/ingestion", {"batch": batch}, status=207)

    assert [entry["id"] for entry in fate["successes"]] == ["event-1"]
    assert "events_only" in fate["errors"][0]["error"]
    assert [entry["name"] for entry in reader.rows("/v3/scores", traceId="trace-1")] == ["good"]
