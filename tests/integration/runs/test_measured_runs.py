"""Results of runs: values, missing values, aggregates, KPIs and validity."""

import psycopg
import pytest

from mosaico.core.engine import libpq_url
from mosaico.core.postgres_notify import CHANNEL
from mosaico.run_store import queries
from mosaico.runs import aggregation, shards
from tests.support.service import JSON, Service, pair

RUNS = "/benchmark-runs"


def by_trace(service: Service, run: JSON) -> dict[str, JSON]:
    return {row["traceId"]: row for row in service.list_items(f"{RUNS}/{run['id']}/results")}


def by_metric(service: Service, run: JSON) -> dict[str, JSON]:
    return {
        aggregate["metric"]: aggregate
        for aggregate in service.get(f"{RUNS}/{run['id']}/metrics")["items"]
    }


def by_kpi(service: Service, run: JSON) -> dict[str, JSON]:
    return {
        kpi_value["name"]: kpi_value
        for kpi_value in service.get(f"{RUNS}/{run['id']}/kpis")["items"]
    }


def test_run__counts_every_trace_outcome(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(
        metrics=["ROUGE", {"key": "SCORE", "options": {"name": "Tone"}}],
        measures=[
            {"name": "quality", "formula": "ROUGE"},
            {"name": "extra", "formula": "ACCURACY.count"},
            {"name": "tone", "formula": 'SCORE["Tone"].max'},
            {"name": "absent", "formula": 'SCORE["Nobody"] + 1'},
            {"name": "divided", "formula": "ROUGE / (ROUGE - ROUGE)", "thresholdMin": 0},
            {"name": "low", "formula": "ROUGE.min", "thresholdMin": 0.1, "thresholdMax": 1},
            {"name": "high", "formula": "ROUGE.max", "thresholdMin": 0.1, "thresholdMax": 1},
        ],
        # ROUGE has values of half of the traces.
        minCoverage=0.5,
    )
    service.upload(
        [
            pair(1, scores={"Tone": 0.25}, input="Say a b c d", tags=["easy"], url="https://x.y/1"),
            pair(2, output=None, outcome="agent_error", error="it broke"),
            pair(3, output=None, outcome="timeout"),
            pair(4, output=None, outcome="infra_error"),
            pair(5, outcome="judge_error"),
            pair(6, expected=None),
            pair(7, output=None),
            pair(8, output="", scores={"Tone": -3}),
        ]
    )
    run = service.complete_run()
    assert (run["status"], run["tracesTotal"], run["tracesProcessed"]) == ("COMPLETED", 8, 8)

    rows = by_trace(service, run)
    assert list(rows) == [f"t-{number}" for number in range(1, 9)]
    # An error of the agent is a wrong answer (0); one of the infrastructure is no answer.
    assert {name: row["values"]["ROUGE"] for name, row in rows.items()} == {
        "t-1": 1.0,
        "t-2": 0.0,
        "t-3": 0.0,
        "t-4": None,
        "t-5": None,
        "t-6": None,
        "t-7": None,
        "t-8": 0.0,
    }
    skipped = {name: row["missing"].get("ROUGE", {}).get("skipped") for name, row in rows.items()}
    assert skipped == {
        "t-1": None,
        "t-2": None,
        "t-3": None,
        "t-4": "INFRA_ERROR",
        "t-5": "JUDGE_ERROR",
        "t-6": "NO_EXPECTED_OUTPUT",
        "t-7": "NO_OUTPUT",
        "t-8": None,
    }
    assert (
        rows["t-1"].items()
        >= {
            "itemId": "i-1",
            "trial": 0,
            "outcome": "scored",
            "input": "Say a b c d",
            "expectedOutput": "a b c d",
            "output": "a b c d",
            "error": None,
            "tags": ["easy"],
            "url": "https://x.y/1",
        }.items()
    )
    # Two are measured only because a formula names them, and the failures are in every run.
    assert list(rows["t-1"]["values"]) == [
        "ROUGE",
        'SCORE["Tone"]',
        'SCORE["Nobody"]',
        "ACCURACY",
        "ERROR_RATE",
    ]
    assert rows["t-2"]["outcome"] == "agent_error"
    assert (rows["t-2"]["error"], rows["t-7"]["output"], rows["t-8"]["output"]) == (
        "it broke",
        None,
        "",
    )
    assert rows["t-2"]["missing"]['SCORE["Tone"]'] == {
        "skipped": "AGENT_ERROR",
        "failed": None,
        "detail": None,
    }

    # ROUGE over 1, 0, 0, 0: mean 1/4, sample variance (9/16 + 3/16) / 3 = 1/4, p95 = 0.85.
    metrics = by_metric(service, run)
    assert (
        metrics["ROUGE"].items()
        >= {
            "version": "2",
            "n": 4,
            "expected": 8,
            "coverage": 0.5,
            "mean": 0.25,
            "std": 0.5,
            "min": 0.0,
            "max": 1.0,
            "p50": 0.0,
            "sum": 1.0,
            "missing": {
                "INFRA_ERROR": 1,
                "JUDGE_ERROR": 1,
                "NO_EXPECTED_OUTPUT": 1,
                "NO_OUTPUT": 1,
            },
        }.items()
    )
    assert metrics["ROUGE"]["p95"] == pytest.approx(0.85)
    # The two values of Tone, 0.25 and -3, have the mean -2.75 / 2.
    assert (metrics['SCORE["Tone"]']["n"], metrics['SCORE["Tone"]']["mean"]) == (2, -1.375)
    nobody = metrics['SCORE["Nobody"]']
    assert (nobody["n"], nobody["coverage"], nobody["mean"], nobody["std"]) == (0, 0.0, None, None)
    # The traces 1, 6, 7 and 8 have no such score; the timeout of 3 counts as an error of the agent.
    assert nobody["missing"] == {
        "NOT_SUPPORTED": 4,
        "AGENT_ERROR": 2,
        "INFRA_ERROR": 1,
        "JUDGE_ERROR": 1,
    }
    # Four values of ROUGE, four of ACCURACY, two of Tone.
    assert run["metricsComputed"] == 10 + 6

    kpis = by_kpi(service, run)
    assert {name: kpi["value"] for name, kpi in kpis.items()} == {
        "quality": 0.25,
        "extra": 4.0,
        "tone": None,
        "absent": None,
        "divided": None,
        "low": 0.0,
        "high": 1.0,
    }
    # The range of the scores is not known, so that two failed answers have no value.
    for name in ("tone", "absent"):
        assert "2 of 8 answers failed" in kpis[name]["undefinedReason"]
    assert "division by zero" in kpis["divided"]["undefinedReason"]
    assert {name: kpi["withinThresholds"] for name, kpi in kpis.items()} == {
        "quality": None,
        "extra": None,
        "tone": None,
        "absent": None,
        "divided": None,
        "low": False,
        "high": True,
    }

    # Covered are 1, 2, 3 and 8 of 8; lost to infrastructure and judge are 4 and 5.
    assert (run["validity"], run["coverage"], run["errorShare"]) == ("INVALID", 0.5, 0.25)
    assert len(run["validityReasons"]) == 1
    assert "25.0 %" in run["validityReasons"][0]
    assert {entry["validity"] for entry in service.get("/kpi-history")["items"]} == {"INVALID"}


def test_run__validity_follows_the_limits_of_the_benchmark(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["ROUGE"])
    # Nine of ten: just the default of minCoverage.
    service.upload([pair(n) for n in range(9)] + [pair(9, output=None)])
    assert service.complete_run()["validity"] == "VALID", "coverage 0.9 is enough"
    service.patch("/benchmarks/bench-001", {"minCoverage": 0.91})
    assert service.complete_run()["validity"] == "INVALID"
    service.patch("/benchmarks/bench-001", {"minCoverage": 0})
    # One of 20 is 0.05, just the default of maxErrorShare. It lowers the coverage to 0.95, too.
    traces = [pair(n) for n in range(19)] + [pair(19, output=None, outcome="infra_error")]
    service.upload(traces, run_name="run-2")
    run = service.complete_run()
    assert (run["validity"], run["errorShare"], run["validityReasons"]) == ("VALID", 0.05, [])
    service.patch("/benchmarks/bench-001", {"maxErrorShare": 0.049})
    assert service.complete_run()["validity"] == "INVALID"
    agent_fails = [pair(n, output=None, outcome="agent_error") for n in range(4)]
    service.upload(agent_fails, run_name="run-3")
    run = service.complete_run()
    assert (run["validity"], run["coverage"]) == ("VALID", 1.0), "a failing agent is a result"
    assert by_metric(service, run)["ROUGE"]["mean"] == 0.0


def test_run__the_run_name_selects_the_upload(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["ACCURACY"])
    service.upload([pair(1)], run_name="run-1")
    service.upload([pair(1, output="x")], run_name="run-2")

    def accuracy(**fields: str) -> float:
        mean: float = by_metric(service, service.complete_run(**fields))["ACCURACY"]["mean"]
        return mean

    assert (accuracy(), accuracy(runName="run-1"), accuracy(runName="run-2")) == (0.0, 1.0, 0.0)
    service.patch("/benchmarks/bench-001", {"runName": "run-1"})
    assert (accuracy(), accuracy(runName="run-2")) == (1.0, 0.0)
    run = service.complete_run(runName="run-9")
    assert (run["status"], run["errorCode"]) == ("FAILED", "RUN_NOT_FOUND")
    assert "run-2" in run["errorMessage"]
    service.patch("/benchmarks/bench-001", {"datasetRef": None})
    run = service.complete_run()
    assert (run["status"], run["errorCode"]) == ("FAILED", "DATASET_NOT_FOUND")
    assert "datasetRef" in run["errorMessage"]
    [*_, first] = service.get("/local-datasets")["items"]
    service.delete(f"/local-datasets/{first['id']}")
    # The second run: its upload is the deleted one, and its stored traces are its own.
    assert len(by_trace(service, service.list_items(RUNS, status="COMPLETED")[-2])) == 1


def test_run_results__long_and_unusual_texts_are_returned_unchanged(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["ROUGE", "ACCURACY"])
    long = "x" * 1_000_000
    texts = ["\u202e😀 e\u0301", "'; DROP TABLE x; --", "\u0001\u0085\u2028", " ", long]
    service.upload([pair(n, expected=text, output=text) for n, text in enumerate(texts)])
    run = service.complete_run()
    assert (run["status"], run["validity"]) == ("COMPLETED", "VALID")
    rows = by_trace(service, run)
    assert [row["output"] for row in rows.values()] == texts
    assert rows["t-4"]["values"] == {"ROUGE": 1.0, "ACCURACY": 1.0, "ERROR_RATE": 0.0}


def test_run_results__a_page_of_long_texts_is_shortened(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "PAGE_BYTES", 8000)
    service.create_agent()
    service.create_benchmark(metrics=["ACCURACY"])
    service.upload([pair(n, expected="é", output="é" * 900) for n in range(12)])
    run = service.complete_run()
    first = service.get(f"{RUNS}/{run['id']}/results", limit=12)
    # Each row holds 1802 bytes of UTF-8, and 8000 are shown at once.
    assert [row["traceId"] for row in first["items"]] == ["t-0", "t-1", "t-2", "t-3"]
    assert list(by_trace(service, run)) == [f"t-{n}" for n in range(12)]


def test_run_results__pages_follow_the_order_of_the_source_across_shards(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Three shards; with the usual 2,000 traces in each there would be one.
    monkeypatch.setattr(shards, "SHARD_TRACES", 500)
    service.create_agent()
    service.create_benchmark(metrics=["ACCURACY"])
    outputs = ["right" if number % 3 else "wrong" for number in range(1203)]
    service.upload([pair(n, expected="right", output=out) for n, out in enumerate(outputs)])
    run = service.complete_run()
    assert (run["tracesProcessed"], run["metricsComputed"]) == (1203, 2 * 1203)
    rows = service.list_items(f"{RUNS}/{run['id']}/results", limit=200)
    assert [row["traceId"] for row in rows] == [f"t-{number}" for number in range(1203)]
    assert [row["values"]["ACCURACY"] for row in rows] == [float(out == "right") for out in outputs]
    assert by_metric(service, run)["ACCURACY"]["mean"] == pytest.approx(802 / 1203)
    service.expect_problem(422, "GET", f"{RUNS}/{run['id']}/results", params={"cursor": "x"})


@pytest.mark.parametrize("batch", [2, 2000])
def test_run__mean_is_that_of_the_items_in_one_batch_and_in_several(
    service: Service, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(aggregation, "TRACES_PER_READ", batch)
    service.create_agent()
    service.create_benchmark(metrics=["ACCURACY"])
    service.upload([pair(1, itemId="a"), pair(2, itemId="a", output="wrong"), pair(3, itemId="b")])
    aggregate = by_metric(service, service.complete_run())["ACCURACY"]
    # Item a has 1/2 and item b 1; the mean of the traces would be 2/3.
    assert (aggregate["mean"], aggregate["n"]) == (0.75, 3)


def test_run__wakes_its_event_streams_with_each_step(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["ACCURACY"])
    service.upload([pair(1), pair(2)])
    url = libpq_url(service.resources.db.url)
    with psycopg.connect(url, autocommit=True) as listener:
        listener.execute(f"LISTEN {CHANNEL}")
        run = service.complete_run()
        # The notifications of earlier commits come before this one.
        listener.execute("SELECT pg_notify(%s, 'end')", [CHANNEL])
        woken = []
        for notification in listener.notifies():
            if notification.payload == "end":
                break
            woken.append(notification.payload)
    # PENDING, RUNNING, one page of traces, one shard, COMPLETED.
    assert woken == [run["id"]] * 5
