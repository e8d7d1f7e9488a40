"""Benchmarks over HTTP: every verb, metadata in both forms, metrics with options."""

import json
from typing import Any

import pytest
from sqlalchemy import text

from tests.support.service import JSON, Service, pair, pointers
from tests.support.texts import assert_names

SEED = ["ROUGE", "BLEU", "ACCURACY", "PRECISION", "RECALL", "F1_SCORE"]


def details(problem: JSON) -> dict[str, str]:
    return {item["pointer"]: item["detail"] for item in problem["errors"]}


def test_benchmarks_api__requests_of_original_system_work(service: Service) -> None:
    created = service.send(
        "POST",
        "/benchmarks",
        content=b'{"metadata":"{\\"name\\": \\"Quality Check\\"}","datasetRef":"dataset-123",'
        b'"runName":"quality-run"}',
        headers={"Content-Type": "application/json"},
    )
    assert created.status_code == 201
    benchmark = created.json()
    assert created.headers["Location"] == f"/api/v1/benchmarks/{benchmark['id']}"
    assert benchmark["metadata"] == {"name": "Quality Check"}
    assert (benchmark["datasetRef"], benchmark["runName"]) == ("dataset-123", "quality-run")

    service.create_benchmark("bench-001", datasetRef="dataset-123", runName="quality-run")
    service.create_agent("agent-001")
    service.upload([pair(1)], name="dataset-123", run_name="quality-run")
    started = service.send(
        "POST",
        "/benchmark-runs",
        content=b'{"benchmarkId":"bench-001","agentId":"agent-001","triggerType":"MANUAL"}',
        headers={"Content-Type": "application/json"},
    )
    assert started.status_code == 201
    assert (started.json()["status"], started.json()["triggeredBy"]) == ("PENDING", "MANUAL")
    service.work()
    run = service.get(f"/benchmark-runs/{started.json()['id']}")
    assert (run["status"], run["tracesProcessed"]) == ("COMPLETED", 1)


def test_benchmarks_api__create_read_list_change_replace_delete(service: Service) -> None:
    service.create_agent()
    created = service.create_benchmark(
        metadata={"team": "search", "deep": [1, {"x": None}]},
        runName="run-1",
        taskDef="Answer the question",
        features=["tone", "facts"],
        evaluates=["agent-001"],
        minCoverage=0.5,
        maxErrorShare=0,
        keepDays=30,
    )
    assert (
        created.items()
        >= {
            "id": "bench-001",
            "metadata": {"team": "search", "deep": [1, {"x": None}]},
            "datasetRef": "support",
            "runName": "run-1",
            "taskDef": "Answer the question",
            "features": ["tone", "facts"],
            "evaluates": ["agent-001"],
            "source": None,
            "measures": [],
            "minCoverage": 0.5,
            "maxErrorShare": 0.0,
            "keepDays": 30,
            "archived": False,
            "revision": 1,
        }.items()
    )
    assert created["metrics"] == [{"key": key, "options": {}} for key in SEED]
    assert service.get("/benchmarks/bench-001") == created
    assert service.get("/benchmarks") == {"items": [created], "nextCursor": None}

    changed = service.patch("/benchmarks/bench-001", {"features": "tone", "keepDays": None})
    assert (changed["features"], changed["keepDays"]) == ("tone", None)
    assert (changed["metadata"], changed["evaluates"]) == (created["metadata"], ["agent-001"])
    assert changed["revision"] == 2

    replaced = service.put("/benchmarks/bench-001", {"datasetRef": "other"})
    assert (
        replaced.items()
        >= {
            "metadata": {},
            "datasetRef": "other",
            "runName": None,
            "taskDef": None,
            "features": None,
            "evaluates": [],
            "minCoverage": 0.9,
            "maxErrorShare": 0.05,
        }.items()
    )
    for name in ("metadata", "evaluates", "metrics", "measures", "minCoverage"):
        problem = service.expect_problem(422, "PATCH", "/benchmarks/bench-001", {name: None})
        assert pointers(problem) == [f"/{name}"]
    service.delete("/benchmarks/bench-001")
    for method in ("GET", "PATCH", "PUT", "DELETE"):
        body: JSON | None = {} if method in ("PATCH", "PUT") else None
        problem = service.expect_problem(404, method, "/benchmarks/bench-001", body)
        assert problem["type"] == "/problems/benchmark-not-found"
    service.delete("/agents/agent-001")


def test_metadata__object_or_json_text(service: Service) -> None:
    for metadata in (
        {"a": [1.5, "é😀"]},
        '{"a": [1.5, "é😀"]}',
        ' {"a":[1.5,"\\u00e9\\ud83d\\ude00"]} ',
    ):
        assert service.post("/benchmarks", {"metadata": metadata})["metadata"] == {
            "a": [1.5, "é😀"]
        }
    service.create_benchmark()
    assert service.patch("/benchmarks/bench-001", {"metadata": '{"b": 1}'})["metadata"] == {"b": 1}
    assert service.put("/benchmarks/bench-001", {"metadata": "{}"})["metadata"] == {}
    refused: list[Any] = [
        "",
        "{",
        "{name: 1}",
        "[1]",
        "7",
        '"text"',
        "null",
        7,
        [],
        # What readers of JSON understand differently or not at all: NaN, a key twice, NUL, half a
        # character, more than 64 bits, more than 64 levels.
        '{"a": NaN}',
        '{"a": 1, "a": 2}',
        '{"a": "\\u0000"}',
        '{"a": "\\ud800"}',
        '{"a": 123456789012345678901234567890}',
        '{"a":' * 2000,
        "[" * 100_000,
        # More than 64 KiB.
        json.dumps({"a": "x" * 70_000}),
        {"a": "x" * 70_000},
    ]
    for metadata in refused:
        for method, path in (("POST", "/benchmarks"), ("PATCH", "/benchmarks/bench-001")):
            problem = service.expect_problem(422, method, path, {"metadata": metadata})
            assert pointers(problem) == ["/metadata"], metadata
    [[pointer, detail]] = details(
        service.expect_problem(422, "POST", "/benchmarks", {"metadata": "{a}"})
    ).items()
    assert pointer == "/metadata"
    assert_names(detail, "not valid JSON", "line 1, column 2")
    # Those of the three forms, and bench-001.
    assert len(service.get("/benchmarks")["items"]) == 4


def test_metrics_field__with_and_without_options(service: Service) -> None:
    benchmark = service.create_benchmark(
        metrics=[
            "BLEU",
            {"key": "ROUGE_1", "options": {"useStemmer": True}},
            {"key": "SCORE", "options": {"name": "Tone / Style"}},
            {"key": "SCORE", "options": {"name": "Facts"}},
        ]
    )
    assert benchmark["metrics"] == [
        {"key": "BLEU", "options": {}},
        {"key": "ROUGE_1", "options": {"useStemmer": True}},
        {"key": "SCORE", "options": {"name": "Tone / Style"}},
        {"key": "SCORE", "options": {"name": "Facts"}},
    ]


def test_metrics_field__errors_have_pointer_and_near_matches(service: Service) -> None:
    problem = service.expect_problem(
        422,
        "POST",
        "/benchmarks",
        {
            "metrics": [
                "ROGUE",
                "BLEU",
                {"key": "ROUGE", "options": {"useStemer": True, "a/b": 1}},
                {"key": "ROUGE_1", "options": {"useStemmer": "yes"}},
                "SCORE",
                "BLEU",
                {"key": "ROUGE_2", "options": {"useStemmer": True}},
                "ROUGE_2",
            ],
            "source": "locl",
            "evaluates": ["nobody"],
            "measures": [
                {"name": "q", "formula": "AVERAGE(ROUG, BLEU)"},
                {"name": "Q", "formula": "ROUGE", "thresholdMin": 2, "thresholdMax": 1},
            ],
        },
    )
    detail_texts = details(problem)
    assert list(detail_texts) == [
        "/source",
        "/metrics/0",
        "/metrics/2/options/a~1b",
        "/metrics/2/options/useStemer",
        "/metrics/3/options/useStemmer",
        "/metrics/4",
        "/metrics/5",
        "/metrics/7",
        "/evaluates/0",
        "/measures/1/name",
        "/measures/0/formula",
        "/measures/1/thresholdMin",
    ]
    assert "Did you mean local" in detail_texts["/source"]
    assert "Did you mean ROUGE" in detail_texts["/metrics/0"]
    assert "Did you mean useStemmer?" in detail_texts["/metrics/2/options/useStemer"]
    assert "takes a bool" in detail_texts["/metrics/3/options/useStemmer"]
    assert "name" in detail_texts["/metrics/4"]
    assert "listed twice" in detail_texts["/metrics/5"]
    assert "Did you mean ROUGE" in detail_texts["/measures/0/formula"]
    assert service.get("/benchmarks")["items"] == []


def test_delete_benchmark__with_runs_is_a_conflict(service: Service) -> None:
    service.create_agent()
    service.create_benchmark()
    assert (
        "taken" in service.expect_problem(409, "POST", "/benchmarks", {"id": "bench-001"})["detail"]
    )
    created = service.post("/benchmarks", {})
    service.delete(f"/benchmarks/{created['id']}")
    run = service.start_run()
    problem = service.expect_problem(409, "DELETE", "/benchmarks/bench-001")
    assert problem["type"] == "/problems/benchmark-in-use"
    assert '"archived": true' in problem["detail"]
    service.patch("/benchmarks/bench-001", {"archived": True})
    assert service.get("/benchmarks")["items"] == []
    assert service.get("/benchmarks", archived=True)["items"][0]["id"] == "bench-001"
    body = {"benchmarkId": "bench-001", "agentId": "agent-001"}
    assert "archived" in service.expect_problem(409, "POST", "/benchmark-runs", body)["detail"]
    service.post(f"/benchmark-runs/{run['id']}/cancel")
    service.delete(f"/benchmark-runs/{run['id']}")
    service.delete("/benchmarks/bench-001")


def test_evaluates__only_listed_agents_can_run(service: Service) -> None:
    for number in (1, 2):
        service.create_agent(f"agent-00{number}")
    benchmark = service.create_benchmark(evaluates=["agent-002", "agent-002"])
    assert benchmark["evaluates"] == ["agent-002"]
    body = {"benchmarkId": "bench-001", "agentId": "agent-001"}
    problem = service.expect_problem(422, "POST", "/benchmark-runs", body)
    assert pointers(problem) == ["/agentId"]
    service.patch("/benchmarks/bench-001", {"evaluates": []})
    service.post("/benchmark-runs", body)


def test_list_benchmarks__shows_agents_and_kpis(service: Service) -> None:
    service.create_agent()
    for number in range(5):
        service.create_benchmark(
            f"b-{number}",
            evaluates=["agent-001"] * (number % 2),
            measures=[{"name": f"kpi of {number}", "formula": "ROUGE"}],
        )
    benchmarks = service.list_items("/benchmarks", limit=2)
    assert [benchmark["id"] for benchmark in benchmarks] == ["b-4", "b-3", "b-2", "b-1", "b-0"]
    assert [benchmark["measures"][0]["name"][-1] for benchmark in benchmarks] == list("43210")
    assert [len(benchmark["evaluates"]) for benchmark in benchmarks] == [0, 1, 0, 1, 0]


def test_create_benchmark__rejected_request_writes_nothing(service: Service) -> None:
    service.create_benchmark(measures=[{"id": "quality", "name": "quality", "formula": "ROUGE"}])
    before = service.get("/benchmarks/bench-001")
    body = {"evaluates": ["nobody"], "measures": [{"name": "x", "formula": "BLEU"}]}
    service.expect_problem(422, "POST", "/benchmarks", {"id": "other", **body})
    service.expect_problem(404, "GET", "/benchmarks/other")
    half = {"metadata": {"a": 1}, "measures": [{"name": "x", "formula": "NOPE"}]}
    service.expect_problem(422, "PATCH", "/benchmarks/bench-001", half)
    assert service.get("/benchmarks/bench-001") == before
    with service.resources.db.read() as session:
        assert session.scalar(text("SELECT count(*) FROM kpi_definitions")) == 1


@pytest.mark.parametrize("source", ["local", None])
def test_paths__only_a_source_that_applies_them_takes_them(
    service: Service, source: str | None
) -> None:
    body = {"source": source, "inputPath": "question"}
    detail = "only the source langfuse uses paths; choose that source, or omit the path"
    problem = service.expect_problem(422, "POST", "/benchmarks", body)
    assert details(problem) == {"/inputPath": detail}
    service.create_benchmark(source="langfuse", inputPath="question")
    problem = service.expect_problem(422, "PATCH", "/benchmarks/bench-001", {"source": source})
    assert details(problem) == {"/inputPath": detail}


def test_benchmark__metric_names_are_accepted_in_any_case_as_in_formulas(service: Service) -> None:
    benchmark = service.create_benchmark(
        metrics=["rouge", "Latency", {"key": "rouge_1"}, 'bleu{lang="de"}']
    )
    assert [metric["key"] for metric in benchmark["metrics"]] == [
        "ROUGE",
        "LATENCY",
        "ROUGE_1",
        'BLEU{lang="de"}',
    ]
    problem = service.expect_problem(422, "PATCH", "/benchmarks/bench-001", {"metrics": ["rogue"]})
    assert pointers(problem) == ["/metrics/0"]
